"""The state of an operator, taken apart: a small head of plain values, and parts that are Arrow batches.

The parts are the very segments of the windows, immutable and in order, so that whoever stores states can tell
by identity which parts it has stored already. Words and indexes are computed anew when a state is revived;
so stored states do not depend on how the join is planned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from windrow.engine.rows import event_times
from windrow.errors import StateError
from windrow.model.query import Query

if TYPE_CHECKING:
    from windrow.engine.join import Join
    from windrow.engine.operator import Operator

_CALL = "\x00call"
LOST = ("dropped", "blind", "conserved", "found", "skipped")
"""Counters of a join under a deadline."""
Op = TypeVar("Op", bound="Operator")


@dataclass(frozen=True)
class State:
    head: dict[str, Any]
    """Plain values, fit for JSON. `head["streams"][i]` says how many of the parts belong to stream i."""
    parts: tuple[pa.RecordBatch, ...]


def fingerprint(query: Query) -> dict[str, Any]:
    """What must be the same for a state to be used again. How the join is run may change."""
    return {
        "streams": [[a, s.time, str(s.window)] for a, s in query.streams.items()],
        "on": query.on,
        "late": query.lateness,
        "idle": query.idleness,
        "shed": query.policy.described() if query.limit else None,
        "time": query.time_policy.described() if query.time_limit else None,
    }


def capture(op: Operator) -> State:
    streams, parts = [], []
    for stream in range(len(op._waiting)):
        described, batches = _capture_stream(op, stream)
        streams.append(described)
        parts += batches
    head = {
        "query": fingerprint(op.query),
        "calls": op._calls,
        "seq": op._seq,
        "newest": op._frontier.newest,
        "settled": op._frontier.settled,
        "tally": op._tally.to_json() | {"compared": op.measure().comparisons},
        "passes": op._expiry.passes,
        "open": op._join is not None,
        "streams": streams,
        "controller": op._controller.save(),
    }
    if op._keeper is not None:
        head["keeper"] = op._keeper.save()
    if op._join is not None and op._join.saver is not None:
        head["saver"] = op._join.saver.save()
        head["lost"] = {name: getattr(op._join, name) for name in LOST}
    if op._join is not None and op._join.shedder is not None:
        head["shedder"], learned = op._join.shedder.save()
        parts += learned
    return State(head, tuple(parts))


def revive(cls: type[Op], query: Query, state: State, clock: Callable[[], float] = perf_counter) -> Op:
    head = state.head
    wanted = fingerprint(query)
    if head["query"] != wanted:
        raise StateError(
            f"this state belongs to another query: {_difference(head['query'], wanted)}; "
            "go on with the query it was taken from, or start without it"
        )
    return fill(cls(query, clock=clock), state)


def fill(op: Op, state: State) -> Op:
    """Puts a state into an operator that has seen nothing yet."""
    head = state.head
    op._calls, op._seq = head["calls"], head["seq"]
    op._frontier.newest, op._frontier.settled = list(head["newest"]), head["settled"]
    op._tally.load(head["tally"])
    op._expiry.passes = head["passes"]
    op._controller.load(head["controller"])
    if op._keeper is not None:
        op._keeper.load(head["keeper"])
    parts = iter(state.parts)
    held = [_take(parts, described) for described in head["streams"]]
    for stream, kept in enumerate(held):
        op._schemas[stream] = kept.schema
        for batch in kept.waiting:
            _revive_waiting(op, stream, batch)
    op._open()
    if head["open"] and op._join is not None:
        for stream, kept in enumerate(held):
            _revive_window(op._join, stream, head["streams"][stream], kept)
        if op._join.saver is not None:
            op._join.saver.load(head["saver"], op._join)
            for name in LOST:
                setattr(op._join, name, copy(head["lost"][name]))
        if op._join.shedder is not None:
            op._join.shedder.load(head["shedder"], list(parts))
    return op


def _capture_stream(op: Operator, stream: int) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
    schema, waiting, join = op._schemas[stream], op._waiting[stream], op._join
    parts: list[pa.RecordBatch] = []
    described: dict[str, Any] = {
        "schema": schema is not None,
        "waiting": 0,
        "segments": 0,
        "places": 0,
        "keys": 0,
    }
    if schema is not None:
        parts.append(pa.RecordBatch.from_pylist([], schema=schema))
    if len(waiting):
        _, rows, calls = waiting.merged(schema)
        parts.append(rows.append_column(_CALL, pa.array(calls)))
        described["waiting"] = 1
    if join is not None:
        window, counted = join.windows[stream], join.counted[stream]
        parts += [s.payload for s in window.segments]
        described["segments"] = len(window.segments)
        described["skip"] = window.first - window.offset_of(window.segments[0]) if window.segments else 0
        extra = range(len(join.words[stream]), window.columns)
        if extra and len(window):
            live = slice(window.first, window.end)
            parts.append(pa.record_batch({str(k): window.column(k)[live] for k in extra}))
            described["places"] = 1
        if counted is not None:
            described["total"], described["early"] = counted.total, counted.early
            if counted.keys is not None:
                parts.append(counted.keys.to_batch())
                described["keys"] = 1
    return described, parts


@dataclass(frozen=True)
class _Kept:
    """The parts of one stream."""

    schema: pa.Schema | None
    waiting: list[pa.RecordBatch]
    segments: list[pa.RecordBatch]
    places: pa.RecordBatch | None
    """Of the live rows in the order of all streams, where windows are counted."""
    keys: pa.RecordBatch | None
    """With their counts, where windows are counted per key."""


def _take(parts: Iterator[pa.RecordBatch], described: dict[str, Any]) -> _Kept:
    return _Kept(
        next(parts).schema if described["schema"] else None,
        [next(parts) for _ in range(described["waiting"])],
        [next(parts) for _ in range(described["segments"])],
        next(parts) if described["places"] else None,
        next(parts) if described["keys"] else None,
    )


def _revive_waiting(op: Operator, stream: int, batch: pa.RecordBatch) -> None:
    calls = batch.column(_CALL).to_numpy()
    rows = batch.drop_columns(_CALL)
    time = list(op.query.streams.values())[stream].time
    op._waiting[stream].add(event_times(rows.column(time)), rows, calls)


def _revive_window(join: Join, stream: int, described: dict[str, Any], kept: _Kept) -> None:
    window, counted = join.windows[stream], join.counted[stream]
    if counted is not None:
        counted.total, counted.early = described["total"], described["early"]
        if counted.keys is not None and kept.keys is not None:
            counted.keys.load(kept.keys)
    time = list(join.query.streams.values())[stream].time
    skip = described["skip"]
    at = -skip
    for batch in kept.segments:
        ts = event_times(batch.column(time))
        words = join.read(stream, ts, batch).rows.words
        extra: list[np.ndarray] = []
        if kept.places is not None:
            # Rows that are skipped have no place any more; any number will do for them.
            begin = max(at, 0)
            known = kept.places.slice(begin, at + len(ts) - begin)
            extra = [np.pad(c.to_numpy(), (len(ts) - len(c), 0)) for c in known.columns]
        window.append(ts, (*words, *extra), batch, bool((ts[1:] >= ts[:-1]).all()))
        at += len(ts)
    window.drop_front(skip)


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    return "; ".join(f"{k} was {before.get(k)!r}, now {now[k]!r}" for k in now if before.get(k) != now[k])
