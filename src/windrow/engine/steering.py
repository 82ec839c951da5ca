"""An operator steered while it runs: control messages applied, event time set back.

When event time is set back, everything that goes by it goes on from the earlier time. What policies have
learned is in what a restart would carry over; so it is taken out as for one, its clocks are turned back, and
it is put in again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from windrow.engine.control import SetBack, read_control, refusing
from windrow.errors import QueryError, unknown

if TYPE_CHECKING:
    from windrow.engine.operator import Operator

_CLOCKS = frozenset(("now", "until", "next", "interval_ends"))
"""Names under which event times are saved."""


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
        shedder = op._join.shedder if op._join else None
        if shedder is None:
            raise QueryError("control: importance matters under a memory limit; this query has none")
        shedder.ranking.change(change.at, change.importance)


def turn_clocks_back(op: Operator) -> None:
    """All of an operator's, to the newest event time where they are later."""
    newest = op._frontier.newest_of_all
    if newest is None:
        return
    op._expiry.set_back()
    controller = op._controller.save()
    rows, until = controller["seen"]
    op._controller.load(controller | {"seen": [rows, None if until is None else min(until, newest)]})
    if op._keeper is not None:
        op._keeper.load(_earlier(op._keeper.save(), newest))
    if op._join is not None and op._join.saver is not None:
        op._join.saver.load(_earlier(op._join.saver.save(), newest), op._join)
    if op._join is not None and op._join.shedder is not None:
        plain, parts = op._join.shedder.save()
        op._join.shedder.load(_earlier(plain, newest), parts)


def _earlier(plain: Any, newest: int) -> Any:
    if isinstance(plain, list):
        return [_earlier(each, newest) for each in plain]
    if not isinstance(plain, dict):
        return plain
    return {
        name: min(value, newest) if name in _CLOCKS and isinstance(value, int) else _earlier(value, newest)
        for name, value in plain.items()
    }
