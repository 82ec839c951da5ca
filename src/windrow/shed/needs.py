"""Which rows results needed: of a sample of those that came lately, how old each stored row was by then.

With two streams a result needs one stored row, and it is enough to know how many results rows of each kind
bring. With more it needs one of every stream but the one that completed it, and these are not independent:
rows of one key are kept or given up together, and where streams lag behind each other the age of one row
tells that of the others. So results are remembered whole, as long as none is lost for lack of memory: those
that lost two rows are next to never seen, and what is left would look as if nothing had been lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.shed.view import Found, View

Array = np.ndarray
ROOM = 4096
"""Results that are remembered."""
SOME = 64
"""Of one probe."""


class Needs:
    def __init__(self, streams: int) -> None:
        self.ages = np.empty((0, streams))
        """Seconds, by result and stream; NaN of the row that completed the result."""
        self.weights = np.empty(0)
        """How many results each stands for."""
        self._times = np.empty((0, streams), np.int64)
        """Event times of the rows, by result and stream: policies ask how old rows are now."""
        self._words: list[list[Array]] = [[] for _ in range(streams)]
        """Per stream, the predicate's words of the rows."""

    def __len__(self) -> int:
        return len(self.weights)

    def add(self, found: Found) -> None:
        """Remembers some results of a probe."""
        which = np.arange(len(found) // SOME // 2, len(found), max(1, len(found) // SOME))
        ages, times = [], []
        for s, (view, rows, stored) in enumerate(zip(found.views, found.rows, found.stored, strict=True)):
            own = rows[which]
            times.append(view.ts[own])
            ages.append(np.where(stored[which], (found.newest[which] - times[s]) / 1e6, np.nan))
            before = self._words[s] or [words[:0] for words in view.words]
            self._words[s] = [_lately(b, words[own]) for b, words in zip(before, view.words, strict=True)]
        self.ages = _lately(self.ages, np.stack(ages, axis=1))
        self._times = _lately(self._times, np.stack(times, axis=1))
        self.weights = _lately(self.weights, np.full(len(which), len(found) / len(which)))

    def scores(self, views: Sequence[View], score: Callable[[View, Array], Array]) -> Array:
        """By result and stream, what a policy tells rows apart by, as it sees them now."""
        rows = np.arange(len(self))
        known = zip(views, self._times.T, self._words, strict=True)
        seen = [replace(view, ts=times, words=words) for view, times, words in known]
        return np.stack([score(view, rows) for view in seen], axis=1)

    def save(self) -> pa.RecordBatch:
        columns: dict[str, Any] = {"weight": self.weights}
        for s, words in enumerate(self._words):
            columns[f"age {s}"] = np.ascontiguousarray(self.ages[:, s])
            columns[f"time {s}"] = np.ascontiguousarray(self._times[:, s])
            columns |= {f"word {s} {k}": each for k, each in enumerate(words)}
        return pa.record_batch(columns)

    def load(self, part: pa.RecordBatch) -> None:
        named = {name: part.column(name).to_numpy().copy() for name in part.schema.names}
        streams = range(len(self._words))
        self.weights = named["weight"]
        self.ages = np.stack([named[f"age {s}"] for s in streams], axis=1)
        self._times = np.stack([named[f"time {s}"] for s in streams], axis=1)
        self._words = [
            [each for name, each in named.items() if name.startswith(f"word {s} ")] for s in streams
        ]


def _lately(before: Array, new: Array) -> Array:
    return np.concatenate([before, new])[-ROOM:]
