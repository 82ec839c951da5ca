"""The state of one partition, put together from those of all partitions of another layout.

    every old partition: rows that go to the new one and that no other old partition gives -> sort by time

A row that the old layout copies to several partitions is taken from one of them. In an inner join any will
do: what one of them has expired, no later row can join. In an outer join a parked combination may need rows
that have expired elsewhere. So a row is taken from the partition that has expired the least.

What belongs to rows goes with them: their place in row windows, and parked combinations. Watermarks become
the latest of all. Counts go to one partition, so that their sums over partitions stay the same. What policies
and the planner have learned about the rows of an old partition does not fit those of a new one. They start
anew, and rows held count as if they had just arrived, as after a change of the policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from windrow.engine.completeness import Completeness
from windrow.engine.counters import Counters
from windrow.engine.key_numbers import KeyNumbers
from windrow.engine.outer.redistribution import GIVEN_ELSEWHERE, NOT_HERE, REMEDY, Numbering, merged_outer
from windrow.engine.row_windows import KEY, NEVER, OUT, RANK, SEQ, RowWindow
from windrow.engine.rows import event_times
from windrow.engine.source_partitions import latest
from windrow.engine.state import (
    CALL,
    COMPONENTS,
    State,
    StoredState,
    StreamState,
    assembled,
    saved_windows,
    writer_named,
)
from windrow.engine.watermarks import Watermarks
from windrow.errors import StateError
from windrow.model.join_kind import INNER
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.parse import SHED
from windrow.model.stateful import encode, this_version
from windrow.window.segment import SEGMENTS_PER_WINDOW, Payload, owned

Array = np.ndarray


class Moves(Protocol):
    """Which rows a partition of the new layout takes over."""

    @property
    def first(self) -> bool:
        """Whether it is the partition that counts go to."""

    @property
    def copied(self) -> bool:
        """Whether the old layout copies rows."""

    def rows(self, partition: int, stream: int, rows: pa.RecordBatch, ranks: Array) -> tuple[Array, Array]:
        """Masks of rows that an old partition holds: those that belong here, and those that this old
        partition gives. Of several old partitions that hold a row, the one with the least rank gives it."""


@dataclass(frozen=True)
class _Taken:
    """Rows of one stream's window that one old partition gives."""

    rows: pa.Table
    order: pa.RecordBatch | None
    """Places in row windows."""
    keys: KeyNumbers | None
    numbers: Array
    """By stored row of the old partition: its number among the rows taken; NOT_HERE if it belongs elsewhere,
    GIVEN_ELSEWHERE if it belongs here and another old partition gives it."""


def redistributed(states: Sequence[State], moves: Moves) -> State:
    """The state of one new partition, from those of all old ones."""
    with writer_named(states[0]):
        return _redistributed(states, moves)


def _redistributed(states: Sequence[State], moves: Moves) -> State:
    olds = [StoredState(state) for state in states]
    heads = [old.head for old in olds]
    _check_no_sample(heads)
    _check_aligned(olds, moves)
    arrays: list[Array] = []
    taken = [_stream(olds, number, moves) for number in range(len(heads[0]["streams"]))]
    join = _join(olds, moves, [numbering for *_, numbering in taken], arrays)
    row_windows = encode([window for _, window, _ in taken], arrays)
    head = {
        "windrow": this_version(),
        "query": _widest([h["query"] for h in heads]),
        "calls": max(h["calls"] for h in heads),
        "seq": max(h["seq"] for h in heads),
        "comparisons": sum(h["comparisons"] for h in heads) if moves.first else 0,
        "overhead": 0.0,
        "streams": [stream.described() for stream, *_ in taken],
        "components": _components(olds, moves, arrays),
        "join": join,
        "windows": join and saved_windows(row_windows, _complete_from(olds)),
        "redistributed": {"shed": any(_shed(h) for h in heads)},
    }
    return assembled(head, [part for stream, *_ in taken for part in stream.parts()], arrays)


