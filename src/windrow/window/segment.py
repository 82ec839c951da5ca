"""Segments: the rows of a short span of time, immutable, with their payload as Arrow.

A segment has the number of its first row (`start`, counted from the window's first row ever), a sorted run
for each join column that is searched by range, and postings for each list that is searched as a set. Payloads
are read only when a result is built.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from windrow.window.gather import Chunk
from windrow.window.postings import Postings

Array = np.ndarray


@dataclass(frozen=True)
class SortedRun:
    """The rows of one segment in ascending order of one join column."""

    keys: Array
    rows: Array
    """Row numbers in the segment, int32, in the order of `keys`."""

    @classmethod
    def of(cls, values: Array) -> SortedRun:
        rows = np.argsort(values, kind="stable").astype(np.int32)
        return cls(values[rows], rows)

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes + self.rows.nbytes)


@dataclass(frozen=True)
class Segment:
    start: int
    payload: pa.RecordBatch
    oldest: int
    newest: int
    runs: dict[str, SortedRun] = field(default_factory=dict)
    """By join column."""
    sets: dict[str, Postings] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return int(self.payload.num_rows)

    @property
    def end(self) -> int:
        return self.start + self.rows

    @cached_property
    def chunks(self) -> dict[str, Chunk]:
        """Payload columns by name."""
        return dict(zip(self.payload.schema.names, map(Chunk, self.payload.columns), strict=True))

    @cached_property
    def nbytes(self) -> int:
        runs, sets = (
            sum(index.nbytes for index in each) for each in (self.runs.values(), self.sets.values())
        )
        return int(self.payload.get_total_buffer_size()) + runs + sets


def owned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in buffers of their own, unless they fill nearly all of theirs.

    A slice keeps its whole parent alive, and a window must not hold more memory than it counts.
    """
    if batch.num_rows and batch.get_total_buffer_size() > batch.nbytes * 9 // 8 + 512:
        return pa.concat_batches([batch, batch.slice(0, 0)])
    return batch
