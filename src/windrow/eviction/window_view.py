"""A policy's view of the windows: their live rows and the results of a probe, but never the operator."""

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
"""Maximum number of rows to learn from at a time."""
STEADY_ROWS = 1024
"""Number of rows that suffices where windows are large and change little between sub-batches."""


@dataclass(frozen=True)
class WindowView:
    """The live rows of one stream's window, in order of arrival."""

    stream: int
    ts: Array
    join_columns: Mapping[str, Array]
    """In the order of `BoundQuery.join_columns`."""
    row_state: Mapping[str, Array]
    """Columns that the policy stores with each row; writable."""
    first_new: int
    """Rows from here on arrived in this sub-batch."""
    window_length: int
    """Window length in microseconds; for a row window, how long rows currently stay."""
    now: int
    """The newest event time."""
    elapsed: float
    """Seconds of event time since the end of the sub-batch before."""
    learn_stride: int
    """Models learn from every `learn_stride`-th row of the stream; 0: from none of this sub-batch. While
    memory is far from full, a part of the rows suffices."""
    learning: bool
    """Whether models learn match rates and exposure in this sub-batch. Where windows are large, a part of the
    sub-batches suffices."""
    rng: np.random.Generator
    """Of the sub-batch; seeded by its number, so that a replay draws the same."""
    payload: Callable[[Sequence[str], int], list[pa.Array]]
    """Columns by name, of the rows from a position on."""

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def new(self) -> slice:
        """The rows that arrived in this sub-batch."""
        return slice(self.first_new, len(self))

    @property
    def new_count(self) -> int:
        return len(self) - self.first_new

    @property
    def exposure_stride(self) -> int:
        """Exposure is learned from every `exposure_stride`-th row held."""
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
        """Per stream, a mask: the row is not the newest of its result, so it had to be held."""
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
