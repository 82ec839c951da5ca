"""The state of an operator: metadata of plain values, and parts that are Arrow batches.

The parts are, by stream, the windows' own immutable segments; then the join columns and indexes of all
windows; and last the arrays that policies have learned. A store recognises by identity the parts that it has
already written. Join columns and indexes are an addition: without them, or if they do not fit the query, they
are computed from the segments, so stored states do not depend on the plan.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windrow.engine.query_changes import changes, check_fixed, fingerprint, fitted, windows_of
from windrow.engine.row_windows import RowWindow
from windrow.engine.rows import event_times
from windrow.engine.watermarks import Watermarks
from windrow.errors import StateError
from windrow.model.stateful import (
    UnknownVersionError,
    decode,
    encode,
    pack_arrays,
    this_version,
    unpack_arrays,
)
from windrow.window.blocks import Part, batch_of
from windrow.window.mapped_arrays import Locate, not_in_a_file
from windrow.window.segment import Payload
from windrow.window.stored_window import WindowParts, capture_window, restore_window

if TYPE_CHECKING:
    from windrow.engine.join import Join
    from windrow.engine.runner import JoinRunner

CALL = "\x00call"
_EARLIER_NAMES = {
    "evictor.watch": "evictor.monitor_slot",
    "evictor.chance": "evictor.probability",
    "dropper.chance": "dropper.probability",
    "dropper.stood_for": "dropper.result_weight",
}
"""Of columns that policies store with rows, in snapshots of `WINDROW6` and manifests up to format 9."""
COMPONENTS = ("watermarks", "counters", "expiry", "completeness", "planner", "deadline_controller")
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
        at += described["segments"] + described["row_state"] + described.get("keys", 0)
    return found


def capture(runner: JoinRunner) -> State:
    windows = None if runner.join is None else runner.join.windows
    streams = [_stream_state(runner, stream) for stream in range(len(runner.buffer))]
    described = [stream.described() for stream in streams]
    of_windows: list[Part] = []
    for number, window in enumerate(windows or ()):
        assert windows is not None
        described[number]["window"], own = capture_window(window, windows.derived_columns(number))
        of_windows += own
    arrays: list[np.ndarray] = []
    head = {
        "windrow": this_version(),
        "query": fingerprint(runner.query),
        "calls": runner.calls,
        "seq": runner.seq,
        "comparisons": runner.work[0],
        "overhead": runner.overhead,
        "streams": described,
        "components": [encode(getattr(runner, name), arrays) for name in COMPONENTS],
        "join": encode(runner.join, arrays),
        "windows": encode(windows, arrays),
    }
    return assembled(head, [part for stream in streams for part in stream.parts()] + of_windows, arrays)


def assembled(head: dict[str, Any], parts: Sequence[Part], arrays: Sequence[np.ndarray]) -> State:
    """A state of these parts, with the arrays as the last one."""
    head = head | {"arrays": len(arrays)}
    return State(head, (*parts, *([pack_arrays(arrays)] if arrays else [])))


def _stream_state(runner: JoinRunner, stream: int) -> StreamState:
    found = StreamState(runner.schemas[stream])
    if len(runner.buffer[stream]):
        _, rows, calls = runner.buffer[stream].merged(found.schema)
        found = replace(found, buffered=[rows.append_column(CALL, pa.array(calls))])
    if runner.join is None:
        return found
    window, row_state = runner.join.windows[stream], None
    skip = window.first - window.offset_of(window.segments[0]) if window.segments else 0
    if len(window) and (names := runner.join.windows.stored_columns(stream)):
        live = slice(window.first, window.end)
        row_state = pa.record_batch({name: window.column(name)[live] for name in names})
    segments = [segment.source for segment in window.segments]
    return replace(found, segments=segments, row_state=row_state, skip=skip, disordered=window.disordered)


def restore(runner: JoinRunner, state: State, reached: Sequence[int | None] = ()) -> None:
    """Restore a state into a join that has seen nothing yet. Its query may differ from the state's as far as
    `query_changes.py` allows, and so may the columns of its streams, if it knows them.

    `reached` are the max event times of all streams that other partitions have seen besides.
    """
    check_fixed(state.metadata["query"], fingerprint(runner.query), "this state")
    restore_any(runner, state, reached)


def restore_any(runner: JoinRunner, state: State, reached: Sequence[int | None] = ()) -> None:
    """Like `restore`, for a query that has been checked."""
    with writer_named(state):
        _restore(runner, state, reached)


@contextmanager
def writer_named(state: State) -> Iterator[None]:
    """Lets the error of a state with an unknown version say which Windrow wrote it."""
    try:
        yield
    except UnknownVersionError as error:
        wrote = state.metadata.get("windrow", "an earlier version")
        raise StateError(f"{error} Windrow {wrote} wrote it, and this is Windrow {this_version()}") from error


def _restore(runner: JoinRunner, state: State, reached: Sequence[int | None]) -> None:
    stored, head = StoredState(state), state.metadata
    before, now = head["query"], fingerprint(runner.query)
    runner.calls, runner.seq = head["calls"], head["seq"]
    runner.counters.compared_before = head["comparisons"]
    runner.overhead = head.get("overhead", 0.0)  # older states lack it
    for name, component in zip(COMPONENTS, head["components"], strict=True):
        if name != "deadline_controller" or before["deadline"] == now["deadline"]:
            decode(component, stored.arrays, getattr(runner, name))
    known = [each.schema for each in stored.streams]
    streams = []
    for stream, (alias, held) in enumerate(zip(runner.query.aliases, stored.streams, strict=True)):
        wanted = runner.schemas[stream] = runner.schemas[stream] or held.schema
        streams.append(held if wanted is None else held.fitted(alias, wanted))
        for batch in streams[-1].buffered:
            rows = batch.drop_columns(CALL)
            ts = event_times(rows.column(runner.query.streams[alias].time))
            runner.buffer[stream].add(ts, rows, batch.column(CALL).to_numpy())
    runner.create_join()
    if head["join"] is not None and runner.join is not None:
        for stream, held in enumerate(streams):
            described = head["streams"][stream].get("window")
            # Join columns depend on the types of all streams.
            fits = known == runner.schemas and _fits(runner.join, stream, described)
            parts = stored.window_parts[stream] if fits else None
            _restore_window(runner.join, stream, held, described, parts, state.locate)
        decode(stored.windows, stored.arrays, runner.join.windows)
        _restore_join(runner, runner.join, head, stored.arrays)
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


@dataclass(frozen=True)
class StreamState:
    """What a state holds of one stream."""

    schema: pa.Schema | None
    buffered: Sequence[pa.RecordBatch] = ()
    segments: Sequence[Payload] = ()
    row_state: pa.RecordBatch | None = None
    """Columns other than join columns, of the live rows."""
    skip: int = 0
    """Expired rows of the first segment."""
    disordered: int = 0
    """Rows before this one are not in order of time."""
    keys: pa.RecordBatch | None = None
    """Only in earlier states: see `_listed_by_stream`."""

    def described(self) -> dict[str, Any]:
        """How many parts of each kind it has, and what is known of its rows."""
        return {
            "schema": self.schema is not None,
            "buffered": len(self.buffered),
            "segments": len(self.segments),
            "row_state": int(self.row_state is not None),
            "skip": self.skip,
            "disordered": self.disordered,
        }

    def parts(self) -> list[Any]:
        schema = [] if self.schema is None else [pa.RecordBatch.from_pylist([], schema=self.schema)]
        last = [] if self.row_state is None else [self.row_state]
        return [*schema, *self.buffered, *(payload.part for payload in self.segments), *last]

    @classmethod
    def take(cls, described: Mapping[str, Any], parts: StateParts) -> StreamState:
        """Inverse of `described` and `parts`."""
        return cls(
            next(parts).schema if described["schema"] else None,
            [next(parts) for _ in range(described["buffered"])],
            [parts.payload() for _ in range(described["segments"])],
            next(parts) if described["row_state"] else None,
            described.get("skip", 0),
            described.get("disordered", 0),
            next(parts) if described.get("keys") else None,
        )

    def fitted(self, alias: str, wanted: pa.Schema) -> StreamState:
        """The same rows in the columns that the stream has now."""
        buffered = [
            fitted(alias, batch.drop_columns(CALL), wanted).append_column(CALL, batch.column(CALL))
            for batch in self.buffered
        ]
        segments = self.segments
        if self.schema is None or not self.schema.equals(wanted):
            segments = [Payload(fitted(alias, held.rows, wanted)) for held in segments]
        return replace(self, schema=wanted, buffered=buffered, segments=segments)


class StateParts(Iterator[pa.RecordBatch]):
    """The parts of a state, one after the other."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._at = 0

    def __next__(self) -> pa.RecordBatch:
        self._at += 1
        return batch_of(self._state.parts[self._at - 1])

    def payload(self) -> Payload:
        read = self._state.checks.get(self._at)
        return Payload(next(self), read)


