"""Runs in a Python worker before the shuffle: reads files and packs rows into one blob per partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from windrow.engine.rows import RowReader, event_times
from windrow.expr.failures import Failure, failed_rows
from windrow.kernels.partition_rows import order_by_partition
from windrow.planning.bound_query import BoundQuery
from windrow.spark.files.blobs import BlobKind, blob_schema, pack
from windrow.spark.files.file_stream import LATEST, PART, PARTS, PATH
from windrow.spark.files.places import PlaceFinder
from windrow.spark.files.reader import FileReader
from windrow.spark.union import AHEAD, ROUTE, STREAM_BITS, UnionColumns

CHUNK_ROWS = 1 << 20
CHUNK_BYTES = 1 << 26
"""Small files are partitioned together up to these sizes, large files in pieces of them."""
BLOB_BYTES = 1 << 24


@dataclass(frozen=True)
class PackTask:
    """Reads the files of one stream.

    Parameters
    ----------
    copies
        Expected copies of a row.
    filtered
        The join, if rows that no result can contain are detected here and sent as times only.
    """

    reader: FileReader
    finder: PlaceFinder
    union: UnionColumns
    partitions: int
    copies: float
    filtered: BoundQuery | None

    @property
    def _time(self) -> str:
        return self.union.blob_times[self.finder.stream]

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        size = 0
        skipped = 0
        latest: int | None = None
        for batch in batches:
            if LATEST in batch.schema.names and batch.num_rows:
                latest = int(event_times(batch.column(LATEST).slice(0, 1))[0])
            for file in batch.select([PATH, PART, PARTS]).to_pylist():
                for rows in self.reader.read(**file):
                    if rows is None:
                        skipped += file[PART] == 0  # once, however many tasks read the file
                        continue
                    held.append(rows)
                    size += rows.num_rows
                    if size >= CHUNK_ROWS or sum(r.nbytes for r in held) >= CHUNK_BYTES:
                        yield from self._packed(held, latest)
                        held, size = [], 0
        if size:
            yield from self._packed(held, latest)
        if skipped:
            zeros = pa.array(np.zeros(skipped, np.int32))
            files = pa.RecordBatch.from_arrays([zeros], schema=self._schema(BlobKind.FILES))
            yield self._as_union(pack([(BlobKind.FILES, files)]), [self.finder.stream + AHEAD])

    def _packed(self, held: list[pa.RecordBatch], latest: int | None) -> Iterator[pa.RecordBatch]:
        rows = held[0] if len(held) == 1 else pa.concat_batches(held)
        per_row = max(1, rows.nbytes // max(1, rows.num_rows))
        # Copying multiplies the rows, so chunks shrink by the expected copies.
        most = max(1, int(CHUNK_BYTES // (per_row * self.copies)))
        for start in range(0, rows.num_rows, most):
            yield self._chunk(rows.slice(start, most), latest, max(1, BLOB_BYTES // per_row))

    def _chunk(self, rows: pa.RecordBatch, latest: int | None, most: int) -> pa.RecordBatch:
        """Blobs of at most `most` rows each, with their routes."""
        places = self.finder.partitions(rows)
        source, copies = None, None  # of each copy: its row and its number
        if places.starts is not None:
            counts = np.diff(places.starts)
            source = np.repeat(np.arange(rows.num_rows), counts)
            copies = (np.arange(len(source)) - np.repeat(places.starts[:-1], counts)).astype(np.int32)
        elif self.union.copied:
            copies = np.zeros(rows.num_rows, np.int32)
        kinds = self._kinds(rows, latest)
        if kinds is not None and source is not None:
            kinds = kinds[source]
        # One pass sorts by partition and by kind of blob.
        width = 1 if kinds is None else len(BlobKind)
        groups = places.values if kinds is None else places.values * width + kinds
        ends = np.zeros(self.partitions * width, np.int64)
        order = np.empty(len(groups), np.int64)
        order_by_partition(groups, ends, order)
        columns = [*rows.columns, pa.array(self.finder.content(rows))] if self.union.ordered else rows.columns
        taken = pa.array(order if source is None else source[order])
        columns = [column.take(taken) for column in columns]
        if copies is not None:
            columns.insert(len(rows.columns), pa.array(copies[order]))
        sorted_rows = pa.RecordBatch.from_arrays(columns, schema=self._schema(BlobKind.ROWS))
        routes: list[int] = []
        parts: list[tuple[BlobKind, pa.RecordBatch]] = []
        start = 0
        for group, end in enumerate(ends.tolist()):
            partition, kind = group // width, BlobKind(group % width)
            stream = self.finder.stream + (AHEAD if kind is BlobKind.AHEAD else 0)
            for first in range(start, end, most):
                piece = sorted_rows.slice(first, min(most, end - first))
                parts.append((kind, self._times_of(piece) if kind is BlobKind.TIMES else piece))
                routes.append(partition << STREAM_BITS | stream)
            start = end
        return self._as_union(pack(parts), routes)

    def _kinds(self, rows: pa.RecordBatch, latest: int | None) -> np.ndarray | None:
        """The kind of blob for each row; None if all rows are sent in full."""
        kinds: np.ndarray | None = None
        times = rows.column(self._time)
        if self.filtered is not None:
            reader = RowReader(self.filtered, self.finder.stream)
            failures: list[Failure] = []
            joinable = reader.read(event_times(times), rows, failures).joinable
            if joinable is not None and not joinable.all():
                # Rows for which an expression fails are sent in full: the join counts them, or reports one.
                whole = joinable | failed_rows(failures, len(joinable))
                kinds = np.where(whole, BlobKind.ROWS, BlobKind.TIMES)
        if latest is not None:
            ahead = event_times(times) > latest
            if ahead.any():
                ahead &= times.is_valid().to_numpy(zero_copy_only=False)
                kinds = np.where(ahead, BlobKind.AHEAD, BlobKind.ROWS if kinds is None else kinds)
        return kinds

    def _schema(self, kind: BlobKind) -> pa.Schema:
        return blob_schema(kind, self.reader.schema, self._time, self.union.copied, self.union.ordered)

    def _times_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [rows.column(self._time)]
        if self.union.copied:
            columns.append(rows.column(len(self.reader.schema)))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema(BlobKind.TIMES))

    def _as_union(self, blobs: pa.Array, routes: list[int]) -> pa.RecordBatch:
        schema = to_arrow_schema(self.union.schema, timezone="UTC")
        slot = self.union.slots[self.finder.stream][0]
        held = {slot: blobs, schema.get_field_index(ROUTE): pa.array(routes, pa.int32())}
        zeros = np.zeros(len(routes))
        columns = [
            held[k]
            if k in held
            else pa.nulls(len(routes), f.type)
            if f.nullable
            else pa.array(zeros.astype(f.type.to_pandas_dtype()))
            for k, f in enumerate(schema)
        ]
        return pa.RecordBatch.from_arrays(columns, schema.names)
