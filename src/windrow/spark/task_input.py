"""Turns the union's Arrow batches into one batch per stream, without work per row.

A shuffle delivers the rows of one sender after the other, and a sender reads one stream. So nearly every
batch holds rows of a single stream and needs no filter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from windrow.engine.rows import event_times

ROUTE = "route"
"""The column of a row's partition and stream, as partition * 32 + stream. One column instead of two, because
every column of a row costs time on its way to Python."""
STREAM_BITS = 5
AHEAD = 16
"""Added to the stream number of a row that is too far ahead: it is counted and dropped."""
BEAT = (1 << STREAM_BITS) - 1
"""The stream number of a row that carries nothing but the task's partition."""
COPY = "copy"
"""The number of a row's copy, from 0. Present only if rows are copied."""
CONTENT = "content"
"""A hash of the row, which orders rows of equal time. Present only with row windows."""


@dataclass(frozen=True)
class TaskInput:
    """The input of a partition in a micro-batch."""

    partition: int | None
    """Read from the rows, which all carry it. Spark's own partition number is unreliable: Spark may run a
    task in one stage with a union, or several tasks as one. None only for a task of a batch query without
    rows."""
    rows: dict[int, pa.RecordBatch] = field(default_factory=dict)
    firsts: dict[int, np.ndarray] = field(default_factory=dict)
    """True for first copies, if rows are copied."""
    ahead: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Number of rows that were too far ahead, and of first copies among them."""
    ahead_rows: dict[int, pa.RecordBatch] = field(default_factory=dict)
    """First copies of rows that were too far ahead."""
    clock: int | None = None
    """The micro-batch's clock in microseconds since 1970, if beats carry it."""
    control_messages: tuple[str, ...] = ()
    """Control messages, in no order."""


def gather(
    batches: Iterator[pa.RecordBatch],
    schemas: Sequence[pa.Schema],
    slots: Sequence[Sequence[int]],
    text: int = -1,
    clock: str | None = None,
) -> TaskInput:
    """Reads all input. `slots` are each stream's columns in the union, and `text` is the column of control
    messages. These have the stream number after the last stream. `clock` is the column in which beats carry
    the micro-batch's clock."""
    partition: int | None = None
    pieces: dict[int, list[pa.RecordBatch]] = {}
    for batch in batches:
        if batch.num_rows == 0:
            continue
        if partition is None:
            partition = batch.column(ROUTE)[0].as_py() >> STREAM_BITS
        for stream, rows in _by_stream(batch):
            pieces.setdefault(stream, []).append(rows)
    beats = pieces.pop(BEAT, [])
    now = None if clock is None or not beats else int(event_times(beats[0].column(clock))[0])
    documents = [rows.column(text) for rows in pieces.pop(len(schemas), [])]
    messages = tuple(d for c in documents for d in c.to_pylist() if d)
    arrived = TaskInput(partition, control_messages=messages, clock=now)
    for stream in sorted(pieces):
        rows = pa.concat_batches(pieces.pop(stream))
        if stream >= AHEAD:
            copies = rows.column(COPY).to_numpy() if COPY in rows.schema.names else np.zeros(rows.num_rows)
            arrived.ahead[stream - AHEAD] = (rows.num_rows, int((copies == 0).sum()))
            firsts = rows.filter(pa.array(copies == 0))
            arrived.ahead_rows[stream - AHEAD] = _own(firsts, schemas[stream - AHEAD], slots[stream - AHEAD])
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
    # Types differ from the planned schema at most in the names of time zones and the widths of offsets.
    cast = [c if c.type == kind else c.cast(kind) for c, kind in zip(columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(cast, schema=schema)
