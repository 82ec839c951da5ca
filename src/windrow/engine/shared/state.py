"""The state of a query group: its join, its subscribers and its backlog.

Positions are stored relative to the first live row, and times as ages, so that they are valid in another
process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.join import Join
from windrow.engine.shared.backlog import BacklogScheduler
from windrow.engine.shared.bound_subscription import bind
from windrow.engine.shared.grouping import signature
from windrow.engine.shared.release import DeferredSubBatch, PendingRows
from windrow.engine.shared.results import ResultBatch, ResultSelection
from windrow.engine.shared.shared_join import SharedJoin
from windrow.engine.shared.subscribers import Subscriber
from windrow.engine.state import State, capture, restore_any
from windrow.errors import StateError
from windrow.model.stateful import decode, encode

_NEWEST, _PLACE, _RANK = "\x00newest", "\x00place", "\x00rank"


def capture_group(group: SharedJoin) -> State:
    base = capture(group.runner)
    join, scheduler = group.runner.join, group.scheduler
    shared: dict[str, Any] = {
        "signature": _plain(group),
        "subscribers": [m.to_dict() | {"output": group.subscribers.output(m)} for m in group.subscribers],
        "departing": [m.to_dict() for m in group.departing.values()],
        "parts": len(base.parts),
        "names": encode(group.names, []),
    }
    parts = list(base.parts)
    if scheduler is not None and join is not None:
        shared["backlog"], held = _save(scheduler, join, group.clock())
        shared["undelivered"], early = _save_early(group, join)
        parts += [*held, *early]
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
        for member in (
            Subscriber.load(saved, group.subscribers.like) for saved in shared.get("departing", ())
        ):
            member.bound = bind(member.name, member.subscription, group.router.result_schemas)
            group.departing[member.key] = member
        if deferred is not None and (deferred["calls"] or shared["undelivered"]):
            group.serve_all()
        if deferred is not None and group.scheduler is not None:
            rest = list(state.parts[shared["parts"] :])
            used = _load(group, join, deferred, rest)
            _load_early(group, join, shared["undelivered"], rest[used:])
    return group


def _plain(group: SharedJoin) -> dict[str, Any]:
    """What a state's queries have in common and must keep, in a form that is valid in another process:
    functions by name."""
    found = signature(group.subscribers.like)
    found["functions"] = [name for name, _ in found["functions"]]
    free = ("late", "idle", "ahead", "on_error")
    return {name: value for name, value in found.items() if name not in free}


def _save(scheduler: BacklogScheduler, join: Join, now: float) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
    base = [w.number(w.first) for w in join.windows]
    calls, parts = [], []
    for call in scheduler.calls:
        sub_batches = [
            {
                "start": [n - b for n, b in zip(q.start, base, strict=True)],
                "end": [n - b for n, b in zip(q.end, base, strict=True)],
                "oldest": q.oldest,
                "first": q.first,
                "done": q.done,
            }
            for q in call.sub_batches
        ]
        held = [_to_batch(piece, _places(join)) for piece in call.results]
        parts += held
        came = [(s, part) for s, given in call.arrivals.items() for part in given]
        parts += [_came_to_batch(*part) for _, part in came]
        calls.append(
            {
                "age": now - call.arrived,
                "early": call.early,
                "delivered": call.delivered,
                "sub_batches": sub_batches,
                "results": len(held),
            }
            | {"arrivals": [s for s, _ in came]}
        )
    return {"speed": scheduler.speed, "calls": calls}, parts


def _load(group: SharedJoin, join: Join, saved: dict[str, Any], parts: list[pa.RecordBatch]) -> int:
    """Restore the backlog; return the number of parts read."""
    scheduler, now = group.scheduler, group.clock()
    assert scheduler is not None and group.router is not None
    base = [w.number(w.first) for w in join.windows]
    scheduler.speed = saved["speed"]
    at = 0
    for each in saved["calls"]:
        call = PendingRows(now - each["age"], each["early"], delivered=each["delivered"])
        for q in each["sub_batches"]:
            start, end = ([n + b for n, b in zip(q[side], base, strict=True)] for side in ("start", "end"))
            call.sub_batches.append(DeferredSubBatch(start, end, q["oldest"], q["first"], q["done"]))
        call.results = [_from_batch(b, call.arrived, group, join) for b in parts[at : at + each["results"]]]
        at += each["results"]
        for stream in each["arrivals"]:
            call.arrivals.setdefault(stream, []).append(_came_from_batch(parts[at]))
            at += 1
        scheduler.resume(call, len(group.router.tiers))
    scheduler.retain_rows(join.windows)
    return at


def _save_early(group: SharedJoin, join: Join) -> tuple[list[list[Any]], list[pa.RecordBatch]]:
    """Results that queries get with the next call, routed before the subscribers changed."""
    told, parts = [], []
    for key, given in group.undelivered.items():
        for part in given:
            if len(part.chosen):
                told.append([*key, group.clock() - part.batch.arrived])
                parts.append(_to_batch(part.batch.where(part.chosen), _places(join)))
    return told, parts


def _load_early(group: SharedJoin, join: Join, told: list[list[Any]], parts: list[pa.RecordBatch]) -> None:
    for (name, number, age), batch in zip(told, parts, strict=True):
        piece = _from_batch(batch, group.clock() - age, group, join)
        group.undelivered.setdefault((name, number), []).append(ResultSelection(piece, np.arange(len(piece))))


def _came_to_batch(seq: np.ndarray, keys: np.ndarray | None) -> pa.RecordBatch:
    return pa.record_batch({"seq": pa.array(seq)} | ({} if keys is None else {"key": pa.array(keys)}))


def _came_from_batch(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray | None]:
    keyed = "key" in batch.schema.names
    return batch.column("seq").to_numpy(), batch.column("key").to_numpy() if keyed else None


def _places(join: Join) -> list[int]:
    """Origins of stored places: by `seq` in joins with row windows, else by row numbers of the window."""
    return [0 if join.bound.query.counts_rows else w.number(w.first) for w in join.windows]


def _to_batch(piece: ResultBatch, base: list[int]) -> pa.RecordBatch:
    columns = {f"{alias}.{name}": column for (alias, name), column in piece.columns.items()}
    columns[_NEWEST] = pa.array(piece.newest)
    for stream, first in enumerate(base):
        columns[f"{_PLACE}{stream}"] = pa.array(piece.positions[stream] - first)
        columns[f"{_RANK}{stream}"] = pa.array(piece.ranks[stream])
    return pa.record_batch(columns)


def _from_batch(batch: pa.RecordBatch, arrived: float, group: SharedJoin, join: Join) -> ResultBatch:
    base = _places(join)
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
