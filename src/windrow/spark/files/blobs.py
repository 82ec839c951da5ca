"""Rows in columns as binary values, several batches in one Arrow array, and back.

A blob is its kind in 8 bytes, then an Arrow IPC message. The schema is not sent, because both sides know it.
All sizes are multiples of 8, so that unpacked buffers are aligned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

import numpy as np
import pyarrow as pa

_ALIGNED = 8


class BlobKind(IntEnum):
    ROWS = 0
    """All columns."""
    TIMES = 1
    """Only times, of rows that no result can contain: they are counted and advance the event time."""
    AHEAD = 2
    """All columns, of rows too far ahead."""
    FILES = 3
    """A zero for every file that was skipped."""


def blob_schema(kind: BlobKind, rows: pa.Schema, time: str, copied: bool, ordered: bool) -> pa.Schema:
    """The columns of a blob. `copied` adds numbers of copies, `ordered` a hash of each row's content."""
    if kind is BlobKind.FILES:
        return pa.schema([("skipped", pa.int32())])
    fields = [rows.field(time)] if kind is BlobKind.TIMES else list(rows)
    # Read by position, because the stream may have columns of these names.
    if copied:
        fields.append(pa.field("copy", pa.int32()))
    if ordered and kind is not BlobKind.TIMES:
        fields.append(pa.field("content", pa.int64()))
    return pa.schema(fields)


def pack(batches: Sequence[tuple[BlobKind, pa.RecordBatch]]) -> pa.Array:
    """One blob per batch. Copies each row once."""
    sink = pa.BufferOutputStream()
    writers = {kind: pa.ipc.new_stream(sink, batch.schema) for kind, batch in dict(batches).items()}
    # A writer writes its schema before its first batch. An empty one here keeps it out of the blobs.
    for kind, batch in dict(batches).items():
        writers[kind].write_batch(batch.slice(0, 0))
    offsets = [sink.tell()]
    for kind, batch in batches:
        sink.write(int(kind).to_bytes(_ALIGNED, "little"))
        writers[kind].write_batch(batch)
        offsets.append(sink.tell())
    ends = pa.py_buffer(np.array(offsets, np.int32))
    return pa.Array.from_buffers(pa.binary(), len(batches), [None, ends, sink.getvalue()])


@dataclass(frozen=True)
class Unpacked:
    """Rows of a stream."""

    rows: pa.RecordBatch
    copies: pa.Array | None
    """The number of each row's copy, if rows are copied."""
    content: pa.Array | None
    """A hash of each row, if rows of equal time need an order."""
    skipped: int = 0
    """Number of files that could not be read."""


def unpack(blobs: Sequence[pa.Array], rows: pa.Schema, time: str, copied: bool, ordered: bool) -> Unpacked:
    """The rows in blobs. If only the time was sent, the other columns are null."""
    schemas = {kind: blob_schema(kind, rows, time, copied, ordered) for kind in BlobKind}
    found = []
    skipped = 0
    for kind, batch in _batches(blobs, schemas):
        if kind is BlobKind.FILES:
            skipped += batch.num_rows
            continue
        found.append(_padded(batch, schemas[BlobKind.ROWS], time) if kind is BlobKind.TIMES else batch)
    whole = pa.concat_batches(found or [pa.RecordBatch.from_pylist([], schema=schemas[BlobKind.ROWS])])
    return Unpacked(
        pa.RecordBatch.from_arrays(whole.columns[: len(rows)], schema=rows),
        whole.column(len(rows)) if copied else None,
        whole.column(-1) if ordered else None,
        skipped,
    )


def _batches(
    blobs: Sequence[pa.Array], schemas: Mapping[BlobKind, pa.Schema]
) -> Iterator[tuple[BlobKind, pa.RecordBatch]]:
    # Concatenating several batches copies them. A single batch would stay a view, and keep the blobs of all
    # streams in memory.
    single = sum(map(len, blobs)) == 1
    for array in blobs:
        _, ends, data = array.buffers()
        offsets = np.frombuffer(ends, np.int32)[array.offset : array.offset + len(array) + 1]
        for first, end in pairwise(offsets.tolist()):
            blob = data.slice(first, end - first)
            if single or blob.address % _ALIGNED:
                blob = pa.py_buffer(blob.to_pybytes())
            kind = BlobKind(int.from_bytes(blob.slice(0, _ALIGNED).to_pybytes(), "little"))
            yield kind, pa.ipc.read_record_batch(blob.slice(_ALIGNED), schemas[kind])


def _padded(times: pa.RecordBatch, schema: pa.Schema, time: str) -> pa.RecordBatch:
    """Times, with nulls in all other columns except the numbers of copies, which are last."""
    held = {schema.get_field_index(time): times.column(0)}
    if times.num_columns > 1:
        held[len(schema) - 1] = times.column(1)
    columns = [held[k] if k in held else pa.nulls(times.num_rows, f.type) for k, f in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
