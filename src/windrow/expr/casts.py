"""Casts. A value that cannot be cast (text that is not a number, a number out of range) becomes null.

A cast to an integer drops the fraction. A cast to a decimal of smaller scale rounds half away from zero. A
cast to a coarser timestamp or a date rounds down. A date becomes midnight in the zone of the target. Casts
between timestamps with and without a zone read the one without as UTC.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from windrow.errors import QueryError
from windrow.expr.types import as_decimal, decimal_type, is_text
from windrow.expr.values import Value

_WIDE = pa.decimal256(76, 38)


def cast(value: Value, dtype: pa.DataType) -> Value:
    """The value as `dtype`, null where that is impossible. A value that has the type is not copied."""
    if value.type.equals(dtype):
        return value
    value = _prepared(value, dtype)
    return value if value.type.equals(dtype) else _arrow_cast(value, dtype)


def _arrow_cast(value: Value, dtype: pa.DataType) -> Value:
    try:
        return pc.cast(value, dtype)
    except pa.ArrowInvalid:
        # Arrow refuses the whole batch for one bad value. Only that value becomes null.
        return _cast_each(value, dtype)
    except pa.ArrowNotImplementedError:
        # No value of this type can be cast, so the query is wrong. Arrow's message names its kernels.
        raise QueryError(f"cannot cast {value.type} to {dtype}") from None


def _prepared(value: Value, dtype: pa.DataType) -> Value:
    """Applies the module's rules where Arrow refuses a cast or rounds differently."""
    source = value.type
    if (pt.is_floating(source) or pt.is_decimal(source)) and pt.is_integer(dtype):
        return pc.trunc(value)
    if pt.is_decimal(source) and pt.is_decimal(dtype) and dtype.scale < source.scale:
        return pc.round(value, ndigits=dtype.scale, round_mode="half_towards_infinity")
    if pt.is_integer(source) and pt.is_floating(dtype):
        return pc.cast(value, dtype, safe=False)  # rounds to the nearest double; a safe cast refuses
    if pt.is_integer(source) and pt.is_decimal(dtype):
        # Arrow requires room for every integer of the source type, even if the values are small.
        digits = as_decimal(source).precision + dtype.scale
        return pc.cast(value, decimal_type(digits, dtype.scale)) if digits > dtype.precision else value
    if is_text(source) and pt.is_decimal(dtype) and not dtype.equals(_WIDE):
        return cast(cast(value, _WIDE), dtype)  # the text may have more digits than are kept
    if is_text(source) and pt.is_timestamp(dtype) and dtype.tz is not None:
        return _zoned_text(value, dtype)
    if pt.is_timestamp(source) and pt.is_timestamp(dtype):
        return _floored(value, dtype)
    if pt.is_timestamp(source) and pt.is_date(dtype):
        return pc.local_timestamp(value) if source.tz else value
    if pt.is_date(source) and pt.is_timestamp(dtype) and dtype.tz is not None:
        naive = pc.cast(value, pa.timestamp(dtype.unit))
        return pc.assume_timezone(naive, dtype.tz, ambiguous="earliest", nonexistent="latest")
    return value


def _floored(value: Value, dtype: pa.DataType) -> Value:
    units = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}
    order = list(units)
    if order.index(dtype.unit) >= order.index(value.type.unit):
        return value
    return pc.floor_temporal(value, unit=units[dtype.unit])


def _zoned_text(value: Value, dtype: pa.DataType) -> Value:
    """Text with an offset such as +02:00 or Z is in that zone; text without is UTC."""
    zoned = pc.match_substring_regex(value, r":\d\d.*(Z|[+-]\d\d(:?\d\d)?)$")
    nothing = pa.scalar(None, value.type)
    with_zone = _arrow_cast(pc.if_else(zoned, value, nothing), dtype)
    without = cast(pc.if_else(zoned, nothing, value), pa.timestamp(dtype.unit))
    return pc.coalesce(with_zone, pc.cast(without, dtype))


def _cast_each(value: Value, dtype: pa.DataType) -> Value:
    """Casts each distinct value separately: slow, and needed only if some value fails."""
    if isinstance(value, pa.Scalar):
        return _cast_one(value, dtype)
    encoded = value.dictionary_encode()
    casts = [_cast_one(one, dtype) for one in encoded.dictionary]
    return pa.array(casts, dtype).take(encoded.indices)


def _cast_one(value: pa.Scalar, dtype: pa.DataType) -> pa.Scalar:
    try:
        return pc.cast(value, dtype)
    except pa.ArrowInvalid:
        return pa.scalar(None, dtype)
