"""Buffered rows: not processable yet, because a schema is missing or an earlier row may still arrive."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windrow.engine.watermarks import Watermarks, horizons
from windrow.errors import DataError
from windrow.model.limits import MemoryLimit
from windrow.model.query import Query

Array = np.ndarray


class InputBuffer:
    """Buffered rows of one stream in arrival order, with their times and call numbers."""

    def __init__(self) -> None:
        self.parts: list[tuple[Array, pa.RecordBatch, Array]] = []

    def __len__(self) -> int:
        return sum(len(ts) for ts, _, _ in self.parts)

    @property
    def nbytes(self) -> int:
        return sum(ts.nbytes + rows.nbytes for ts, rows, _ in self.parts)

    def add(self, ts: Array, rows: pa.RecordBatch, calls: Array) -> None:
        self.parts.append((ts, rows, calls))

    def merged(self, schema: pa.Schema | None) -> tuple[Array, pa.RecordBatch, Array]:
        """All buffered rows in time order; rows of equal time stay in arrival order."""
        if not self.parts:
            assert schema is not None
            empty = np.empty(0, np.int64)
            return empty, pa.RecordBatch.from_pylist([], schema=schema), empty
        if len(self.parts) == 1:
            return self.parts[0]
        ts = np.concatenate([t for t, _, _ in self.parts])
        rows = pa.concat_batches([r for _, r, _ in self.parts])
        calls = np.concatenate([c for _, _, c in self.parts])
        order = np.argsort(ts, kind="stable")
        return ts[order], rows.take(pa.array(order)), calls[order]

    def release(self, before: int | None, schema: pa.Schema | None) -> tuple[Array, pa.RecordBatch, Array]:
        """Remove and return the rows older than `before`; all of them if None."""
        ts, rows, calls = found = self.merged(schema)
        if before is None:
            self.parts = []
            return found
        count = int(np.searchsorted(ts, before, side="left"))
        self.parts = [(ts[count:], rows.slice(count), calls[count:])] if count < len(ts) else []
        return ts[:count], rows.slice(0, count), calls[:count]


def numbered_rows(times: Sequence[Array], calls: Sequence[Array], first: int) -> list[Array]:
    """Number rows of all streams from `first` on: by time, then by call, then by stream."""
    stream = np.repeat(np.arange(len(times)), [len(ts) for ts in times])
    numbers = np.empty(len(stream), np.int64)
    order = np.lexsort((stream, np.concatenate(calls), np.concatenate(times)))
    numbers[order] = first + np.arange(len(stream))
    return np.split(numbers, np.cumsum([len(ts) for ts in times])[:-1])


def expire_buffered(
    buffers: Sequence[InputBuffer], query: Query, watermarks: Watermarks, schemas: Sequence[pa.Schema | None]
) -> list[int]:
    """Expire rows that wait for a stream's first rows as if they were in a window: once `idle` rules out a
    match. Return how many expired, per stream."""
    expired = [0 for _ in buffers]
    if query.idle_timeout_us is None or query.counts_rows or query.kind.shapes:
        return expired
    spans = [s.window.size if s.window.is_time else None for s in query.streams.values()]
    for s, horizon in enumerate(horizons([watermarks.watermark(s) for s in range(len(buffers))], spans)):
        if horizon is not None and len(buffers[s]):
            expired[s] = len(buffers[s].release(horizon, schemas[s])[0])
    return expired


def check_nothing_buffered(
    buffers: Sequence[InputBuffer], query: Query, schemas: Sequence[pa.Schema | None]
) -> None:
    """Raise if rows of an outer join wait for a stream that was never seen: they must not be lost."""
    unseen = [alias for alias, schema in zip(query.aliases, schemas, strict=True) if schema is None]
    if unseen and any(map(len, buffers)):
        raise DataError(
            f"streams {unseen} never arrived, so their columns are unknown and rows of the others cannot be "
            "returned without them; give Operator(query, schemas={...})"
        )


def warn_if_large(buffers: Sequence[InputBuffer], query: Query, schemas: Sequence[pa.Schema | None]) -> None:
    """Warn if rows that wait for other streams' schemas exceed the memory limit. The limit covers only
    windows: a policy needs the columns."""
    limit = query.memory_limit
    if limit is None:
        return
    unseen = [alias for alias, schema in zip(query.aliases, schemas, strict=True) if schema is None]
    held = sum(w.nbytes if limit.kind == "bytes" else len(w) for w in buffers)
    if held > limit.size:
        warnings.warn(
            f"memory: {MemoryLimit(limit.kind, held)} wait outside the windows until streams {unseen} "
            f"show their columns, and the limit is {limit}; give Operator(query, schemas={{...}})",
            stacklevel=4,
        )