class StoredState:
    """A state, taken apart."""

    def __init__(self, state: State) -> None:
        self.head, parts = state.metadata, StateParts(state)
        self.streams = [StreamState.take(each, parts) for each in self.head["streams"]]
        described = (each.get("window") for each in self.head["streams"])
        self.window_parts = [each and WindowParts.take(each, parts) for each in described]
        """Join columns and indexes."""
        self.arrays = unpack_arrays(batch_of(state.parts[-1])) if self.head["arrays"] else []
        self.windows = self.head["windows"] if "windows" in self.head else _listed_by_stream(self)
        """The saved `Windows`; None if there is no join yet."""
        windows = self.windows or saved_windows([None] * len(self.streams), None)
        self.row_windows: list[RowWindow | None] = decode(windows["row_windows"], self.arrays)
        self.complete_from: list[int | None] | None = windows["complete_from"]

    def component(self, name: str, anew: Any = None) -> Any:
        """A component of the runner; `anew` if it starts anew."""
        saved = self.head["components"][COMPONENTS.index(name)]
        return anew if saved is None else decode(saved, self.arrays, anew)


def saved_windows(row_windows: Any, complete_from: Any) -> dict[str, Any]:
    """A saved `Windows` of these saved fields."""
    return {"is": ["Windows", 1], "row_windows": row_windows, "complete_from": complete_from}


