"""Rows of a level's stream that were shed, remembered by key: the newest event time of each set of keys.

A decision is certain if no shed row with the key it looks up lies in its window. Keys that share a set share
their losses, so a decision may be uncertain without need, but never certain without proof.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from windrow.engine.partial_matches import MISSING
from windrow.engine.watermarks import EARLIEST
from windrow.engine.windows import Windows
from windrow.kernels.admission_units import UNITS, units_of
from windrow.model.stateful import Stateful
from windrow.planning.levels import LevelStep
from windrow.window.hash_index import mix_columns

Array = np.ndarray


class Losses(Stateful):
    """Rows shed of one level's stream."""

    saved = ("until",)

    def __init__(self, plan: LevelStep) -> None:
        self._equalities = plan.equalities
        self.until = np.full(UNITS if plan.equalities else 1, EARLIEST)
        """Per set of keys, the newest event time of a shed row."""

    @property
    def any(self) -> bool:
        return bool(self.until.max() > EARLIEST)

    def add(self, ts: Array, columns: Mapping[str, Array]) -> None:
        """Rows with these times and join columns are shed."""
        until = self.until.copy()
        np.maximum.at(until, self._sets([columns[e.own.name] for e in self._equalities], len(ts)), ts)
        self.until = until

    def last(self, windows: Windows, rows: Mapping[int, Array], count: int) -> Array:
        """Newest event time of a shed row that may match, for each of `count` combinations."""
        found = np.full(count, int(self.until.max()))
        there = np.ones(count, bool)
        for stream in {e.bound.stream for e in self._equalities}:
            there &= rows[stream] != MISSING
        bound = [
            windows[e.bound.stream].column(e.bound.name)[rows[e.bound.stream][there]]
            for e in self._equalities
        ]
        found[there] = self.until[self._sets(bound, int(np.count_nonzero(there)))]
        return found

    def _sets(self, columns: list[Array], count: int) -> Array:
        return units_of(mix_columns(columns)) if columns else np.zeros(count, np.int64)
