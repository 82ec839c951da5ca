"""Common types of comparisons, and the Arrow types of SQL's type names.

Two integers are compared as int64 or uint64, and anything with a float as float64. Other numbers are compared
as a decimal wide enough for both sides, so they lose no digit. Timestamps are compared in the finer unit, a
date beside a timestamp as midnight. A timestamp with a time zone and one without cannot be compared.
"""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from windrow.errors import QueryError, unknown

_UNITS = ("s", "ms", "us", "ns")
_INTEGER_DIGITS = {
    "int8": 3,
    "uint8": 3,
    "int16": 5,
    "uint16": 5,
    "int32": 10,
    "uint32": 10,
    "int64": 19,
    "uint64": 20,
}

_SQL_TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "CHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
    "DATETIME": pa.timestamp("us"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMPLTZ": pa.timestamp("us", "UTC"),
}


def sql_type(node: exp.DataType) -> pa.DataType:
    """The Arrow type of a SQL type; `decimal` alone is decimal(10, 0), as in Spark."""
    name = getattr(node.this, "name", str(node.this))
    if name == "DECIMAL":
        sizes = [int(size.name) for size in node.expressions] or [10, 0]
        precision, scale = (sizes[0], sizes[1] if len(sizes) > 1 else 0)
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise QueryError(f"decimal takes 1 to 38 digits and a scale within them, got {node.sql()}")
        return pa.decimal128(precision, scale)
    if name not in _SQL_TYPES:
        raise QueryError(unknown("type", node.sql().lower(), [n.lower() for n in (*_SQL_TYPES, "DECIMAL")]))
    return _SQL_TYPES[name]


def sql_name(dtype: pa.DataType) -> str:
    """The SQL type to suggest for a cast to `dtype` in an error message."""
    if pt.is_decimal(dtype):
        return f"decimal({dtype.precision}, {dtype.scale})"
    if pt.is_timestamp(dtype):
        return "timestamptz" if dtype.tz else "timestamp"
    names = (
        (pt.is_integer, "bigint"),
        (pt.is_floating, "double"),
        (pt.is_boolean, "boolean"),
        (pt.is_date, "date"),
        (is_bytes, "binary"),
    )
    return next((name for test, name in names if test(dtype)), "string")


def is_text(dtype: pa.DataType) -> bool:
    return pt.is_string(dtype) or pt.is_large_string(dtype) or pt.is_string_view(dtype)


def is_bytes(dtype: pa.DataType) -> bool:
    return (
        pt.is_binary(dtype)
        or pt.is_large_binary(dtype)
        or pt.is_fixed_size_binary(dtype)
        or pt.is_binary_view(dtype)
    )


def is_number(dtype: pa.DataType) -> bool:
    return pt.is_integer(dtype) or pt.is_floating(dtype) or pt.is_decimal(dtype)


def is_moment(dtype: pa.DataType) -> bool:
    """A point in time: a date or a timestamp."""
    return pt.is_timestamp(dtype) or pt.is_date(dtype)


def is_list(dtype: pa.DataType) -> bool:
    return pt.is_list(dtype) or pt.is_large_list(dtype) or pt.is_fixed_size_list(dtype)


def mixed_zones(left: pa.DataType, right: pa.DataType) -> bool:
    """One timestamp has a time zone and the other has none."""
    both = pt.is_timestamp(left) and pt.is_timestamp(right)
    return both and (left.tz is None) != (right.tz is None)


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type in which values of two types are compared; None if they cannot be compared.

    >>> common_type(pa.int32(), pa.decimal128(9, 2))
    Decimal128Type(decimal128(12, 2))
    """
    if pt.is_null(left) or pt.is_null(right):
        other = right if pt.is_null(left) else left
        return other if pt.is_null(other) else common_type(other, other)
    if is_number(left) and is_number(right):
        return _common_number(left, right)
    if is_text(left) and is_text(right):
        return pa.string() if pt.is_string(left) and pt.is_string(right) else pa.large_string()
    if is_bytes(left) and is_bytes(right):
        small = not (pt.is_large_binary(left) or pt.is_large_binary(right))
        return pa.binary() if small else pa.large_binary()
    if is_moment(left) and is_moment(right):
        return _common_moment(left, right)
    if pt.is_duration(left) and pt.is_duration(right):
        return pa.duration(finer(left.unit, right.unit))
    if pt.is_time(left) and pt.is_time(right):
        unit = finer(left.unit, right.unit)
        return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    return left if left.equals(right) else None


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    if pt.is_floating(left) or pt.is_floating(right):
        return pa.float64()
    if pt.is_integer(left) and pt.is_integer(right):
        if not (pt.is_uint64(left) or pt.is_uint64(right)):
            return pa.int64()
        if pt.is_unsigned_integer(left) and pt.is_unsigned_integer(right):
            return pa.uint64()
    left, right = as_decimal(left), as_decimal(right)
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale) + scale
    return decimal_type(digits, scale)


def _common_moment(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if pt.is_date(left) and pt.is_date(right):
        return pa.date32()
    if pt.is_date(left):
        return right
    if pt.is_date(right):
        return left
    if mixed_zones(left, right):
        return None
    zone = left.tz if left.tz == right.tz else "UTC"
    return pa.timestamp(finer(left.unit, right.unit), zone)


def as_decimal(dtype: pa.DataType) -> pa.DataType:
    """The decimal type that holds every value of an integer or decimal type."""
    return dtype if pt.is_decimal(dtype) else pa.decimal128(_INTEGER_DIGITS[str(dtype)], 0)


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """decimal128 if the digits fit, else decimal256. Past its 76 digits the scale is reduced."""
    if precision > 76:
        precision, scale = 76, max(0, scale - (precision - 76))
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def finer(left: str, right: str) -> str:
    return max(left, right, key=_UNITS.index)
