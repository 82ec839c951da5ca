"""Arithmetic on numbers and times. Division by zero and overflow give null.

Integers are computed as int64, decimals exactly, and anything with a float as float64. `/` always gives a
double. `%` takes the sign of the dividend. The difference of two points in time is a duration; a point in
time plus or minus a duration is a point in time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from windrow.expr.casts import cast
from windrow.expr.encoding import raw_values
from windrow.expr.types import as_decimal, common_type, finer, is_moment, is_number, mixed_zones
from windrow.expr.values import Value, from_numpy, from_unscaled, rowwise, to_numpy, valid_mask

_CHECKED: dict[str, Callable[..., Value]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
_PLAIN: dict[str, Callable[..., Value]] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


def arithmetic(op: str, left: Value, right: Value) -> Value | None:
    """`left op right` for + - * / %, or None if these types have no such operation."""
    if pt.is_null(left.type) or pt.is_null(right.type):
        other = right.type if pt.is_null(left.type) else left.type
        return pa.scalar(None, other if is_number(other) else pa.null())
    if is_number(left.type) and is_number(right.type):
        return _numbers(op, left, right)
    return _times(op, left, right)


def negated(value: Value) -> Value | None:
    if pt.is_integer(value.type):
        return arithmetic("-", pa.scalar(0), value)
    if is_number(value.type):
        return pc.negate(value)
    if pt.is_duration(value.type):
        return pc.cast(pc.negate(pc.cast(value, pa.int64())), value.type)
    return value if pt.is_null(value.type) else None


def _numbers(op: str, left: Value, right: Value) -> Value:
    if op == "/":
        divisor = cast(right, pa.float64())
        divisor = pc.if_else(pc.equal(divisor, 0.0), pa.scalar(None, pa.float64()), divisor)
        return pc.divide(cast(left, pa.float64()), divisor)
    dtype = common_type(left.type, right.type)
    if pt.is_uint64(dtype):
        dtype = as_decimal(dtype)
    if op == "%":
        return _remainder(left, right, dtype)
    if pt.is_decimal(dtype):
        return _decimals(op, left, right)
    left, right = cast(left, dtype), cast(right, dtype)
    if pt.is_floating(dtype):
        return _PLAIN[op](left, right)
    return _integers(op, left, right)


def _integers(op: str, left: Value, right: Value) -> Value:
    try:
        return _CHECKED[op](left, right)
    except pa.ArrowInvalid:
        return rowwise(lambda x, y: _null_on_overflow(op, x, y), left, right)


def _null_on_overflow(op: str, left: pa.Array, right: pa.Array) -> pa.Array:
    """Finds the overflowing rows with Python integers: slow, and needed only if some row overflows."""
    x, y = to_numpy(left, pa.int64()).astype(object), to_numpy(right, pa.int64()).astype(object)
    exact = x + y if op == "+" else x - y if op == "-" else x * y
    fits = ((exact >= -(2**63)) & (exact < 2**63)).astype(bool)
    return from_numpy(np.where(fits, exact, 0).astype(np.int64), valid_mask(left, right) & fits)


def _decimals(op: str, left: Value, right: Value) -> Value:
    x, y = as_decimal(left.type), as_decimal(right.type)
    if op == "*":
        digits = x.precision + y.precision + 1
    else:
        digits = max(x.precision - x.scale, y.precision - y.scale) + max(x.scale, y.scale) + 1
    if digits > 76:  # past decimal256: approximate rather than refuse
        return _PLAIN[op](cast(left, pa.float64()), cast(right, pa.float64()))
    if digits > 38:
        x, y = pa.decimal256(x.precision, x.scale), pa.decimal256(y.precision, y.scale)
    return _PLAIN[op](cast(left, x), cast(right, y))


def _remainder(left: Value, right: Value, dtype: pa.DataType) -> Value:
    if pt.is_decimal(dtype):  # exact only while the digits fit an int64
        dtype = pa.decimal128(18, dtype.scale) if dtype.precision <= 18 else pa.float64()
    return rowwise(_fmod, cast(left, dtype), cast(right, dtype))


def _fmod(left: pa.Array, right: pa.Array) -> pa.Array:
    dtype = left.type
    scaled = pt.is_decimal(dtype)
    # A decimal of up to 18 digits fits the low half of its 128 bits.
    x, y = (raw_values(v, np.int64, 2)[::2] if scaled else to_numpy(v, dtype) for v in (left, right))
    zero = y == 0
    with np.errstate(invalid="ignore"):
        rest = np.fmod(x, np.where(zero, 1, y))
    valid = valid_mask(left, right) & ~zero
    return from_unscaled(rest, valid, dtype) if scaled else from_numpy(rest, valid)


def _times(op: str, left: Value, right: Value) -> Value | None:
    a, b = left.type, right.type
    if is_moment(a) and is_moment(b):
        return _difference(left, right) if op == "-" and not mixed_zones(a, b) else None
    if pt.is_duration(a) and is_moment(b) and op == "+":
        return _times(op, right, left)
    if is_moment(a) and pt.is_duration(b) and op in "+-":
        moment = pa.timestamp("us") if pt.is_date(a) else a
        return _shifted(op, cast(left, moment), right)
    if pt.is_duration(a) and pt.is_duration(b) and op in "+-":
        dtype = common_type(a, b)
        return pc.cast(arithmetic(op, _ticks(left, dtype), _ticks(right, dtype)), dtype)
    if op == "*" and pt.is_duration(a) and pt.is_integer(b):
        return pc.cast(arithmetic("*", pc.cast(left, pa.int64()), right), a)
    if op == "*" and pt.is_integer(a) and pt.is_duration(b):
        return _times(op, right, left)
    return None


def _difference(left: Value, right: Value) -> Value:
    dtype = common_type(left.type, right.type)
    if dtype is None or pt.is_date(dtype):
        dtype = pa.timestamp("s")
    return pc.cast(arithmetic("-", _ticks(left, dtype), _ticks(right, dtype)), pa.duration(dtype.unit))


def _shifted(op: str, moment: Value, span: Value) -> Value:
    """Computes in the finer of both units, so that nothing is rounded."""
    unit = finer(moment.type.unit, span.type.unit)
    dtype = pa.timestamp(unit, moment.type.tz)
    ticks = arithmetic(op, _ticks(moment, dtype), _ticks(span, pa.duration(unit)))
    return pc.cast(ticks, dtype)


def _ticks(value: Value, dtype: pa.DataType) -> Value:
    return pc.cast(cast(value, dtype), pa.int64())
