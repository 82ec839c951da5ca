"""The state of one partition of a query group, put together from those of another layout.

Control messages reach every partition, so all of them know the same queries. One that has ended may be over
in some partitions only; it is kept, and ends in the new ones by itself. Rows in the backlog belong to calls
of their partition and cannot be divided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windrow.engine.outer.redistribution import REMEDY
from windrow.engine.redistribution import Moves, merged_completeness, redistributed
from windrow.engine.shared.response_times import ResponseTimes
from windrow.engine.state import State
from windrow.errors import StateError
from windrow.model.stateful import decode, encode

Saved = Mapping[str, Any]


def redistributed_group(states: Sequence[State], moves: Moves) -> State:
    groups = [state.metadata["group"] for state in states]
    if any((g.get("backlog") or {}).get("calls") or g.get("undelivered") or g["departing"] for g in groups):
        raise StateError(
            "the rows of this join cannot be redistributed now: queries have a backlog, which belongs to the "
            "partitions it arose in. Let the query go on until backlog_rows is 0, for instance without a "
            f"deadline; or {REMEDY}"
        )
    joins = [State(s.metadata, s.parts[: g["parts"]]) for s, g in zip(states, groups, strict=True)]
    base = redistributed(joins, moves)
    same: dict[tuple[str, int], list[Saved]] = {}
    for group in groups:
        for saved in group["subscribers"]:
            same.setdefault((saved["name"], saved["number"]), []).append(saved)
    shared = {
        **groups[0],
        "subscribers": [_subscriber(each, moves) for each in same.values()],
        "parts": len(base.parts),
    }
    return State(base.metadata | {"group": shared}, base.parts)


def _subscriber(same: Sequence[Saved], moves: Moves) -> dict[str, Any]:
    """One query, as the old partitions know it."""
    complete = merged_completeness([decode(each["completeness"], []) for each in same])
    times = ResponseTimes()
    for each in same if moves.first else ():
        times.merge(decode(each["response_times"], []))
    return {
        **same[0],
        "complete_from": complete.complete_from,
        "completeness": encode(complete, []),
        "response_times": encode(times, []),
    }
