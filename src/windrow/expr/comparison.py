"""Comparisons, and casts of several values to their common type.

A comparison with null is null. As in Spark, NaN equals itself and is above every other number. A literal
adapts to the values beside it: text becomes a date or timestamp, a number with a decimal point becomes an
exact decimal beside a decimal, and a timestamp literal takes the zone of the other side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt
from sqlglot import exp

from windrow.errors import QueryError
from windrow.expr.casts import cast
from windrow.expr.constants import decimal_scalar, exact_number
from windrow.expr.dialect import render
from windrow.expr.types import (
    common_type,
    is_list,
    is_moment,
    is_text,
    mixed_zones,
    sql_name,
    sql_type,
)
from windrow.expr.values import Value

_COMPARE: dict[str, Callable[..., Value]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
WRITE_INTERVAL = "write a span of time like interval '5' second"


@dataclass(frozen=True)
class Operand:
    """A value with its expression, which shows whether it is a literal and appears in error messages."""

    node: exp.Expr
    value: Value

    @property
    def type(self) -> pa.DataType:
        return self.value.type

    def __str__(self) -> str:
        return f"{render(self.node)} ({self.type})"


def compare(op: str, left: Operand, right: Operand, nan_as_null: bool = False) -> Value:
    """`left op right` for = <> < <= > >=."""
    x, y = unified([left, right])
    if pt.is_nested(x.type):
        remedy = "; use jaccard, overlap, cosine or distance" if is_list(x.type) else "; compare its fields"
        raise QueryError(f"cannot compare {left} with {right}{remedy}")
    if pt.is_null(x.type):
        return pa.scalar(None, pa.bool_())
    if pt.is_floating(x.type) and nan_as_null:
        x, y = (pc.if_else(pc.is_nan(v), pa.scalar(None, v.type), v) for v in (x, y))
    elif pt.is_floating(x.type):
        return _compare_floats(op, x, y)
    try:
        return _COMPARE[op](x, y)
    except pa.ArrowNotImplementedError:
        # Arrow does not order this type. Its message names kernels instead of the query's expressions.
        raise QueryError(f"cannot compare {left} with {right}") from None


def _compare_floats(op: str, x: Value, y: Value) -> Value:
    """Arrow compares as IEEE does: with NaN, only `<>` holds."""
    if op in (">", ">="):
        return _compare_floats("<" if op == ">" else "<=", y, x)
    x_nan, y_nan = pc.is_nan(x), pc.is_nan(y)
    if op in ("=", "<>"):
        same = pc.or_(pc.equal(x, y), pc.and_(x_nan, y_nan))
        return same if op == "=" else pc.invert(same)
    if op == "<=":
        return pc.or_(pc.less_equal(x, y), y_nan)
    return pc.or_(pc.less(x, y), pc.and_(pc.invert(x_nan), y_nan))


def unified(operands: Sequence[Operand], where: str = "") -> list[Value]:
    """All values as their common type. `where` is the function whose arguments they are."""
    fitted = [_fitted(one, [o.type for o in operands]) for one in operands]
    dtype = reduce(lambda a, b: _combined(a, b, where), fitted).type
    return [cast(one.value, dtype) for one in fitted]


def _combined(left: Operand, right: Operand, where: str) -> Operand:
    """A null of the common type; an operand rather than a type so that it can be reduced over."""
    dtype = common_type(left.type, right.type)
    if dtype is not None:
        return Operand(left.node, pa.scalar(None, dtype))
    text, other = (right, left) if is_text(right.type) and not is_text(left.type) else (left, right)
    remedy = f"cast one of them, for example cast({render(text.node)} as {sql_name(other.type)})"
    if any(pt.is_duration(t) for t in (left.type, right.type)):
        remedy = WRITE_INTERVAL
    what = (
        f"cannot combine {left} with {right} in {where}" if where else f"cannot compare {left} with {right}"
    )
    raise mismatch(what, left, right, remedy)


def mismatch(what: str, left: Operand, right: Operand, remedy: str) -> QueryError:
    """The error of an operation on two types that do not fit; time zones have a remedy of their own."""
    if not mixed_zones(left.type, right.type):
        return QueryError(f"{what}; {remedy}")
    bare = left if left.type.tz is None else right
    return QueryError(
        f"{what}: one has a time zone and the other has none; cast one of them, for example "
        f"cast({render(bare.node)} as timestamptz), which reads it as UTC"
    )


def _fitted(one: Operand, types: Sequence[pa.DataType]) -> Operand:
    """A literal cast to suit the other types; anything else unchanged."""
    others = [dtype for dtype in types if not dtype.equals(one.type)]
    number = exact_number(one.node)
    if number is not None:
        exact = any(pt.is_decimal(t) for t in others) and not any(pt.is_floating(t) for t in others)
        return Operand(one.node, decimal_scalar(number)) if exact else one
    moment = next((t for t in others if is_moment(t)), None)
    text = _moment_text(one.node)
    return one if moment is None or text is None else _moment(one, text, moment)


def _moment(one: Operand, text: str, dtype: pa.DataType) -> Operand:
    if pt.is_date(dtype) and len(text.strip()) > 10:
        dtype = pa.timestamp("us")
    if pt.is_timestamp(dtype):
        dtype = pa.timestamp("ns" if dtype.unit == "ns" else "us", dtype.tz)
    value = cast(pa.scalar(text), pa.timestamp("us") if pt.is_date(dtype) else pa.timestamp(dtype.unit))
    if value.is_valid and pt.is_timestamp(dtype) and dtype.tz is not None:
        value = pc.assume_timezone(value, dtype.tz, ambiguous="earliest", nonexistent="latest")
    value = cast(pa.scalar(text), dtype) if not value.is_valid else cast(value, dtype)
    if not value.is_valid:
        raise QueryError(f"cannot read '{text}' as a {sql_name(dtype)}; write it like '2024-01-31 12:00:00'")
    return Operand(one.node, value)


def _moment_text(node: exp.Expr) -> str | None:
    """The text of the literals '...' and timestamp '...'. A literal date '...' keeps its type."""
    node = node.unnest()
    if isinstance(node, exp.Cast) and pt.is_timestamp(sql_type(node.to)):
        node = node.this
    return node.name if isinstance(node, exp.Literal) and node.is_string else None
