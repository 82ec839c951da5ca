"""Turns the union's Arrow batches into one batch per stream, without work per row.

A shuffle delivers the rows of one sender after the other, and a sender reads one stream. So nearly every
batch holds rows of a single stream and needs no filter. Rows of files arrive in blobs, many in each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from windrow.engine.rows import event_times
from windrow.spark.files.blobs import Unpacked, unpack
from windrow.spark.union import AHEAD, BEAT, CONTENT, COPY, ROUTE, STREAM_BITS, UnionColumns


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
    files_skipped: dict[int, int] = field(default_factory=dict)
    """Files that could not be read, if this partition is the one that counts them."""
    control_messages: tuple[str, ...] = ()
    """Control messages, in no order."""


def gather(batches: Iterator[pa.RecordBatch], schemas: Sequence[pa.Schema], union: UnionColumns) -> TaskInput:
    """Read all input. Control messages have the stream number after the last stream."""
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
    now = None if union.clock is None or not beats else _clock(beats[0].column(union.clock))
    columns = [rows.column(union.text) for rows in pieces.pop(len(schemas), [])]
    messages = tuple(text for column in columns for text in column.to_pylist() if text)
    arrived = TaskInput(partition, control_messages=messages, clock=now)
    for stream in sorted(pieces):
        own = stream % AHEAD
        found = _unpacked(pieces.pop(stream), own, schemas[own], union)
        rows, copies = found.rows, found.copies
        if stream >= AHEAD:
            if found.skipped:
                arrived.files_skipped[own] = found.skipped
            if rows.num_rows:
                firsts = rows if copies is None else rows.filter(pa.array(copies.to_numpy() == 0))
                arrived.ahead[own] = (rows.num_rows, firsts.num_rows)
                arrived.ahead_rows[own] = firsts
            continue
        if found.content is not None:
            order = pa.array(np.argsort(found.content.to_numpy(), kind="stable"))
            rows, copies = rows.take(order), None if copies is None else copies.take(order)
        if copies is not None:
            arrived.firsts[own] = copies.to_numpy() == 0
        arrived.rows[own] = rows
    return arrived


def _clock(column: pa.Array) -> int:
    """Microseconds, from a timestamp, or from text if the union has only blobs."""
    blobs = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    return int(column[0].as_py()) if blobs else int(event_times(column)[0])


def _by_stream(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    streams = batch.column(ROUTE).to_numpy() & ((1 << STREAM_BITS) - 1)
    first = int(streams[0])
    if (streams == first).all():
        yield first, batch
        return
    for stream in np.unique(streams):
        yield int(stream), batch.filter(pa.array(streams == stream))


def _unpacked(
    held: Sequence[pa.RecordBatch], stream: int, schema: pa.Schema, union: UnionColumns
) -> Unpacked:
    slots = union.slots[stream]
    if stream in union.blob_times:
        blobs = [batch.column(slots[0]).cast(pa.binary()) for batch in held]
        return unpack(blobs, schema, union.blob_times[stream], union.copied, union.ordered)
    rows = pa.concat_batches(held)
    columns = [rows.column(slot) for slot in slots]
    # Types differ from the planned schema at most in the names of time zones and the widths of offsets.
    cast = [c if c.type == kind else c.cast(kind) for c, kind in zip(columns, schema.types, strict=True)]
    return Unpacked(
        pa.RecordBatch.from_arrays(cast, schema=schema),
        rows.column(COPY) if union.copied else None,
        rows.column(CONTENT) if union.ordered else None,
    )
