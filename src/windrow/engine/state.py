"""The state of an operator: metadata of plain values, and parts that are Arrow batches.

The parts are the windows' own immutable segments in order, so a store can recognise by identity those it has
already written. Join columns and indexes are rebuilt on restore, so stored states do not depend on the plan.

A snapshot is a state as bytes: a magic word, a checksum, the length of a JSON head, the head, and an Arrow
stream per part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windrow.engine.rows import event_times
from windrow.errors import StateError
from windrow.model.query import Query
from windrow.model.stateful import decode, encode

if TYPE_CHECKING:
    from windrow.engine.join import Join
    from windrow.engine.runner import JoinRunner

MAGIC = b"WINDROW4"
_DIGEST = 16
_CALL = "\x00call"
_COMPONENTS = ("watermarks", "counters", "expiry", "planner", "deadline_controller")


@dataclass(frozen=True)
class State:
    metadata: dict[str, Any]
    """Plain values that fit JSON. `metadata["streams"][i]` has the number of parts of stream i."""
    parts: tuple[pa.RecordBatch, ...]


def fingerprint(query: Query) -> dict[str, Any]:
    """Settings that must be equal for a state to be restored. How the join is run may change."""
    delays = dict(zip(query.aliases, query.watermark_delays, strict=True))
    return {
        "streams": [[a, s.time, str(s.window)] for a, s in query.streams.items()],
        "on": query.on,
        "late": delays if len(set(delays.values())) > 1 else query.watermark_delay_us,
        "source_partition": {a: s.source_partition for a, s in query.streams.items() if s.source_partition},
        "idle": query.idle_timeout_us,
        "shed": query.memory_policy.described() if query.memory_limit else None,
        "time": query.time_policy.described() if query.time_limit else None,
        "how": query.how if isinstance(query.how, str) else dict(query.how),
        "match": dict(query.match or {}),
        "nan": query.nan,
    }


def capture(runner: JoinRunner) -> State:
    streams, parts = [], []
    for stream in range(len(runner.buffer)):
        described, batches = _capture_stream(runner, stream)
        streams.append(described)
        parts += batches
    arrays: list[np.ndarray] = []
    head = {
        "query": fingerprint(runner.query),
        "calls": runner.calls,
        "seq": runner.seq,
        "comparisons": runner.work[0],
        "streams": streams,
        "components": [encode(getattr(runner, name), arrays) for name in _COMPONENTS],
        "join": encode(runner.join, arrays),
        "arrays": len(arrays),
    }
    return State(head, (*parts, *([_packed(arrays)] if arrays else [])))


def restore(runner: JoinRunner, state: State) -> None:
    """Restore a state of the same query into a join that has seen nothing yet."""
    head, wanted = state.metadata, fingerprint(runner.query)
    if head["query"] != wanted:
        raise StateError(
            f"this state belongs to another query: {_difference(head['query'], wanted)}; "
            "go on with the query it was taken from, or start without it"
        )
    restore_any(runner, state)


def restore_any(runner: JoinRunner, state: State) -> None:
    """Like `restore`, but the state's windows may differ in size from the query's."""
    head = state.metadata
    runner.calls, runner.seq = head["calls"], head["seq"]
    runner.counters.compared_before = head["comparisons"]
    arrays = _unpacked(state.parts[-1]) if head["arrays"] else []
    for name, component in zip(_COMPONENTS, head["components"], strict=True):
        decode(component, arrays, getattr(runner, name))
    parts = iter(state.parts)
    held = [_take(parts, described) for described in head["streams"]]
    for stream, kept in enumerate(held):
        runner.schemas[stream] = kept.schema
        for batch in kept.buffered:
            _restore_buffered(runner, stream, batch)
    runner.create_join()
    if head["join"] is not None and runner.join is not None:
        for stream, kept in enumerate(held):
            _restore_window(runner.join, stream, head["streams"][stream], kept)
        decode(head["join"], arrays, runner.join)


def _packed(arrays: Sequence[np.ndarray]) -> pa.RecordBatch:
    """Arrays as one part."""
    return pa.record_batch(
        {
            "dtype": pa.array([array.dtype.str for array in arrays]),
            "shape": pa.array([list(array.shape) for array in arrays], pa.list_(pa.int64())),
            "values": pa.array([array.tobytes() for array in arrays], pa.large_binary()),
        }
    )


def _unpacked(part: pa.RecordBatch) -> list[np.ndarray]:
    dtypes, shapes, values = part.columns
    return [
        np.ndarray(shape.as_py(), np.dtype(dtype.as_py()), held.as_buffer()).copy()
        for dtype, shape, held in zip(dtypes, shapes, values, strict=True)
    ]


def _capture_stream(runner: JoinRunner, stream: int) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
    schema, buffered, join = runner.schemas[stream], runner.buffer[stream], runner.join
    parts: list[pa.RecordBatch] = []
    described: dict[str, Any] = {
        "schema": schema is not None,
        "buffered": 0,
        "segments": 0,
        "row_state": 0,
        "keys": 0,
    }
    if schema is not None:
        parts.append(pa.RecordBatch.from_pylist([], schema=schema))
    if len(buffered):
        _, rows, calls = buffered.merged(schema)
        parts.append(rows.append_column(_CALL, pa.array(calls)))
        described["buffered"] = 1
    if join is not None:
        window, counted = join.windows[stream], join.windows.row_windows[stream]
        parts += [s.payload for s in window.segments]
        described["segments"], described["disordered"] = len(window.segments), window.disordered
        described["skip"] = window.first - window.offset_of(window.segments[0]) if window.segments else 0
        kept = join.windows.stored_columns(stream)
        if kept and len(window):
            live = slice(window.first, window.end)
            parts.append(pa.record_batch({name: window.column(name)[live] for name in kept}))
            described["row_state"] = 1
        if counted is not None:
            described["total"], described["displaced_early"] = counted.total, counted.displaced_early
            if counted.keys is not None:
                parts.append(counted.keys.to_batch())
                described["keys"] = 1
    return described, parts


@dataclass(frozen=True)
class _Kept:
    """The parts of one stream."""

    schema: pa.Schema | None
    buffered: list[pa.RecordBatch]
    segments: list[pa.RecordBatch]
    row_state: pa.RecordBatch | None
    """Columns other than join columns, of the live rows."""
    keys: pa.RecordBatch | None
    """Keys and their counts, for windows counted per key."""


def _take(parts: Iterator[pa.RecordBatch], described: dict[str, Any]) -> _Kept:
    return _Kept(
        next(parts).schema if described["schema"] else None,
        [next(parts) for _ in range(described["buffered"])],
        [next(parts) for _ in range(described["segments"])],
        next(parts) if described["row_state"] else None,
        next(parts) if described["keys"] else None,
    )


def _restore_buffered(runner: JoinRunner, stream: int, batch: pa.RecordBatch) -> None:
    calls = batch.column(_CALL).to_numpy()
    rows = batch.drop_columns(_CALL)
    time = list(runner.query.streams.values())[stream].time
    runner.buffer[stream].add(event_times(rows.column(time)), rows, calls)


def _restore_window(join: Join, stream: int, described: dict[str, Any], kept: _Kept) -> None:
    window, counted = join.windows[stream], join.windows.row_windows[stream]
    if counted is not None:
        counted.total, counted.displaced_early = described["total"], described["displaced_early"]
        if counted.keys is not None and kept.keys is not None:
            counted.keys.load(kept.keys)
    time = list(join.bound.query.streams.values())[stream].time
    skip = described["skip"]
    at = -skip
    for batch in kept.segments:
        ts = event_times(batch.column(time))
        columns = dict(join.windows.readers[stream].read(ts, batch).rows.columns)
        if kept.row_state is not None:
            # Skipped rows have no row state; pad with zeros.
            begin = max(at, 0)
            known = kept.row_state.slice(begin, at + len(ts) - begin)
            for name, column in zip(known.schema.names, known.columns, strict=True):
                columns[name] = np.pad(column.to_numpy(), (len(ts) - len(column), 0))
        window.append(ts, columns, batch)
        at += len(ts)
    window.drop_front(skip)
    # Scans do less work in order, and the work of a call under a deadline must not depend on a restart.
    window.disordered = described["disordered"]


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    return "; ".join(f"{k} was {before.get(k)!r}, now {now[k]!r}" for k in now if before.get(k) != now[k])


def pack(state: State) -> bytes:
    parts = [_to_bytes(part) for part in state.parts]
    text = json.dumps({"state": state.metadata, "parts": [len(p) for p in parts]}).encode()
    body = b"".join((len(text).to_bytes(8, "little"), text, *parts))
    return MAGIC + hashlib.blake2b(body, digest_size=_DIGEST).digest() + body


def unpack(blob: bytes) -> State:
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise StateError(f"expected the bytes of a snapshot, got {type(blob).__name__}")
    blob = bytes(blob)
    start = len(MAGIC) + _DIGEST
    if blob[: len(MAGIC)] != MAGIC:
        raise StateError("this is not a Windrow snapshot, or of another version; take a fresh one")
    body = blob[start:]
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != blob[len(MAGIC) : start]:
        raise StateError("snapshot is damaged or cut off (checksum differs); use an earlier one")
    size = int.from_bytes(body[:8], "little")
    head = json.loads(body[8 : 8 + size])
    parts, at = [], 8 + size
    for length in head["parts"]:
        parts.append(_from_bytes(body[at : at + length]))
        at += length
    return State(head["state"], tuple(parts))


def _to_bytes(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _from_bytes(part: bytes) -> pa.RecordBatch:
    return pa.ipc.open_stream(part).read_next_batch()
