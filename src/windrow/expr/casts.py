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


def cast(value: Value, kind: pa.DataType) -> Value:
    """The value as `kind`, null where that is impossible. A value that has the type is not copied."""
    if value.type.equals(kind):
        return value
    value = _prepared(value, kind)
    return value if value.type.equals(kind) else _arrow_cast(value, kind)


def _arrow_cast(value: Value, kind: pa.DataType) -> Value:
    try:
        return pc.cast(value, kind)
    except pa.ArrowInvalid:
        # Arrow refuses the whole batch for one bad value. Only that value becomes null.
        return _cast_each(value, kind)
    except pa.ArrowNotImplementedError:
        # No value of this type can be cast, so the query is wrong. Arrow's message names its kernels.
        raise QueryError(f"cannot cast {value.type} to {kind}") from None


def _prepared(value: Value, kind: pa.DataType) -> Value:
    """Applies the module's rules where Arrow refuses a cast or rounds differently."""
    source = value.type
    if (pt.is_floating(source) or pt.is_decimal(source)) and pt.is_integer(kind):
        return pc.trunc(value)
    if pt.is_decimal(source) and pt.is_decimal(kind) and kind.scale < source.scale:
        return pc.round(value, ndigits=kind.scale, round_mode="half_towards_infinity")
    if pt.is_integer(source) and pt.is_floating(kind):
        return pc.cast(value, kind, safe=False)  # rounds to the nearest double; a safe cast refuses
    if pt.is_integer(source) and pt.is_decimal(kind):
        # Arrow requires room for every integer of the source type, even if the values are small.
        digits = as_decimal(source).precision + kind.scale
        return pc.cast(value, decimal_type(digits, kind.scale)) if digits > kind.precision else value
    if is_text(source) and pt.is_decimal(kind):
        return _from_text(value, kind)
    if is_text(source) and pt.is_timestamp(kind) and kind.tz is not None:
        return _zoned_text(value, kind)
    if pt.is_timestamp(source) and pt.is_timestamp(kind):
        return _floored(value, kind)
    if pt.is_timestamp(source) and pt.is_date(kind):
        return pc.local_timestamp(value) if source.tz else value
    if pt.is_date(source) and pt.is_timestamp(kind) and kind.tz is not None:
        naive = pc.cast(value, pa.timestamp(kind.unit))
        return pc.assume_timezone(naive, kind.tz, ambiguous="earliest", nonexistent="latest")
    return value


def _floored(value: Value, kind: pa.DataType) -> Value:
    units = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}
    order = list(units)
    if order.index(kind.unit) >= order.index(value.type.unit):
        return value
    return pc.floor_temporal(value, unit=units[kind.unit])


def _from_text(value: Value, kind: pa.DataType) -> Value:
    """Reads the text as a wide decimal and then rounds: it may have more digits than `kind`."""
    wide = pa.decimal256(76, 38)
    return cast(cast(value, wide), kind) if not kind.equals(wide) else value


def _zoned_text(value: Value, kind: pa.DataType) -> Value:
    """Text with an offset such as +02:00 or Z is in that zone; text without is UTC."""
    zoned = pc.match_substring_regex(value, r":\d\d.*(Z|[+-]\d\d(:?\d\d)?)$")
    nothing = pa.scalar(None, value.type)
    with_zone = _arrow_cast(pc.if_else(zoned, value, nothing), kind)
    without = cast(pc.if_else(zoned, nothing, value), pa.timestamp(kind.unit))
    return pc.coalesce(with_zone, pc.cast(without, kind))


def _cast_each(value: Value, kind: pa.DataType) -> Value:
    """Casts each distinct value separately: slow, and needed only if some value fails."""
    if isinstance(value, pa.Scalar):
        return _cast_one(value, kind)
    encoded = value.dictionary_encode()
    casts = [_cast_one(one, kind) for one in encoded.dictionary]
    return pa.array(casts, kind).take(encoded.indices)


def _cast_one(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar:
    try:
        return pc.cast(value, kind)
    except pa.ArrowInvalid:
        return pa.scalar(None, kind)
