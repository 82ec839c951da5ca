"""From the union's Arrow batches to one batch per stream, without a step per row.

A shuffle hands over one sender's rows after the other, and a sender reads one stream; so nearly every batch
holds rows of a single stream and is taken as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

ROUTE = "route"
"""Where a row goes and where it came from: partition x 32 + stream. One column, since every column of every
row costs on its way to Python."""
STREAM_BITS = 5
AHEAD = 16
"""Added to the number of the stream of a row that is too far ahead: it is counted and goes no further."""
BEAT = (1 << STREAM_BITS) - 1
"""In place of a stream: a row that only tells a task its partition."""
COPY = "copy"
"""Which copy of the row this is, from 0. Only where rows are copied."""
CONTENT = "content"
"""A hash of the row, to order rows of one time by. Only where windows are row windows."""


@dataclass(frozen=True)
class TaskInput:
    """What a partition got in a batch."""

    partition: int | None
    """Its number stands in every row. Nothing else tells it for sure, since Spark may run a task in one stage
    with a union, or several in one task. None only of a batch DataFrame, for a task without rows."""
    rows: dict[int, pa.RecordBatch] = field(default_factory=dict)
    firsts: dict[int, np.ndarray] = field(default_factory=dict)
    """Which rows are first copies, where rows are copied."""
    ahead: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Rows that were too far ahead, and how many of them were first copies."""
    control_messages: tuple[str, ...] = ()
    """Control messages, in no order."""


def gather(
    batches: Iterator[pa.RecordBatch],
    schemas: Sequence[pa.Schema],
    slots: Sequence[Sequence[int]],
    text: int = -1,
) -> TaskInput:
    """Reads all input. `slots` says for each stream which columns of the union are its own, `text` which
    column holds control messages, in rows of a stream after all others."""
    partition: int | None = None
    pieces: dict[int, list[pa.RecordBatch]] = {}
    for batch in batches:
        if batch.num_rows == 0:
            continue
        if partition is None:
            partition = batch.column(ROUTE)[0].as_py() >> STREAM_BITS
        for stream, rows in _by_stream(batch):
            pieces.setdefault(stream, []).append(rows)
    pieces.pop(BEAT, None)
    documents = [rows.column(text) for rows in pieces.pop(len(schemas), [])]
    arrived = TaskInput(partition, control_messages=tuple(d for c in documents for d in c.to_pylist() if d))
    for stream in sorted(pieces):
        rows = pa.concat_batches(pieces.pop(stream))
        if stream >= AHEAD:
            copies = rows.column(COPY).to_numpy() if COPY in rows.schema.names else np.zeros(rows.num_rows)
            arrived.ahead[stream - AHEAD] = (rows.num_rows, int((copies == 0).sum()))
            continue
        if CONTENT in rows.schema.names:
            rows = rows.take(pa.array(np.argsort(rows.column(CONTENT).to_numpy(), kind="stable")))
        if COPY in rows.schema.names:
            arrived.firsts[stream] = rows.column(COPY).to_numpy() == 0
        arrived.rows[stream] = _own(rows, schemas[stream], slots[stream])
    return arrived


def _by_stream(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    streams = batch.column(ROUTE).to_numpy() & ((1 << STREAM_BITS) - 1)
    first = int(streams[0])
    if (streams == first).all():
        yield first, batch
        return
    for stream in np.unique(streams):
        yield int(stream), batch.filter(pa.array(streams == stream))


def _own(rows: pa.RecordBatch, schema: pa.Schema, slots: Sequence[int]) -> pa.RecordBatch:
    columns = [rows.column(slot) for slot in slots]
    # Only the names of time zones and the widths of offsets can differ from the schema that was planned with.
    cast = [c if c.type == kind else c.cast(kind) for c, kind in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(cast, schema=schema)