def _widest(queries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The query of the old partitions. In a shared join, a query may have ended in some of them only."""
    within = {
        alias: [kind, max(q["within"][alias][1] for q in queries)]
        for alias, (kind, _) in queries[0]["within"].items()
    }
    return {**queries[0], "within": within}


def _check_no_sample(heads: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a sample: with what probability a row is in it, only its old partition knows."""
    limited = heads[0]["query"]["memory"]
    policy = limited and limited[1].get("policy")
    if policy and issubclass(kind := SHED[policy], MemoryPolicy) and kind.samples and any(map(_shed, heads)):
        raise StateError(
            f"the rows of this join cannot be redistributed now: they are a sample ({policy}), and its "
            f"weights belong to the partitions that drew it; {REMEDY}"
        )


def _check_aligned(olds: Sequence[StoredState], moves: Moves) -> None:
    """Refuse buffered rows of which one copy may have been joined and another not."""
    if not moves.copied or not any(held.buffered for old in olds for held in old.streams):
        return
    if any(old.head["components"][0] != olds[0].head["components"][0] for old in olds):
        raise StateError(
            "the rows of this join cannot be redistributed now: rows wait for their place in a row window, "
            "their copies are in several partitions, and some of these have joined them already. After a "
            f"micro-batch without new rows it can be done; or {REMEDY}"
        )


def old_ranks(olds: Sequence[StoredState], stream: int) -> Array:
    """Old partitions in order of how much of the stream has expired there."""
    expired = [None if old.complete_from is None else old.complete_from[stream] for old in olds]
    order = sorted(range(len(olds)), key=lambda p: (expired[p] is not None, expired[p] or 0, p))
    ranks = np.empty(len(olds), np.int64)
    ranks[order] = np.arange(len(olds))
    return ranks


def _complete_from(olds: Sequence[StoredState]) -> list[int | None]:
    """Per stream, the time from which on all rows are held that later rows or parked combinations may need.

    Windows of an inner join may grow at a restart, so the time is that of the partition which has expired
    the most. Those of other joins may not, and rows of which all copies have expired are of no use to
    anyone: the time is that of the partition which has expired the least, as `old_ranks` needs it.
    """
    known = [old.complete_from for old in olds if old.complete_from is not None]
    query = olds[0].head["query"]
    grows = query["how"] == INNER and not query["match"]
    if grows:
        return [max((t for t in times if t is not None), default=None) for times in zip(*known, strict=True)]
    return [None if None in times else min(times) for times in zip(*known, strict=True)]


def _shed(head: Mapping[str, Any]) -> bool:
    join = head["join"] or {}
    evicted = (join.get("evictor") or {}).get("evicted", ())
    before = head.get("redistributed", {}).get("shed", False)
    return before or any((*evicted, *join.get("dropped", ()), *join.get("conserved", ())))


# -- rows -----------------------------------------------------------------------------------------------


def _stream(
    olds: Sequence[StoredState], stream: int, moves: Moves
) -> tuple[StreamState, RowWindow | None, Numbering]:
    """What the new partition holds of a stream, its row window, and the new numbers of its rows."""
    ranks = old_ranks(olds, stream)
    held = [old.streams[stream] for old in olds]
    time = list(olds[0].head["query"]["streams"].values())[stream]["time"]
    buffered: list[pa.RecordBatch] = []
    for partition, each in enumerate(held):
        for batch in each.buffered:
            here, given = moves.rows(partition, stream, batch.drop_columns(CALL), ranks)
            if len(rows := batch.filter(pa.array(here & given))):
                buffered.append(rows)
    if buffered:
        rows = pa.concat_batches(buffered)
        buffered = [rows.take(pa.array(np.argsort(event_times(rows.column(time)), kind="stable")))]
    taken = [_taken(old, stream, partition, moves, ranks) for partition, old in enumerate(olds)]
    giving = [each for each in taken if each is not None and each.rows.num_rows]
    order, segments = np.empty(0, np.int64), []
    if giving:
        rows = pa.concat_tables([each.rows for each in giving]).combine_chunks()
        order = np.argsort(event_times(rows.column(time).combine_chunks()), kind="stable")
        segments = _segments(rows.take(pa.array(order)))
    counted = [window for old in olds if (window := old.row_windows[stream]) is not None]
    row_window = row_state = None
    if counted:
        row_window = RowWindow(0, None if counted[0].keys is None else KeyNumbers(exact=False))
        # A window of rows of all keys has one partition, so this is its count; keys have counts of their own.
        row_window.total = max(each.total for each in counted)
    if giving and giving[0].order is not None:
        keys = None if row_window is None else row_window.keys
        row_state = _renumbered(giving, keys).take(pa.array(order))
    schema = next((each.schema for each in held if each.schema is not None), None)
    return StreamState(schema, buffered, segments, row_state), row_window, _numbering(taken, order)


def _taken(old: StoredState, stream: int, partition: int, moves: Moves, ranks: Array) -> _Taken | None:
    """What an old partition gives of a stream's window; None if it has no rows of it."""
    held, counted = old.streams[stream], old.row_windows[stream]
    if not held.segments:
        return None
    skip, order = held.skip, held.row_state
    batches = [payload.rows for payload in held.segments]
    masks = [moves.rows(partition, stream, batch, ranks) for batch in batches]
    here, given = (np.concatenate([mask[k] for mask in masks]) for k in (0, 1))
    # These have expired, although their segment is still held.
    here[:skip] = False
    if order is not None:
        names = [name for name in (SEQ, OUT, RANK, KEY) if name in order.schema.names]
        order = order.select(names) if names else None
    if order is not None and OUT in order.schema.names:
        # Displaced rows join no later row, and what displaced them may not come along.
        here[skip:] &= order.column(OUT).to_numpy() == NEVER
    taken = here & given
    numbers = np.where(here, GIVEN_ELSEWHERE, NOT_HERE)
    numbers[taken] = np.arange(np.count_nonzero(taken))
    return _Taken(
        pa.Table.from_batches(batches).filter(pa.array(taken)),
        None if order is None else order.filter(pa.array(taken[skip:])),
        None if counted is None else counted.keys,
        numbers,
    )


def _segments(rows: pa.Table) -> list[Payload]:
    """Rows in the order of time, cut so that what expires first can be freed first."""
    size = -(-rows.num_rows // SEGMENTS_PER_WINDOW)
    cut = [rows.slice(start, size).combine_chunks() for start in range(0, rows.num_rows, size)]
    return [Payload(owned(batch)) for table in cut for batch in table.to_batches()]


def _renumbered(held: Sequence[_Taken], together: KeyNumbers | None) -> pa.RecordBatch:
    """Places in row windows, with the keys of all old partitions numbered `together`. A key's rows all come
    from one of them, with the key's count. Keys without rows start again."""
    orders = []
    for each in held:
        order = each.order
        assert order is not None
        if together is not None and each.keys is not None:
            used, numbers = np.unique(order.column(KEY).to_numpy(), return_inverse=True)
            numbers += len(together.counts)
            order = order.set_column(order.schema.names.index(KEY), KEY, pa.array(numbers))
            each.keys.keep(used)
            together.append(each.keys)
        orders.append(order)
    return pa.concat_batches(orders)


# -- what is not rows -----------------------------------------------------------------------------------


def _components(olds: Sequence[StoredState], moves: Moves, arrays: list[Array]) -> list[Any]:
    """None starts anew."""
    found: dict[str, Any] = {
        "watermarks": _watermarks([old.component("watermarks") for old in olds]),
        "completeness": merged_completeness([old.component("completeness") for old in olds]),
    }
    if moves.first:
        streams = len(olds[0].streams)
        found["counters"] = _counters([old.component("counters", Counters(streams)) for old in olds])
    return [encode(found.get(name), arrays) for name in COMPONENTS]


def _watermarks(old: Sequence[Watermarks]) -> Watermarks:
    merged = old[0]
    for name in ("max_event_times", "slowest", "closed_at"):
        times = zip(*(getattr(each, name) for each in old), strict=True)
        setattr(merged, name, [max((t for t in some if t is not None), default=None) for some in times])
    merged.partition_times = [latest(some) for some in zip(*(w.partition_times for w in old), strict=True)]
    return merged


def merged_completeness(old: Sequence[Completeness]) -> Completeness:
    merged = Completeness(max((each.since for each in old if each.since is not None), default=None))
    merged.awaits = [max(some) for some in zip(*(each.awaits for each in old if each.awaits), strict=True)]
    return merged


def _counters(old: Sequence[Counters]) -> Counters:
    merged = old[0]
    for each in old[1:]:
        merged.results += each.results
        merged.sub_batches += each.sub_batches
        for name, rows in each.counts.items():
            merged.count(name, rows)
        for name, rows in each.shed_before.items():
            merged.count_shed_before(name, rows)
    return merged


def _join(
    olds: Sequence[StoredState], moves: Moves, numberings: Sequence[Numbering], arrays: list[Array]
) -> dict[str, Any] | None:
    joins = [old.head["join"] for old in olds]
    if any(join is None for join in joins):
        return None

    def total(each: Iterable[Any]) -> Any:
        """Of numbers, or of lists of numbers by stream; they go to the first partition."""
        together = np.sum(list(each), axis=0) * int(moves.first)
        return together.tolist()

    evictors = [join["evictor"] for join in joins if join["evictor"] is not None]
    counted = ("dropped", "unsampled", "conserved", "skipped")
    return {
        **joins[0],
        **{name: total(join[name] for join in joins) for name in counted},
        "evictor": {"evicted": total(each["evicted"] for each in evictors)} if evictors else None,
        "load_shedder": None,
        "failed": {**joins[0]["failed"], "count": total(join["failed"]["count"] for join in joins)},
        "outer": merged_outer(
            [join["outer"] for join in joins], [old.arrays for old in olds], numberings, moves.first, arrays
        ),
    }


def _numbering(own: Sequence[_Taken | None], order: Array) -> Numbering:
    """Maps row numbers of an old partition to those of the new one; negative as in `_Taken.numbers`."""
    # The inverse of the sort by time: where each taken row has gone.
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    sizes = [0 if each is None else each.rows.num_rows for each in own]
    starts = np.cumsum([0, *sizes])

    def numbered(partition: int, numbers: Array) -> Array:
        each = own[partition]
        if each is None or len(numbers) == 0:
            return np.empty(0, np.int64)
        found = each.numbers[numbers]
        known = found >= 0
        found[known] = place[starts[partition] + found[known]]
        return found

    return numbered
