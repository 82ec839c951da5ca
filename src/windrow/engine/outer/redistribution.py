"""Parked combinations and losses of one partition, put together from those of another layout.

A parked combination goes where all its rows go, which is one partition. It refers to rows by their numbers in
the windows, so the windows are put together first. Losses are remembered by sets of keys: the newest of all
partitions counts, which may make a decision uncertain without need, but none certain without proof.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from windrow.engine.outer.losses import Losses
from windrow.engine.outer.parked import Parked
from windrow.errors import StateError
from windrow.model.stateful import decode, encode

Array = np.ndarray
Saved = Mapping[str, Any]
Numbering = Callable[[int, Array], Array]
"""(old partition, row numbers in it) -> row numbers in the new one, NOT_HERE or GIVEN_ELSEWHERE."""
NOT_HERE, GIVEN_ELSEWHERE = -1, -2
REMEDY = (
    "restart the query with the partitions, partitioning and skewed_keys it had, or with a new checkpoint"
)


def merged_outer(
    outers: Sequence[Saved | None],
    arrays: Sequence[list[Array]],
    numbering: Sequence[Numbering],
    first: bool,
    into: list[Array],
) -> dict[str, Any] | None:
    """The saved `OuterJoin` of a new partition, from those of all old ones and their arrays. `numbering` is
    by stream; the `first` partition takes all counts. New arrays are appended to `into`."""
    saved = [outer for outer in outers if outer is not None]
    if not saved:
        return None
    deciders = [
        _decider(each, arrays, numbering, first, into)
        for each in zip(*(outer["_deciders"] for outer in saved), strict=True)
    ]
    return {**saved[0], "_deciders": deciders, "shed": any(outer["shed"] for outer in saved)}


def _decider(
    each: Sequence[Saved],
    arrays: Sequence[list[Array]],
    numbering: Sequence[Numbering],
    first: bool,
    into: list[Array],
) -> dict[str, Any]:
    parked = [decode(d["parked"], own) for d, own in zip(each, arrays, strict=True)]
    losses: list[list[Losses]] = [
        [decode(loss, own) for loss in d["losses"]] for d, own in zip(each, arrays, strict=True)
    ]
    until = [np.maximum.reduce([loss.until for loss in some]) for some in zip(*losses, strict=True)]
    counts = ("unmatched", "uncertain", "given_up")
    pairs = zip(each[0]["losses"], until, strict=True)
    return {
        **each[0],
        **{name: sum(d[name] for d in each) if first else 0 for name in counts},
        "parked": encode(_parked(parked, numbering), into),
        "losses": [{**loss, "until": encode(times, into)} for loss, times in pairs],
    }


def _parked(old: Sequence[Parked], numbering: Sequence[Numbering]) -> Parked:
    """The combinations whose rows all belong to the new partition, in the order of their rows."""
    merged = Parked.none(tuple(old[0].rows))
    for partition, parked in enumerate(old):
        rows = {stream: numbering[stream](partition, numbers) for stream, numbers in parked.rows.items()}
        if not len(parked):
            continue
        least = np.minimum.reduce(list(rows.values()))
        if (least == GIVEN_ELSEWHERE).any():
            raise StateError(
                "the rows of this join cannot be redistributed now: combinations of rows wait for a match, "
                f"and the rows of one combination have copies in several partitions; {REMEDY}"
            )
        merged = merged.plus(Parked(rows, parked.newest, parked.latest).where(least >= 0))
    return merged.where(np.lexsort(list(reversed(list(merged.rows.values())))))
