"""A stream's window: its live rows as parallel arrays, with indexes beside them and payloads in segments.

Rows are in order of arrival, at positions `first .. end` of the arrays. Expired rows leave at the front; the
live rows are moved down when the arrays are full. Each row has a time, a number in each named column, and its
payload in a segment. Positions change only in `stage`, `expire` and `keep`, so they must be used before the
next such call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from windrow.kernels import window_arrays
from windrow.window.blocks import Blocks
from windrow.window.gather import fixed_width
from windrow.window.hash_index import HashIndex
from windrow.window.mapped_arrays import bytes_in_files, is_private
from windrow.window.payloads import columns_from, gather_columns, gather_sets
from windrow.window.postings import Postings
from windrow.window.segment import Payload, Segment, SortedRun, fit_one_segment, owned
from windrow.window.spill_files import SpillFiles, moved_down, moved_to_file, new_array
from windrow.window.thinned_segments import thinned

Array = np.ndarray
Index = TypeVar("Index", int, Array)
_SLACK = 1.5
_SMALLEST = 64
_ENDLESS, _SECOND = 1 << 62, 1_000_000


def roomy(rows: int) -> int:
    """A capacity with room for more rows."""
    return max(_SMALLEST, int(rows * _SLACK))


class WindowStore:
    """
    Parameters
    ----------
    schema
        Schema of the payload.
    columns
        Name and type of each number that is stored with a row, besides its time.
    span
        Window length in microseconds; None for row windows.
    sets
        For each list that is compared as a set, its name and a function that returns (sizes, elements) of a
        payload's rows.
    """

    def __init__(
        self,
        schema: pa.Schema,
        columns: Mapping[str, DTypeLike],
        span: int | None,
        sets: Mapping[str, Callable[[pa.RecordBatch], tuple[Array, Array]]] = MappingProxyType({}),
    ) -> None:
        self.schema = schema
        self.span = span
        self._row_bytes = sum(map(fixed_width, schema.types))
        self._readers = dict(sets)
        self.sorted_columns: tuple[str, ...] = ()
        self.indexes: dict[tuple[str, ...], HashIndex] = {}
        self.segments: list[Segment] = []
        self._staged: list[Segment] = []
        """The segments once the staged rows are added; empty if no rows are staged."""
        self.first = 0
        self.end = 0
        self._moved = 0
        self._disordered_until = 0
        self.blocks = Blocks()
        """Stored rows of the times and of the join columns."""
        self.files: SpillFiles | None = None
        """Where its arrays are, if they have spilled."""
        self.payload_files: SpillFiles | None = None
        """Where payloads go that eviction has copied."""
        self.largest_segment = _ENDLESS
        """Maximum bytes of a merged segment: merging takes memory."""
        self._weighed: tuple[int, int, int] | None = None
        """Cached bytes: in all, without spare capacity, and in files. None after a change."""
        self.ts: Array = np.empty(_SMALLEST, np.int64)
        self._columns: dict[str, Array] = {name: np.empty(_SMALLEST, kind) for name, kind in columns.items()}

    # -- contents -----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.end - self.first

    def column(self, name: str) -> Array:
        """A column of all rows, by position."""
        return self._columns[name]

    @property
    def column_types(self) -> dict[str, np.dtype]:
        return {name: column.dtype for name, column in self._columns.items()}

    @property
    def time_span(self) -> int:
        """The window length for kernels: practically infinite for row windows."""
        return _ENDLESS if self.span is None else self.span

    @property
    def covers(self) -> int:
        """The window length in microseconds; for a row window, the time that its rows currently cover."""
        if self.span is not None or len(self) < 2:
            return self.span or _SECOND
        held = self.ts[self.first : self.end]
        return max(1, int(held[-1] - held[0] if self.ordered else np.ptp(held)))

    @property
    def ordered(self) -> bool:
        """Whether the live rows ascend in time."""
        return self._disordered_until <= self._moved + self.first

    @property
    def disordered(self) -> int:
        """Number of live rows at the front to skip so that the rest ascend in time."""
        return max(0, self._disordered_until - self._moved - self.first)

    @disordered.setter
    def disordered(self, rows: int) -> None:
        self._disordered_until = self._moved + self.first + rows

    @property
    def nbytes(self) -> int:
        return self._weight[0]

    @property
    def nbytes_shrunk(self) -> int:
        """Bytes without spare capacity."""
        return self._weight[1]

    @property
    def bytes_in_files(self) -> int:
        """Bytes that are mapped from files and not held in memory."""
        return self._weight[2]

    @property
    def _weight(self) -> tuple[int, int, int]:
        if self._weighed is None:
            arrays, indexes = (self.ts, *self._columns.values()), self.indexes.values()
            whole = sum(int(part.nbytes) for each in (arrays, indexes, self.segments) for part in each)
            per_row = sum(a.itemsize for a in arrays) + sum(i.row_bytes for i in indexes)
            # What is mapped counts in the whole too, so that callers can subtract it.
            in_files = sum(part.bytes_in_files for each in (indexes, self.segments) for part in each)
            in_files += sum(map(bytes_in_files, arrays))
            self._weighed = whole, whole - (len(self.ts) - len(self)) * per_row, in_files
        return self._weighed

    @property
    def nbytes_of_rows(self) -> int:
        """Bytes that depend on the number of rows: without the heads of hash chains."""
        return self.nbytes_shrunk - sum(index.head.nbytes for index in self.indexes.values())

    def offset_of(self, segment: Segment) -> int:
        """Position of a segment's first row; below `first` if some of it has expired."""
        return segment.start - self._moved

    def number(self, position: Index) -> Index:
        """A number that stays with a row while its position changes; ascends in order of arrival."""
        return position + self._moved

    def position(self, number: Index) -> Index:
        """The current position of the row with this number."""
        return number - self._moved

    def gather(self, positions: Array, columns: Sequence[str] | None = None) -> list[pa.Array]:
        """Payload columns of the rows at `positions`."""
        names = self.schema.names if columns is None else columns
        return gather_columns(self.segments, self._moved, positions, self.schema, names)

    def gather_from(self, position: int, columns: Sequence[str]) -> list[pa.Array]:
        """Payload columns of the rows from `position` on; not copied if they are in one segment."""
        if position >= self.end:
            return self.gather(np.empty(0, np.int64), columns)
        return columns_from(self.segments, self.number(position), columns)

    def sets(self, name: str, positions: Array) -> tuple[Array, Array, Array]:
        """(starts, sizes, elements): the sets of this name of the rows at `positions`."""
        return gather_sets(self.segments, self._moved, positions, name)

    def live_payload(self) -> pa.Table:
        """The payload of every live row, in order."""
        return pa.Table.from_arrays(self.gather_from(self.first, self.schema.names), schema=self.schema)

    # -- changes ------------------------------------------------------------------------------------

    def index(self, by_hash: Mapping[tuple[str, ...], int | None], by_range: Collection[str]) -> None:
        """Keeps just these indexes: hash indexes over columns, with their buckets, and sorted runs."""
        self._weighed = None
        kept = {w: i for w, i in self.indexes.items() if w in by_hash and i.fixed_buckets == by_hash[w]}
        for names, buckets in by_hash.items():
            if names not in kept:
                kept[names] = HashIndex(names, buckets)
                kept[names].files = self.files
                kept[names].build(self._columns, self.first, self.end)
        self.indexes = kept
        if set(by_range) != set(self.sorted_columns):
            self.sorted_columns = tuple(sorted(by_range))
            self.segments = [self._indexed(s) for s in self._trimmed()]

    def stage(self, ts: Array, columns: Mapping[str, Array], payload: pa.RecordBatch) -> None:
        """Stores rows, ascending in time, beyond the window's end. Columns that are not given are 0. Several
        windows can do so at once."""
        if len(ts) == 0:
            return
        self._weighed = None
        self._reserve(len(ts))
        # `end` stays where it is: until the rows are added, no probe may find them.
        start, end = self.end, self.end + len(ts)
        self.ts[start:end] = ts
        for name, own in self._columns.items():
            own[start:end] = columns.get(name, 0)
        for index in self.indexes.values():
            index.append(self._columns, self.first, start, end)
        self._staged = self._merged(
            [*self.segments, self._segment(self._moved + start, owned(payload, self._row_bytes))]
        )

    def add_staged(self) -> int:
        """Makes staged rows a part of the window; returns the position of the first."""
        start = self.end
        if self._staged:
            self.segments, self._staged = self._staged, []
            self.end = self.segments[-1].end - self._moved
            # These rows ascend among themselves, so only those before them are out of order with the rest.
            if start > self.first and self.ts[start] < self.ts[start - 1]:
                self._disordered_until = self._moved + start
        return start

    def expire(self, horizon: int) -> int:
        """Removes the rows at the front that are older than `horizon`; returns their number."""
        before, ordered = self.first, self.ordered
        if before == self.end or (ordered and self.ts[before] >= horizon):
            return 0
        if ordered:
            self.first += int(self.ts[self.first : self.end].searchsorted(horizon))
        else:
            # Only rows at the front can go: one behind a younger row waits until that has expired too.
            self.first = window_arrays.skip_below(self.ts, self.first, self.end, horizon)
        self._forget_segments()
        return self.first - before

    def drop_front(self, count: int) -> None:
        """Removes the first `count` rows."""
        self.first += count
        self._forget_segments()

    def keep(self, alive: Array, tight: bool = False) -> None:
        """Removes the live rows whose entry in the mask `alive` is false, and if `tight` the spare capacity.
        Segments that lose no row are not copied."""
        positions = window_arrays.alive_positions(alive, self.first)
        if len(positions) == len(alive):
            return
        self._weighed = None
        self.blocks = Blocks(renumbered=True)
        ordered = self.ordered
        to_files = self.payload_files, self.largest_segment
        segments = thinned(self.segments, positions, self.ts, self._moved, self.end, *to_files)
        # Arrays that are mapped privately are replaced: to write to them would copy each of their pages.
        if tight := tight or is_private(self.ts):
            self._replace(lambda column: self._taken(column, positions))
        else:
            for column in (self.ts, *self._columns.values()):
                window_arrays.take_values(column, positions, column)
        # All rows get numbers that were never given before, so that an old number finds no other row.
        self._moved, self.first, self.end = self._moved + self.end, 0, len(positions)
        self._disordered_until = 0 if ordered else self._moved + self.end
        self.segments = [self.indexed(s) for s in segments]
        for index in self.indexes.values():
            index.build(self._columns, 0, self.end)
            index.links = Blocks(renumbered=True)
        if not tight:
            self._give_back()

    def adopt(self, ts: Array, columns: dict[str, Array], moved: int, first: int, end: int) -> None:
        """Takes over the arrays of stored rows, with the numbers `first` to `end`; the row at position 0 has
        the number `moved`. The window must be empty."""
        self.ts, self._columns, self._moved = ts, columns, moved
        self.first, self.end, self._weighed = first - moved, end - moved, None

    def put(self, segments: list[Segment]) -> None:
        """Replaces the segments by the same ones, with other parts of them in files."""
        self.segments, self._weighed = segments, None

    def spill_arrays(self, files: SpillFiles, part: float) -> None:
        """Moves times, columns and hash indexes to files. Skips arrays of which at least this fraction is in
        files already."""
        self.files, self._weighed = files, None
        self._replace(lambda column: moved_to_file(files, column, part))
        for index in self.indexes.values():
            index.spill(files, self._columns, part)

    def shrink(self) -> None:
        """Releases the spare capacity."""
        if len(self.ts) > len(self):
            self._move(len(self))

    # -- inside -------------------------------------------------------------------------------------

    def _segment(
        self, start: int, payload: pa.RecordBatch, sets: dict[str, Postings] | None = None
    ) -> Segment:
        a = start - self._moved
        oldest, newest, _ = window_arrays.time_bounds(self.ts[a : a + payload.num_rows])
        return self._indexed(Segment(start, Payload(payload), oldest, newest), sets)

    def _indexed(self, s: Segment, sets: dict[str, Postings] | None = None) -> Segment:
        """The segment with its sorted runs and its sets."""
        if not self.sorted_columns and not self._readers and not s.runs:
            return s
        a = self.offset_of(s)
        runs = {name: SortedRun.of(self.column(name)[a : a + s.rows]) for name in self.sorted_columns}
        if sets is None:
            sets = s.sets or {name: Postings.of(*read(s.payload)) for name, read in self._readers.items()}
        return replace(s, runs=runs, sets=sets, indexes_in_file=False)

    def indexed(self, s: Segment) -> Segment:
        """The segment with all its runs and sets; the same segment if it has them already."""
        complete = len(s.runs) == len(self.sorted_columns) and len(s.sets) == len(self._readers)
        return s if complete else self._indexed(s)

    def _trimmed(self) -> list[Segment]:
        """The segments without rows that have expired."""
        return [
            Segment(s.start + gone, Payload(owned(s.payload.slice(gone))), s.oldest, s.newest) if gone else s
            for s in self.segments
            for gone in [max(0, self.first - self.offset_of(s))]
        ]

    def _payload(self, positions: Array) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(self.gather(positions), schema=self.schema)

    def _merged(self, segments: list[Segment]) -> list[Segment]:
        """Merges the youngest segments while their sizes are similar, so that few remain and each row is
        copied only a few times. A segment covers at most an eighth of the window, so that expiry stays
        fine-grained."""
        while len(segments) > 1:
            older, newer = segments[-2:]
            held = newer.end - self._moved - self.first
            small = older.rows <= 2 * newer.rows and older.nbytes + newer.nbytes <= self.largest_segment
            if not small or not fit_one_segment(older, newer, self.span, held):
                break
            # Rows of the older segment that have expired are left out; its postings lose them as well.
            merged = pa.concat_batches([older.payload, newer.payload])
            gone = max(0, self.first - self.offset_of(older))
            if gone:
                merged = owned(merged.slice(gone))
            sets = {name: held.after(gone).joined(newer.sets[name]) for name, held in older.sets.items()}
            segments[-2:] = [self._segment(older.start + gone, merged, sets)]
        return segments

    def _forget_segments(self) -> None:
        self._weighed = None
        live = next((k for k, s in enumerate(self.segments) if self.offset_of(s) + s.rows > self.first), None)
        del self.segments[: len(self.segments) if live is None else live]
        if self.segments and self.segments[0].is_long(self.span, len(self)):
            oldest = self.segments[0]
            # A segment is freed as a whole. A long one would keep the payload of expired rows for too long,
            # so it is copied once more than half of it has expired.
            if 2 * (self.first - self.offset_of(oldest)) > oldest.rows:
                positions = np.arange(self.first, self.offset_of(oldest) + oldest.rows)
                self.segments[0] = self._segment(self._moved + self.first, self._payload(positions))
        self._give_back()

    def _give_back(self) -> None:
        """Releases memory if the capacity is more than four times the rows."""
        if len(self.ts) > _SMALLEST and len(self) * 4 < len(self.ts):
            self._move(roomy(len(self)))

    def _reserve(self, count: int) -> None:
        if self.end + count > len(self.ts):
            self._move(roomy(len(self) + count))

    def _move(self, capacity: int) -> None:
        """Moves the live rows to the front of arrays of this capacity."""
        self._weighed = None
        shift, live = self.first, len(self)
        self._replace(lambda column: moved_down(self.files, column, shift, live, capacity))
        for index in self.indexes.values():
            index.move(self._columns, shift, live, capacity)
        self._moved += shift
        self.first, self.end = 0, live

    def _taken(self, column: Array, positions: Array) -> Array:
        found = new_array(self.files, len(positions), column.dtype)
        window_arrays.take_values(column, positions, found)
        return found

    def _replace(self, change: Callable[[Array], Array]) -> None:
        """Replaces every array by the result of `change`."""
        self.ts = change(self.ts)
        self._columns = {name: change(column) for name, column in self._columns.items()}
