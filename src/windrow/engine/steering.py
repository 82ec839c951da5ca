"""Changes to a running operator: applies control messages and sets event time back.

When event time is set back, everything that goes by it goes on from the earlier time: whatever has state says
which of its fields are event times (`Stateful.clocks`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from windrow.engine.control import SetBack, read_control, refusing
from windrow.errors import QueryError, unknown

if TYPE_CHECKING:
    from windrow.engine.operator import Operator


def apply(op: Operator, document: str | Mapping[str, Any]) -> None:
    """A message that is refused changes nothing."""
    change = read_control(document)
    with refusing():
        if isinstance(change, SetBack):
            for alias in change.times:
                if alias not in op.query.streams:
                    raise QueryError(f"control: event_time: {unknown('stream', alias, op.query.aliases)}")
            op.set_back(change.times)
            return
        evictor = op._join.evictor if op._join else None
        if evictor is None:
            raise QueryError("control: importance matters under a memory limit; this query has none")
        evictor.ranking.change_importance(change.at, change.importance)


def turn_clocks_back(op: Operator) -> None:
    """All of an operator's, to the newest event time where they are later."""
    newest = op._watermarks.max_event_time
    if newest is None:
        return
    op._expiry.set_back()
    for part in (op._planner, op._deadline_controller, op._join):
        if part is not None:
            part.turn_back(newest)
