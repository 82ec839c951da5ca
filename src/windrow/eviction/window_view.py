"""What policies see: the live rows of each window and the results of a probe, never the operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

Array = np.ndarray
RowState = tuple[tuple[str, type[np.generic]], ...]
"""Columns a policy stores with each row, and their types."""
LEARNING_ROWS = 4096
"""Rows that are enough to learn from at a time."""
STEADY_ROWS = 1024
"""Rows that are enough where they are many and much the same from sub-batch to sub-batch."""


@dataclass(frozen=True)
class WindowView:
    """The live rows of one stream's window, in order of arrival."""

    stream: int
    ts: Array
    join_columns: Sequence[Array]
    """In the order of `BoundQuery.join_columns`."""
    row_state: Mapping[str, Array]
    """What the policy stores with each row; writable."""
    first_new: int
    """Rows from here on arrived in this sub-batch."""
    window_length: int
    """Window length in microseconds; for a window counted in rows, how long rows stay in it lately."""
    now: int
    """The newest event time."""
    elapsed: float
    """Seconds of event time since the end of the sub-batch before."""
    learn_stride: int
    """Models of a stream learn from every so-many-th row; 0: from none of this sub-batch. While memory is far
    from full some rows are enough."""
    learning: bool
    """Whether models learn in this sub-batch what rows find and how long they are held. Where windows are
    large, some sub-batches are enough."""
    payload: Callable[[Sequence[str], int], list[pa.Array]]
    """Columns by name, of the rows from a position on."""

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def exposure_stride(self) -> int:
        """One row in so many of those held is enough to learn how long rows are held."""
        return 1 if len(self) <= LEARNING_ROWS else len(self) // STEADY_ROWS

    def ages(self, rows: Array | slice = slice(None)) -> Array:
        """Seconds since each row's event time."""
        return (self.now - self.ts[rows]) / 1e6


@dataclass(frozen=True)
class ProbeResults:
    """Results of one probe, a row number per stream and result (as in the views)."""

    rows: Sequence[Array]
    views: Sequence[WindowView]

    def __len__(self) -> int:
        return len(self.rows[0])

    @property
    def newest(self) -> Array:
        """Event time of the newest row of each result."""
        return self._latest[0]

    @cached_property
    def stored(self) -> Sequence[Array]:
        """Per stream, a mask: the row is not the newest of its result, so it had to be held for it."""
        return [self._latest[1] != s for s in range(len(self.rows))]

    @cached_property
    def _latest(self) -> tuple[Array, Array]:
        """Time and stream of the newest row; at equal times the last of the streams."""
        newest = self.views[0].ts[self.rows[0]]
        stream = np.zeros(len(newest), np.int8)
        for s in range(1, len(self.rows)):
            times = self.views[s].ts[self.rows[s]]
            stream[times >= newest] = s
            newest = np.maximum(newest, times)
        return newest, stream
