"""Rows that were dropped because of their time: too late, or too far ahead of the clock.

They form one table for all streams of a join, whose columns are fixed:

    stream          alias of the stream
    reason          "late" or "ahead"
    event_time      of the row
    watermark       the oldest event time that was admitted; for a row too far ahead, the newest
    needed_seconds  the smallest `late` (or `ahead`) that would have kept the row; null if none would have
    <alias>         a struct column per stream: the row itself, null in rows of other streams
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from windrow.engine.rows import event_times
from windrow.errors import Option, QueryError
from windrow.model.query import Query

LATE: Literal["late"] = "late"
AHEAD: Literal["ahead"] = "ahead"
STREAM, REASON, NEEDED = "stream", "reason", "needed_seconds"
_TIME = pa.timestamp("us", "UTC")
COLUMNS = pa.schema(
    [
        (STREAM, pa.string()),
        (REASON, pa.string()),
        ("event_time", _TIME),
        ("watermark", _TIME),
        (NEEDED, pa.float64()),
    ]
)


@dataclass(frozen=True)
class DroppedRows:
    """Rows of one stream that one call dropped for one reason."""

    stream: int
    reason: Literal["late", "ahead"]
    rows: pa.RecordBatch
    bound: int
    """The oldest time that the call admitted or, for rows too far ahead, the newest."""
    origin: int | None
    """The event time that `late` was subtracted from, or the clock that `ahead` was added to. None if
    `finish` had closed the stream, so that no `late` would have kept the rows."""


def late_rows_table(
    query: Query, schemas: Sequence[pa.Schema | None], dropped: Iterable[DroppedRows]
) -> pa.Table:
    own = [pa.null() if schema is None else pa.struct(list(schema)) for schema in schemas]
    schema = pa.schema([*COLUMNS, *(pa.field(a, k) for a, k in zip(query.aliases, own, strict=True))])
    return pa.Table.from_batches([_batch(query, schema, each) for each in dropped], schema)


def check_late_rows_names(query: Query) -> None:
    """Refuse aliases that are names of columns. Spark ignores case."""
    for alias in query.aliases:
        if alias.lower() in COLUMNS.names:
            raise QueryError(
                f"late rows have a column '{alias.lower()}' of their own; rename the stream '{alias}'",
                Option("late_rows"),
            )


def _batch(query: Query, schema: pa.Schema, dropped: DroppedRows) -> pa.RecordBatch:
    alias, count = query.aliases[dropped.stream], dropped.rows.num_rows
    ts = event_times(dropped.rows.column(query.streams[alias].time))
    if dropped.origin is None:
        needed = pa.nulls(count, pa.float64())
    else:
        needed = pa.array(np.abs(dropped.origin - ts) / 1_000_000)
    columns = {
        STREAM: pa.repeat(alias, count),
        REASON: pa.repeat(dropped.reason, count),
        "event_time": pa.array(ts).cast(_TIME),
        "watermark": pa.repeat(pa.scalar(dropped.bound).cast(_TIME), count),
        NEEDED: needed,
        alias: dropped.rows.to_struct_array(),
    }
    arrays = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
