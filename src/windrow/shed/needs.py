"""Which rows results needed: of a sample of those that came lately, how old each stored row was by then.

With two streams a result needs one stored row, and it is enough to know how many results rows of each kind
bring. With more it needs one of every stream but the one that completed it, and these are not independent:
rows of one key are kept or given up together, and where streams lag behind each other the age of one row
tells that of the others. So results are remembered whole, as long as none is lost for lack of memory: those
that lost two rows are next to never seen, and what is left would look as if nothing had been lost.
"""

from __future__ import annotations

from collections.abc import Callable
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
        self.scores = np.empty((0, streams))
        """What their policy tells rows apart by."""
        self.weights = np.empty(0)
        """How many results each stands for."""

    def __len__(self) -> int:
        return len(self.weights)

    def add(self, found: Found, score: Callable[[View, Array], Array]) -> None:
        """Remembers some results of a probe."""
        which = np.arange(len(found) // SOME // 2, len(found), max(1, len(found) // SOME))
        ages, scores = [], []
        for view, rows, stored in zip(found.views, found.rows, found.stored, strict=True):
            own = rows[which]
            ages.append(np.where(stored[which], (found.newest[which] - view.ts[own]) / 1e6, np.nan))
            scores.append(score(view, own))
        each = np.full(len(which), len(found) / len(which))
        self.ages = np.concatenate([self.ages, np.stack(ages, axis=1)])[-ROOM:]
        self.scores = np.concatenate([self.scores, np.stack(scores, axis=1)])[-ROOM:]
        self.weights = np.concatenate([self.weights, each])[-ROOM:]

    def save(self) -> pa.RecordBatch:
        columns: dict[str, Any] = {"weight": self.weights}
        for stream in range(self.ages.shape[1]):
            columns[f"age {stream}"] = np.ascontiguousarray(self.ages[:, stream])
            columns[f"score {stream}"] = np.ascontiguousarray(self.scores[:, stream])
        return pa.record_batch(columns)

    def load(self, part: pa.RecordBatch) -> None:
        streams = range(self.ages.shape[1])
        self.weights = part.column("weight").to_numpy().copy()
        self.ages, self.scores = (
            np.stack([part.column(f"{name} {s}").to_numpy() for s in streams], axis=1)
            for name in ("age", "score")
        )
