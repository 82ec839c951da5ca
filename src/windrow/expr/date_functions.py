"""Functions of dates and timestamps, computed in the timestamp's own zone."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from windrow.errors import QueryError
from windrow.expr.arguments import Argument
from windrow.expr.arithmetic import arithmetic
from windrow.expr.casts import cast
from windrow.expr.dialect import render
from windrow.expr.types import is_text
from windrow.expr.values import Value, is_constant

_UNITS = (
    "year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond",
)  # fmt: skip


def _part(call: Callable[..., Value]) -> Callable[[Argument], Value]:
    return lambda moment: cast(call(moment.moment()), pa.int64())


def _clock_part(call: Callable[..., Value]) -> Callable[[Argument], Value]:
    return lambda moment: cast(call(_with_clock(moment)), pa.int64())


def _with_clock(moment: Argument) -> Value:
    """A timestamp; midnight of a date."""
    value = moment.moment()
    return cast(value, pa.timestamp("us")) if pt.is_date(value.type) else value


def _datediff(end: Argument, start: Argument) -> Value:
    """Whole days from start to end, by the calendar."""
    return arithmetic("-", *(cast(cast(each.moment(), pa.date32()), pa.int32()) for each in (end, start)))


def _date_trunc(unit: Argument, moment: Argument) -> Value:
    """The beginning of the unit that holds a timestamp; weeks begin on Monday."""
    name = unit.value.as_py() if is_constant(unit.value) and is_text(unit.type) else None
    if name is None or name.lower() not in _UNITS:
        raise QueryError(f"date_trunc takes one of {', '.join(_UNITS)} as a string, got {render(unit.node)}")
    value = _with_clock(moment)
    return cast(pc.floor_temporal(value, unit=name.lower()), value.type)


TIMES: dict[str, Callable[..., Value]] = {
    "year": _part(pc.year),
    "quarter": _part(pc.quarter),
    "month": _part(pc.month),
    "day": _part(pc.day),
    "hour": _clock_part(pc.hour),
    "minute": _clock_part(pc.minute),
    "second": _clock_part(pc.second),
    "datediff": _datediff,
    "date_trunc": _date_trunc,
}