def _listed_by_stream(stored: StoredState) -> dict[str, Any] | None:
    """The saved `Windows` of states up to manifest format 9, which held the numbers of a row window with
    their stream, and its keys as a part."""
    if stored.head["join"] is None:
        return None
    windows: list[dict[str, Any] | None] = []
    for described, held in zip(stored.head["streams"], stored.streams, strict=True):
        keys = None
        if (batch := held.keys) is not None:
            exact = "word" in batch.schema.names
            keys = {
                "is": ["KeyNumbers", 1],
                "counts": batch.column("count").to_numpy().copy(),
                "_keys": batch.column("word").to_numpy() if exact else np.empty(0, np.int64),
                "_values": [] if exact or batch.num_columns == 1 else [batch.drop_columns("count")],
            }
        numbers = {name: described.get(name) for name in ("total", "displaced_early")}
        windows.append({"is": ["RowWindow", 1], **numbers, "keys": keys} if "total" in described else None)
    return saved_windows(windows, stored.head["complete_from"])


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
    held: StreamState,
    described: dict[str, Any] | None,
    stored: WindowParts | None,
    locate: Locate,
) -> None:
    window, reader = join.windows[stream], join.windows.readers[stream]
    time = join.bound.query.streams[join.bound.query.aliases[stream]].time

    def read(batch: pa.RecordBatch) -> tuple[np.ndarray, Mapping[str, np.ndarray]]:
        ts = event_times(batch.column(time))
        return ts, reader.read(ts, batch).rows.columns

    row_state = {}
    if held.row_state is not None:
        columns = zip(held.row_state.schema.names, held.row_state.columns, strict=True)
        row_state = {_EARLIER_NAMES.get(name, name): column.to_numpy() for name, column in columns}
    if described is None:
        rows = sum(map(len, held.segments))
        described = {"first": held.skip, "end": rows, "times": None}
    restore_window(window, described, held.segments, row_state, read, stored, locate)
    # Scans do less work in order, and the work of a call under a deadline must not depend on a restart.
    window.disordered = held.disordered
