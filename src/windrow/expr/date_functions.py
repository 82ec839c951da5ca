"""Functions of dates and timestamps, computed in the timestamp's own zone."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from windrow.expr.arithmetic import arithmetic
from windrow.expr.builtin import Builtin, refuse
from windrow.expr.casts import cast
from windrow.expr.comparison import Operand
from windrow.expr.types import is_moment
from windrow.expr.values import Value


def _part(name: str, call: Callable[..., Value], clock: bool = False) -> Builtin:
    def apply(operand: Operand) -> Value:
        value = _moment(name, operand)
        if clock and pt.is_date(value.type):
            value = cast(value, pa.timestamp("us"))
        return cast(call(value), pa.int64())

    return Builtin(apply)


def _moment(name: str, operand: Operand) -> Value:
    if not is_moment(operand.type):
        raise refuse(name, operand, "a date or timestamp")
    return operand.value


def _datediff(end: Operand, start: Operand) -> Value:
    """Whole days from start to end, by the calendar."""
    dates = (cast(cast(_moment("datediff", o), pa.date32()), pa.int32()) for o in (end, start))
    return arithmetic("-", *dates)


TIMES: dict[str, Builtin] = {
    "year": _part("year", pc.year),
    "quarter": _part("quarter", pc.quarter),
    "month": _part("month", pc.month),
    "day": _part("day", pc.day),
    "hour": _part("hour", pc.hour, clock=True),
    "minute": _part("minute", pc.minute, clock=True),
    "second": _part("second", pc.second, clock=True),
    "datediff": Builtin(_datediff, 2, 2),
}
