"""The state of an operator: metadata of plain values, and parts that are Arrow batches.

The parts are, by stream, the windows' own immutable segments; then the join columns and indexes of all
windows; and last the arrays that policies have learned. A store recognises by identity the parts that it has
already written. Join columns and indexes are an addition: without them, or if they do not fit the query, they
are computed from the segments, so stored states do not depend on the plan.

A snapshot is a state as bytes: a magic word, a checksum, the length of a JSON head, the head, and an Arrow
stream per part.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windrow.engine.query_changes import changes, check_fixed, fingerprint, fitted, windows_of
from windrow.engine.rows import event_times
from windrow.engine.watermarks import Watermarks
from windrow.errors import StateError
from windrow.model.stateful import UnknownVersionError, decode, encode, this_version
from windrow.window.blocks import Part, batch_of
from windrow.window.mapped_arrays import Locate, not_in_a_file
from windrow.window.segment import Unread
from windrow.window.stored_window import WindowParts, capture_window, restore_window

if TYPE_CHECKING:
    from windrow.engine.join import Join
    from windrow.engine.runner import JoinRunner

MAGIC = b"WINDROW6"
_DIGEST = 16
CALL = "\x00call"
COMPONENTS = ("watermarks", "counters", "expiry", "completeness", "planner", "deadline_controller")
_CODEC = pa.Codec("zstd")
_log = logging.getLogger("windrow")


@dataclass(frozen=True)
class State:
    metadata: dict[str, Any]
    """Plain values that fit JSON. `metadata["streams"][i]` has the number of parts of stream i."""
    parts: tuple[Part, ...]
    locate: Locate = not_in_a_file
    """Where parts are mapped from."""
    checks: Mapping[int, Callable[[], pa.RecordBatch]] = field(default_factory=dict)
    """By the number of a part that has not been read: returns it verified, or raises an error if it is
    damaged. Only `payload_parts` may be among them."""


def payload_parts(metadata: Mapping[str, Any]) -> set[int]:
    """The numbers of the parts that are segments of windows, which are read when a result needs a row."""
    found: set[int] = set()
    at = 0
    for described in metadata.get("streams", ()):
        at += bool(described["schema"]) + described["buffered"]
        found.update(range(at, at + described["segments"]))
        at += described["segments"] + described["row_state"] + described["keys"]
    return found


def capture(runner: JoinRunner) -> State:
    streams: list[dict[str, Any]] = []
    parts: list[Part] = []
    of_windows: list[Part] = []
    for stream in range(len(runner.buffer)):
        described, batches = _capture_stream(runner, stream)
        streams.append(described)
        parts += batches
        if runner.join is not None:
            windows = runner.join.windows
            described["window"], own = capture_window(windows[stream], windows.derived_columns(stream))
            of_windows += own
    arrays: list[np.ndarray] = []
    head = {
        "windrow": this_version(),
        "query": fingerprint(runner.query),
        "calls": runner.calls,
        "seq": runner.seq,
        "comparisons": runner.work[0],
        "streams": streams,
        "components": [encode(getattr(runner, name), arrays) for name in COMPONENTS],
        "join": encode(runner.join, arrays),
        "complete_from": runner.join.windows.complete_from if runner.join else None,
        "arrays": len(arrays),
    }
    return State(head, (*parts, *of_windows, *([pack_arrays(arrays)] if arrays else [])))


def restore(runner: JoinRunner, state: State, reached: Sequence[int | None] = ()) -> None:
    """Restore a state into a join that has seen nothing yet. Its query may differ from the state's as far as
    `query_changes.py` allows, and so may the columns of its streams, if it knows them.

    `reached` are the max event times of all streams that other partitions have seen besides.
    """
    check_fixed(state.metadata["query"], fingerprint(runner.query), "this state")
    restore_any(runner, state, reached)


def restore_any(runner: JoinRunner, state: State, reached: Sequence[int | None] = ()) -> None:
    """Like `restore`, for a query that has been checked."""
    try:
        _restore(runner, state, reached)
    except UnknownVersionError as error:
        wrote = state.metadata.get("windrow", "an earlier version")
        raise StateError(f"{error} Windrow {wrote} wrote it, and this is Windrow {this_version()}") from error


def _restore(runner: JoinRunner, state: State, reached: Sequence[int | None]) -> None:
    head = state.metadata
    before, now = head["query"], fingerprint(runner.query)
    runner.calls, runner.seq = head["calls"], head["seq"]
    runner.counters.compared_before = head["comparisons"]
    arrays = unpack_arrays(batch_of(state.parts[-1])) if head["arrays"] else []
    for name, component in zip(COMPONENTS, head["components"], strict=True):
        if name != "deadline_controller" or before["deadline"] == now["deadline"]:
            decode(component, arrays, getattr(runner, name))
    parts = StateParts(state)
    held = [take_parts(parts, described) for described in head["streams"]]
    stored = [
        WindowParts.take(described["window"], parts) if "window" in described else None
        for described in head["streams"]
    ]
    known = [kept.schema for kept in held]
    for stream, alias in enumerate(runner.query.aliases):
        wanted = runner.schemas[stream] = runner.schemas[stream] or known[stream]
        if wanted is not None:
            held[stream] = held[stream].fitted(alias, wanted)
        for batch in held[stream].buffered:
            _restore_buffered(runner, stream, batch)
    runner.create_join()
    if head["join"] is not None and runner.join is not None:
        for stream, kept in enumerate(held):
            described = head["streams"][stream]
            # Join columns depend on the types of all streams.
            fits = known == runner.schemas and _fits(runner.join, stream, described.get("window"))
            own = stored[stream] if fits else None
            _restore_window(runner.join, stream, described, kept, own, state.locate)
        runner.join.windows.complete_from = list(head["complete_from"])
        _restore_join(runner, runner.join, head, arrays)
    if (before["late"], before["idle"]) != (now["late"], now["idle"]):
        _keep_watermarks(runner, before, reached)
    runner.changes = tuple(changes(before, now, known, runner.schemas))
    if runner.join is not None:
        runner.join.spill()
    for change in runner.changes:
        _log.info("restored with a changed query: %s", change)


def _restore_join(runner: JoinRunner, join: Join, head: dict[str, Any], arrays: list[np.ndarray]) -> None:
    """Restore what a join has learned and counted. Under other limits or windows, and with rows of other
    partitions, it learns anew."""
    before, now = head["query"], fingerprint(runner.query)
    saved, counters = dict(head["join"]), runner.counters
    resized, moved = before["within"] != now["within"], head.get("redistributed")
    new_memory = resized or moved or before["memory"] != now["memory"]
    new_deadline = resized or moved or before["deadline"] != now["deadline"]
    lost = 0
    if new_memory and (evictor := saved.pop("evictor")) is not None:
        counters.count_shed_before("rows_evicted", evictor["evicted"])
        lost += sum(evictor["evicted"])
    if new_deadline:
        dropped = [counters.counts["rows_dropped"], saved.pop("dropped")]
        for name, rows in (*(("rows_dropped", d) for d in dropped), ("rows_evicted", saved.pop("conserved"))):
            counters.count_shed_before(name, rows)
            lost += sum(rows)
        counters.counts["rows_dropped"] = [0] * len(join.windows)
        for name in ("load_shedder", "unsampled", "skipped"):
            del saved[name]
    decode(saved, arrays, join)
    newest = runner.watermarks.max_event_time
    if resized:
        counters.count("rows_expired", join.windows.expire([None] * len(join.windows), runner.seq))
        runner.completeness.lack_expired(join.windows, windows_of(before), windows_of(now))
        join.windows.resize(windows_of(now), runner.seq)
    if (lost or (moved and moved["shed"])) and newest is not None:
        runner.completeness.lack_shed(join.windows, newest)
    if newest is not None:
        join.adopt(newest, bool(new_memory), bool(new_deadline))


def _keep_watermarks(runner: JoinRunner, before: Mapping[str, Any], reached: Sequence[int | None]) -> None:
    """Let no watermark fall behind where it was under the old settings."""
    now = runner.watermarks
    old = Watermarks(tuple(before["late"].values()), before["idle"], now.shared, now.tracked)
    old.restore(now.dump())
    for stream, time in enumerate(reached):
        if time is not None:
            old.advance(stream, time)
    now.continue_from(old)


def pack_arrays(arrays: Sequence[np.ndarray]) -> pa.RecordBatch:
    """Arrays as one part, compressed: most are sketches and histograms, which are nearly empty while few rows
    are held."""
    return pa.record_batch(
        {
            "dtype": pa.array([array.dtype.str for array in arrays]),
            "shape": pa.array([list(array.shape) for array in arrays], pa.list_(pa.int64())),
            "values": pa.array(
                [_CODEC.compress(array.tobytes(), asbytes=True) for array in arrays], pa.large_binary()
            ),
        }
    )


def unpack_arrays(part: pa.RecordBatch) -> list[np.ndarray]:
    dtypes, shapes, values = part.columns
    found = []
    for dtype, shape, held in zip(dtypes, shapes, values, strict=True):
        array = np.empty(shape.as_py(), np.dtype(dtype.as_py()))
        raw = _CODEC.decompress(held.as_buffer(), array.nbytes)
        array[...] = np.frombuffer(raw, array.dtype).reshape(array.shape)
        found.append(array)
    return found


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
        parts.append(rows.append_column(CALL, pa.array(calls)))
        described["buffered"] = 1
    if join is not None:
        window, counted = join.windows[stream], join.windows.row_windows[stream]
        parts += [s.part for s in window.segments]
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
class Kept:
    """The parts of one stream."""

    schema: pa.Schema | None
    buffered: list[pa.RecordBatch]
    segments: list[pa.RecordBatch | Unread]
    row_state: pa.RecordBatch | None
    """Columns other than join columns, of the live rows."""
    keys: pa.RecordBatch | None
    """Keys and their counts, for windows counted per key."""

    def fitted(self, alias: str, wanted: pa.Schema) -> Kept:
        """The same rows in the columns that the stream has now."""
        buffered = [
            fitted(alias, batch.drop_columns(CALL), wanted).append_column(CALL, batch.column(CALL))
            for batch in self.buffered
        ]
        segments = self.segments
        if self.schema is None or not self.schema.equals(wanted):
            read = (held.batch if isinstance(held, Unread) else held for held in segments)
            segments = [fitted(alias, batch, wanted) for batch in read]
        return replace(self, schema=wanted, buffered=buffered, segments=segments)


class StateParts(Iterator[pa.RecordBatch]):
    """The parts of a state, one after the other."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._at = 0

    def __next__(self) -> pa.RecordBatch:
        self._at += 1
        return batch_of(self._state.parts[self._at - 1])

    def payload(self) -> pa.RecordBatch | Unread:
        check = self._state.checks.get(self._at)
        return next(self) if check is None else Unread(next(self), check)


