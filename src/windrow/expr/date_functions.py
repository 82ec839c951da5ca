"""Functions of dates and timestamps, computed in the timestamp's own zone."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from windrow.errors import QueryError
from windrow.expr.arithmetic import arithmetic
from windrow.expr.builtin import Builtin, refuse
from windrow.expr.casts import cast
from windrow.expr.comparison import Operand
from windrow.expr.dialect import render
from windrow.expr.types import is_moment, is_text
from windrow.expr.values import Value, is_constant


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


_UNITS = (
    "year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond",
)  # fmt: skip


def _date_trunc(unit: Operand, moment: Operand) -> Value:
    """The beginning of the unit that holds a timestamp; weeks begin on Monday."""
    name = unit.value.as_py() if is_constant(unit.value) and is_text(unit.type) else None
    if name is None or name.lower() not in _UNITS:
        raise QueryError(f"date_trunc takes one of {', '.join(_UNITS)} as a string, got {render(unit.node)}")
    value = _moment("date_trunc", moment)
    if pt.is_date(value.type):
        value = cast(value, pa.timestamp("us"))
    return cast(pc.floor_temporal(value, unit=name.lower()), value.type)


TIMES: dict[str, Builtin] = {
    "year": _part("year", pc.year),
    "quarter": _part("quarter", pc.quarter),
    "month": _part("month", pc.month),
    "day": _part("day", pc.day),
    "hour": _part("hour", pc.hour, clock=True),
    "minute": _part("minute", pc.minute, clock=True),
    "second": _part("second", pc.second, clock=True),
    "datediff": Builtin(_datediff, 2, 2),
    "date_trunc": Builtin(_date_trunc, 2, 2),
}
