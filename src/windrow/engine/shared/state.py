"""The state of a group: that of its join, who is subscribed, and what is carried over.

Positions are stored relative to the first live row, and times as ages, so that they mean the same to another
process.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.shared.bound import bind
from windrow.engine.shared.carry import Call, Carrier, Quantum
from windrow.engine.shared.group import GroupOperator
from windrow.engine.shared.grouping import signature
from windrow.engine.shared.results import Part, Piece
from windrow.engine.shared.roster import Member
from windrow.engine.shared.routed import RoutedJoin
from windrow.engine.state import State, capture, fill
from windrow.errors import StateError

_NEWEST, _PLACE, _RANK = "\x00newest", "\x00place", "\x00rank"


def capture_group(op: GroupOperator) -> State:
    base = capture(op)
    join, carrier = op.routed, op.carrier
    shared: dict[str, Any] = {
        "signature": _plain(op),
        "members": [m.to_json() | {"output": op.roster.output(m)} for m in op.roster],
        "leaving": [m.to_json() for m in op.leaving.values()],
        "horizons": join.horizons if join else None,
        "parts": len(base.parts),
        "names": op.names.to_json(),
    }
    parts = list(base.parts)
    if carrier is not None and join is not None:
        shared["carrier"], held = _save(carrier, join, op.clock())
        shared["early"], early = _save_early(op, join)
        parts += [*held, *early]
    return State(base.head | {"group": shared}, tuple(parts))


def revive_group(op: GroupOperator, state: State) -> GroupOperator:
    """Puts a state into a group that has seen nothing yet."""
    shared = state.head.get("group")
    if shared is None or shared["signature"] != _plain(op):
        raise StateError(
            "this state belongs to other queries; go on with those it was begun with (queries are added and "
            "removed by control documents), or start without it"
        )
    op.enroll([Member.load(saved, op.roster.like) for saved in shared["members"]])
    fill(op, State(state.head, state.parts[: shared["parts"]]))
    op.names.load(shared["names"])
    join, carried = op.routed, shared.get("carrier")
    if join is not None:
        join.horizons = list(shared["horizons"])
        for member in (Member.load(saved, op.roster.like) for saved in shared.get("leaving", ())):
            member.bound = bind(member.name, member.asked, join.named_schemas)
            op.leaving[member.key] = member
        if carried is not None and (carried["calls"] or shared["early"]):
            op.serve_all()
        if carried is not None and op.carrier is not None:
            rest = list(state.parts[shared["parts"] :])
            used = _load(op.carrier, join, carried, rest, op.clock())
            _load_early(op, join, shared["early"], rest[used:])
    return op


def _plain(op: GroupOperator) -> dict[str, Any]:
    """What the queries have in common, as far as it is the same in another process."""
    found = signature(op.roster.like)
    found["functions"] = [name for name, _ in found["functions"]]
    return found


def _save(carrier: Carrier, join: RoutedJoin, now: float) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
    base = [w.number(w.first) for w in join.windows]
    calls, parts = [], []
    for call in carrier.calls:
        quanta = [
            {
                "start": [n - b for n, b in zip(q.start, base, strict=True)],
                "end": [n - b for n, b in zip(q.end, base, strict=True)],
                "oldest": q.oldest,
                "first": q.first,
                "done": q.done,
            }
            for q in call.quanta
        ]
        held = [_to_batch(piece, _places(join)) for piece in call.held]
        parts += held
        came = [(s, part) for s, given in call.came.items() for part in given]
        parts += [_came_to_batch(*part) for _, part in came]
        calls.append(
            {"age": now - call.arrived, "released": call.released, "quanta": quanta, "held": len(held)}
            | {"came": [s for s, _ in came]}
        )
    return {"speed": carrier.speed, "found": carrier.found, "calls": calls}, parts


def _load(
    carrier: Carrier, join: RoutedJoin, saved: dict[str, Any], parts: list[pa.RecordBatch], now: float
) -> int:
    """Returns how many of the parts it took."""
    base = [w.number(w.first) for w in join.windows]
    carrier.speed, carrier.found, carrier.calls = saved["speed"], saved["found"], []
    at = 0
    for each in saved["calls"]:
        call = Call(now - each["age"], released=each["released"])
        for q in each["quanta"]:
            start, end = ([n + b for n, b in zip(q[side], base, strict=True)] for side in ("start", "end"))
            call.quanta.append(Quantum(start, end, q["oldest"], q["first"], q["done"]))
        call.held = [_from_batch(b, call.arrived, join) for b in parts[at : at + each["held"]]]
        at += each["held"]
        for stream in each["came"]:
            call.came.setdefault(stream, []).append(_came_from_batch(parts[at]))
            at += 1
        carrier.calls.append(call)
    carrier.hold(join)
    return at


def _save_early(op: GroupOperator, join: RoutedJoin) -> tuple[list[list[Any]], list[pa.RecordBatch]]:
    """What queries are to get with the next call, since the roster changed."""
    told, parts = [], []
    for key, given in op.early.items():
        for part in given:
            if len(part.chosen):
                told.append([*key, op.clock() - part.piece.arrived])
                parts.append(_to_batch(part.piece.where(part.chosen), _places(join)))
    return told, parts


def _load_early(
    op: GroupOperator, join: RoutedJoin, told: list[list[Any]], parts: list[pa.RecordBatch]
) -> None:
    for (name, number, age), batch in zip(told, parts, strict=True):
        piece = _from_batch(batch, op.clock() - age, join)
        op.early.setdefault((name, number), []).append(Part(piece, np.arange(len(piece))))


def _came_to_batch(seq: np.ndarray, keys: np.ndarray | None) -> pa.RecordBatch:
    return pa.record_batch({"seq": pa.array(seq)} | ({} if keys is None else {"key": pa.array(keys)}))


def _came_from_batch(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray | None]:
    keyed = "key" in batch.schema.names
    return batch.column("seq").to_numpy(), batch.column("key").to_numpy() if keyed else None


def _places(join: RoutedJoin) -> list[int]:
    """What places of rows are stored relative to: they are numbers in the order of all rows where windows are
    counted, and else numbers of the window."""
    return [0 if join.query.counts_rows else w.number(w.first) for w in join.windows]


def _to_batch(piece: Piece, base: list[int]) -> pa.RecordBatch:
    columns = {f"{alias}.{name}": column for (alias, name), column in piece.columns.items()}
    columns[_NEWEST] = pa.array(piece.newest)
    for stream, first in enumerate(base):
        columns[f"{_PLACE}{stream}"] = pa.array(piece.places[stream] - first)
        columns[f"{_RANK}{stream}"] = pa.array(piece.ranks[stream])
    return pa.record_batch(columns)


def _from_batch(batch: pa.RecordBatch, arrived: float, join: RoutedJoin) -> Piece:
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
    newest = batch.column(_NEWEST).to_numpy()
    return Piece(columns, newest, places, ranks, arrived, join.functions)