def take_parts(parts: StateParts, described: dict[str, Any]) -> Kept:
    return Kept(
        next(parts).schema if described["schema"] else None,
        [next(parts) for _ in range(described["buffered"])],
        [parts.payload() for _ in range(described["segments"])],
        next(parts) if described["row_state"] else None,
        next(parts) if described["keys"] else None,
    )


def _restore_buffered(runner: JoinRunner, stream: int, batch: pa.RecordBatch) -> None:
    calls = batch.column(CALL).to_numpy()
    rows = batch.drop_columns(CALL)
    time = list(runner.query.streams.values())[stream].time
    runner.buffer[stream].add(event_times(rows.column(time)), rows, calls)


def _fits(join: Join, stream: int, described: dict[str, Any] | None) -> bool:
    """Whether a stored window has the join columns and sets that the join needs."""
    if described is None:
        return False
    sets = [column.name for column in join.bound.sets[stream]] if described["times"] else []
    columns = join.windows.derived_columns(stream)
    return described["columns"] == columns and sorted(described["sets"]) == sorted(sets)


def _restore_window(
    join: Join,
    stream: int,
    described: dict[str, Any],
    kept: Kept,
    stored: WindowParts | None,
    locate: Locate,
) -> None:
    window, counted = join.windows[stream], join.windows.row_windows[stream]
    if counted is not None:
        counted.total, counted.displaced_early = described["total"], described["displaced_early"]
        if counted.keys is not None and kept.keys is not None:
            counted.keys.load(kept.keys)
    time = list(join.bound.query.streams.values())[stream].time

    def read(batch: pa.RecordBatch) -> tuple[np.ndarray, Mapping[str, np.ndarray]]:
        ts = event_times(batch.column(time))
        return ts, join.windows.readers[stream].read(ts, batch).rows.columns

    row_state = {}
    if kept.row_state is not None:
        row_state = {name: kept.row_state.column(name).to_numpy() for name in kept.row_state.schema.names}
    rows = sum((s.part if isinstance(s, Unread) else s).num_rows for s in kept.segments)
    plain = {"first": described.get("skip", 0), "end": rows, "times": None}
    restore_window(window, described.get("window", plain), kept.segments, row_state, read, stored, locate)
    # Scans do less work in order, and the work of a call under a deadline must not depend on a restart.
    window.disordered = described["disordered"]


def pack(state: State) -> bytes:
    parts = [_to_bytes(batch_of(part)) for part in state.parts]
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
