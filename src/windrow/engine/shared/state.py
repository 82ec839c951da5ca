"""The state of a query group: its join, its subscribers and its backlog.

Positions are stored relative to the first live row, and times as ages, so that they are valid in another
process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.join import Join
from windrow.engine.shared.backlog import BacklogScheduler
from windrow.engine.shared.bound_subscription import bind
from windrow.engine.shared.grouping import signature
from windrow.engine.shared.release import PendingRows
from windrow.engine.shared.results import ResultBatch, ResultSelection
from windrow.engine.shared.shared_join import SharedJoin
from windrow.engine.shared.subscribers import Subscriber
from windrow.engine.state import State, capture, restore_any
from windrow.errors import StateError
from windrow.model.stateful import decode, encode, pack_arrays, unpack_arrays
from windrow.window.blocks import Part, batch_of

_NEWEST, _PLACE, _RANK = "\x00newest", "\x00place", "\x00rank"


def capture_group(group: SharedJoin) -> State:
    base = capture(group.runner)
    join, scheduler = group.runner.join, group.scheduler
    shared: dict[str, Any] = {
        "signature": _plain(group),
        "subscribers": [
            encode(m, []) | {"output": group.subscribers.outputs[m.key]} for m in group.subscribers
        ],
        "departing": [encode(m, []) for m in group.departing.values()],
        "parts": len(base.parts),
        "names": encode(group.names, []),
    }
    parts = list(base.parts)
    if scheduler is not None and join is not None:
        deferred, held = _save(group, scheduler, join)
        shared |= deferred
        parts += held
    return State(base.metadata | {"group": shared}, tuple(parts))


def restore_group(group: SharedJoin, state: State, reached: Sequence[int | None] = ()) -> SharedJoin:
    """Restore a state into a group that has seen nothing yet; `reached` as in `state.restore`."""
    shared, now = state.metadata.get("group"), _plain(group)
    before = {} if shared is None else shared["signature"]
    for name, value in now.items():
        if before.get(name) != value:
            raise StateError(
                f"this state belongs to other queries: {name} was {before.get(name)!r}, now {value!r}; go on "
                "with those it was begun with (queries are added and removed by control messages), or start "
                "without it"
            )
    assert shared is not None
    group.restore_subscribers(
        [Subscriber.load(saved, group.subscribers.like) for saved in shared["subscribers"]]
    )
    restore_any(group.runner, replace(state, parts=state.parts[: shared["parts"]]), reached)
    decode(shared["names"], [], group.names)
    group.bind()
    join, deferred = group.runner.join, shared.get("backlog")
    if join is not None and group.router is not None:
        for subscriber in (
            Subscriber.load(saved, group.subscribers.like) for saved in shared.get("departing", ())
        ):
            subscriber.bound = bind(subscriber.name, subscriber.subscription, group.router.result_schemas)
            group.departing[subscriber.key] = subscriber
        if deferred is not None and (deferred["calls"] or shared["undelivered"]):
            group.serve_all()
        if deferred is not None and group.scheduler is not None:
            _load(group, join, shared, state.parts[shared["parts"] :])
    return group


def _plain(group: SharedJoin) -> dict[str, Any]:
    """What a state's queries have in common and must keep, in a form that is valid in another process:
    functions by name."""
    found = signature(group.subscribers.like)
    found["functions"] = [name for name, _ in found["functions"]]
    free = ("late", "idle", "ahead", "on_error")
    return {name: value for name, value in found.items() if name not in free}


def _save(group: SharedJoin, scheduler: BacklogScheduler, join: Join) -> tuple[dict[str, Any], list[Part]]:
    """The backlog, and what queries get with the next call because it was routed before they changed."""
    arrays: list[np.ndarray] = []
    now, back = group.clock(), [-number for number in _first_numbers(join)]
    batches = [batch for call in scheduler.calls for batch in call.results]
    undelivered = []
    for key, selections in group.undelivered.items():
        for part in selections:
            if len(part.chosen):
                undelivered.append([*key, now - part.batch.arrived])
                batches.append(part.batch.where(part.chosen))
    backlog = {
        "speed": scheduler.speed,
        "calls": [encode(call.moved(back, now), arrays) for call in scheduler.calls],
        "results": [len(call.results) for call in scheduler.calls],
    }
    held = [_to_batch(batch, _places(join)) for batch in batches]
    return {"backlog": backlog, "undelivered": undelivered}, [*held, pack_arrays(arrays)]


def _load(group: SharedJoin, join: Join, saved: Mapping[str, Any], parts: Sequence[Part]) -> None:
    scheduler, now = group.scheduler, group.clock()
    assert scheduler is not None and group.router is not None
    batches, arrays = iter(parts[:-1]), unpack_arrays(batch_of(parts[-1]))
    backlog, first = saved["backlog"], _first_numbers(join)
    scheduler.speed = backlog["speed"]
    for stored, results in zip(backlog["calls"], backlog["results"], strict=True):
        call: PendingRows = decode(stored, arrays).moved(first, now)
        call.results = [_from_batch(next(batches), call.arrived, group, join) for _ in range(results)]
        scheduler.resume(call, len(group.router.tiers))
    scheduler.retain_rows(join.windows)
    for name, number, age in saved["undelivered"]:
        batch = _from_batch(next(batches), now - age, group, join)
        group.undelivered.setdefault((name, number), []).append(ResultSelection(batch, np.arange(len(batch))))


def _first_numbers(join: Join) -> list[int]:
    return [window.number(window.first) for window in join.windows]


def _places(join: Join) -> list[int]:
    """Origins of stored places: by `seq` in joins with row windows, else by row numbers of the window."""
    return [0] * len(join.windows) if join.bound.query.counts_rows else _first_numbers(join)


def _to_batch(results: ResultBatch, base: list[int]) -> pa.RecordBatch:
    columns = {f"{alias}.{name}": column for (alias, name), column in results.columns.items()}
    columns[_NEWEST] = pa.array(results.newest)
    for stream, first in enumerate(base):
        columns[f"{_PLACE}{stream}"] = pa.array(results.positions[stream] - first)
        columns[f"{_RANK}{stream}"] = pa.array(results.ranks[stream])
    return pa.record_batch(columns)


def _from_batch(part: Part, arrived: float, group: SharedJoin, join: Join) -> ResultBatch:
    batch, base = batch_of(part), _places(join)
    streams = range(len(base))
    places = np.array([batch.column(f"{_PLACE}{s}").to_numpy() + base[s] for s in streams])
    ranks = np.array([batch.column(f"{_RANK}{s}").to_numpy() for s in streams])
    columns = {
        (alias, column): batch.column(name)
        for name in batch.schema.names
        if not name.startswith("\x00")
        for alias, _, column in [name.partition(".")]
    }
    # Columns of a stream may have come and gone since the results were found.
    fields = dict(zip(group.runner.query.aliases, join.bound.schemas, strict=True))
    columns = {(a, name): column for (a, name), column in columns.items() if name in fields[a].names}
    for alias, name in group.router.columns if group.router else ():
        if (alias, name) not in columns:
            columns[alias, name] = pa.nulls(batch.num_rows, fields[alias].field(name).type)
    newest = batch.column(_NEWEST).to_numpy()
    return ResultBatch(columns, newest, places, ranks, arrived, join.bound.functions)
