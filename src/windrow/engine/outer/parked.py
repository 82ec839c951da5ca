"""Parked combinations: rows of the core that a later row may still match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from windrow.model.stateful import Stateful

Array = np.ndarray


@dataclass(frozen=True)
class Parked(Stateful):
    """Columns, one entry per combination."""

    rows: Mapping[int, Array]
    """Stream to row numbers, which stay valid when rows move."""
    newest: Array
    """Time of the newest row."""
    latest: Array
    """Earliest end of the rows' windows: no later row can match."""

    @classmethod
    def none(cls, core: tuple[int, ...]) -> Parked:
        nothing = np.empty(0, np.int64)
        return cls(dict.fromkeys(core, nothing), nothing, nothing)

    def __len__(self) -> int:
        return len(self.newest)

    @property
    def nbytes(self) -> int:
        return (len(self.rows) + 2) * self.newest.nbytes

    def plus(self, more: Parked) -> Parked:
        return Parked(
            {s: np.concatenate([numbers, more.rows[s]]) for s, numbers in self.rows.items()},
            np.concatenate([self.newest, more.newest]),
            np.concatenate([self.latest, more.latest]),
        )

    def where(self, mask: Array) -> Parked:
        return Parked({s: n[mask] for s, n in self.rows.items()}, self.newest[mask], self.latest[mask])

    def with_rows(self, stream: int, numbers: Array) -> Parked:
        return Parked({**self.rows, stream: numbers}, self.newest, self.latest)
