"""Segments: the rows of a short span of time, immutable, with their payload as Arrow.

A segment has the number of its first row (`start`, counted from the window's first row ever), a sorted run
for each join column that is searched by range, and postings for each list that is searched as a set. Payloads
are read only when a result is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from windrow.window.gather import Chunk
from windrow.window.mapped_arrays import values_of
from windrow.window.postings import Postings
from windrow.window.spill_files import SpillFiles

Array = np.ndarray
SEGMENTS_PER_WINDOW = 8
_SMALLEST = 64


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

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """The run as a part of a state."""
        return pa.record_batch({"keys": self.keys, "rows": self.rows})

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch) -> SortedRun:
        found = cls(*map(values_of, batch.columns))
        found.__dict__["batch"] = batch  # recognised by identity when it is stored again
        return found


class Payload:
    """Rows as they arrived. `part` is what a state stores.

    Of a stored payload only the layout is known at first: `read` returns the rows verified, or raises an
    error if they are damaged.
    """

    def __init__(self, part: pa.RecordBatch, read: Callable[[], pa.RecordBatch] | None = None) -> None:
        self.part = part
        self._read = read
        self._rows = part

    def __len__(self) -> int:
        return int(self.part.num_rows)

    @property
    def is_read(self) -> bool:
        return self._read is None

    @property
    def rows(self) -> pa.RecordBatch:
        if (read := self._read) is not None:
            self._rows, self._read = read(), None  # `read` holds all files of the version
        return self._rows


@dataclass(frozen=True)
class Segment:
    start: int
    source: Payload
    oldest: int
    newest: int
    runs: dict[str, SortedRun] = field(default_factory=dict)
    """By join column."""
    sets: dict[str, Postings] = field(default_factory=dict)
    in_file: bool = False
    """Whether the payload is mapped from a local file."""
    indexes_in_file: bool = False

    @property
    def payload(self) -> pa.RecordBatch:
        return self.source.rows

    @property
    def is_read(self) -> bool:
        return self.source.is_read

    @property
    def part(self) -> pa.RecordBatch:
        """The payload as a part of a state, verified or not."""
        return self.source.part

    @cached_property
    def rows(self) -> int:
        return len(self.source)

    @property
    def end(self) -> int:
        return self.start + self.rows

    @cached_property
    def chunks(self) -> dict[str, Chunk]:
        """Payload columns by name."""
        return dict(zip(self.payload.schema.names, map(Chunk, self.payload.columns), strict=True))

    def is_long(self, span: int | None, live: int) -> bool:
        """Whether evictions have made it cover so much of a window, of this length and with `live` rows, that
        it should be trimmed before all its rows have expired."""
        if span is None:
            return self.rows * SEGMENTS_PER_WINDOW > 4 * max(_SMALLEST, live)
        return (self.newest - self.oldest) * SEGMENTS_PER_WINDOW > 2 * span

    @property
    def nbytes(self) -> int:
        return self._payload_bytes + self._index_bytes

    @property
    def bytes_in_files(self) -> int:
        return self._payload_bytes * self.in_file + self._index_bytes * self.indexes_in_file

    @cached_property
    def _payload_bytes(self) -> int:
        return int(self.part.get_total_buffer_size())

    @cached_property
    def _index_bytes(self) -> int:
        return sum(index.nbytes for each in (self.runs, self.sets) for index in each.values())

    def spilled(self, files: SpillFiles) -> Segment:
        """The segment with its payload in a file."""
        return replace(self, source=Payload(files.store([self.payload])[0]), in_file=True)

    def with_spilled_indexes(self, files: SpillFiles) -> Segment:
        """The segment with its runs and sets in a file."""
        indexes: list[SortedRun | Postings] = [*self.runs.values(), *self.sets.values()]
        stored = files.store([index.batch for index in indexes])
        return self.replaced({id(index.batch): batch for index, batch in zip(indexes, stored, strict=True)})

    def replaced(self, stored: Mapping[int, pa.RecordBatch]) -> Segment:
        """The segment with the parts in `stored`, found by identity, mapped from files."""
        runs = {n: SortedRun.from_batch(stored.get(id(r.batch), r.batch)) for n, r in self.runs.items()}
        sets = {n: Postings.from_batch(stored.get(id(s.batch), s.batch)) for n, s in self.sets.items()}
        return replace(
            self,
            source=Payload(stored[id(self.part)]) if id(self.part) in stored else self.source,
            in_file=self.in_file or id(self.part) in stored,
            runs=runs,
            sets=sets,
            indexes_in_file=self.indexes_in_file
            or all(id(index.batch) in stored for each in (self.runs, self.sets) for index in each.values()),
        )


def fit_one_segment(older: Segment, newer: Segment, span: int | None, held: int) -> bool:
    """Whether two segments of a window, of this length and with `held` rows, may be merged."""
    if span is None:
        return older.rows + newer.rows <= max(_SMALLEST, held // SEGMENTS_PER_WINDOW)
    covered = max(older.newest, newer.newest) - min(older.oldest, newer.oldest)
    return covered <= span // SEGMENTS_PER_WINDOW or older.rows + newer.rows <= _SMALLEST


def owned(batch: pa.RecordBatch, row_bytes: int = 0) -> pa.RecordBatch:
    """The same rows in buffers of their own, unless they fill nearly all of theirs. A row is known to have
    `row_bytes` or more; to measure it takes longer.

    A slice keeps its whole parent alive, and a window must not hold more memory than it counts.
    """
    held = batch.get_total_buffer_size()
    if batch.num_rows == 0 or _fill(batch.num_rows * row_bytes, held) or _fill(batch.nbytes, held):
        return batch
    return pa.concat_batches([batch, batch.slice(0, 0)])


def _fill(used: int, held: int) -> bool:
    """Whether so many bytes fill nearly all of a buffer."""
    return held <= used * 9 // 8 + 512
