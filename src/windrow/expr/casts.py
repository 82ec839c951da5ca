"""Casts. What cannot be cast (text that is no number, a number out of range) is null.

A float or decimal becomes an integer by dropping its fraction, a decimal of fewer digits by rounding half
away from zero, a timestamp of a coarser unit or a date by rounding down. A date is midnight in the zone of
the timestamp it becomes; a timestamp without a zone is UTC when it is cast to one with a zone, and back.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from windrow.errors import QueryError
from windrow.expr.types import as_decimal, decimal_type, is_text
from windrow.expr.values import Value


def cast(value: Value, kind: pa.DataType) -> Value:
    """The value as `kind`, null where that is impossible; the very same value if it has that type."""
    if value.type.equals(kind):
        return value
    value = _prepared(value, kind)
    return value if value.type.equals(kind) else _arrow_cast(value, kind)


def _arrow_cast(value: Value, kind: pa.DataType) -> Value:
    try:
        return pc.cast(value, kind)
    except pa.ArrowInvalid:
        # A value of the batch cannot be cast, and Arrow refuses them all: only that one becomes null.
        return _cast_each(value, kind)
    except pa.ArrowNotImplementedError:
        # No value of the type can: the query is wrong, which Arrow says in terms of its kernels.
        raise QueryError(f"cannot cast {value.type} to {kind}") from None


def _prepared(value: Value, kind: pa.DataType) -> Value:
    """Does by rule what Arrow would refuse or do otherwise."""
    source = value.type
    if (pt.is_floating(source) or pt.is_decimal(source)) and pt.is_integer(kind):
        return pc.trunc(value)
    if pt.is_decimal(source) and pt.is_decimal(kind) and kind.scale < source.scale:
        return pc.round(value, ndigits=kind.scale, round_mode="half_towards_infinity")
    if pt.is_integer(source) and pt.is_floating(kind):
        return pc.cast(value, kind, safe=False)  # the nearest double
    if pt.is_integer(source) and pt.is_decimal(kind):
        digits = as_decimal(source).precision + kind.scale  # Arrow wants room for every integer of the type
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
    """Text may have more digits than the decimal: read it wide, then round."""
    wide = pa.decimal256(76, 38)
    return cast(cast(value, wide), kind) if not kind.equals(wide) else value


def _zoned_text(value: Value, kind: pa.DataType) -> Value:
    """Text with an offset such as +02:00 or Z says its zone; text without is UTC."""
    zoned = pc.match_substring_regex(value, r":\d\d.*(Z|[+-]\d\d(:?\d\d)?)$")
    nothing = pa.scalar(None, value.type)
    with_zone = _arrow_cast(pc.if_else(zoned, value, nothing), kind) if _any(zoned) else pa.scalar(None, kind)
    without = cast(pc.if_else(zoned, nothing, value), pa.timestamp(kind.unit))
    return pc.coalesce(with_zone, pc.cast(without, kind))


def _any(value: Value) -> bool:
    return bool(value.as_py()) if isinstance(value, pa.Scalar) else bool(pc.any(value).as_py())


def _cast_each(value: Value, kind: pa.DataType) -> Value:
    """Each distinct value by itself, null if it fails: only taken when some value does fail."""
    if isinstance(value, pa.Scalar):
        return _cast_one(value, kind)
    encoded = value.dictionary_encode()
    casts = [_cast_one(one, kind) for one in encoded.dictionary]
    return pa.array(casts, kind).take(encoded.indices)


def _cast_one(value: pa.Scalar, kind: pa.DataType) -> pa.Scalar:
    try:
        return pc.cast(value, kind)
    except pa.ArrowInvalid:
        # As the module says: text that is no number, a number out of range.
        return pa.scalar(None, kind)
