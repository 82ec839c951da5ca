"""Encodes an array as one 64-bit number per value, for indexes, joins and sets.

Integers, booleans, dates, times, durations and decimals of up to 18 digits become int64 and keep their order
and differences (uint64 is shifted by 2^63). Floats become float64, with -0.0 as 0.0. Text, bytes and longer
decimals become a hash. Nulls and NaN are flagged as invalid; their numbers are undefined.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from windrow.expr.types import is_bytes, is_text
from windrow.kernels.hashing import hash_bytes, hash_fixed
from windrow.model.predicate import WordKind

_INT64, _FLOAT64 = pa.int64(), pa.float64()


def encoding_of(kind: pa.DataType) -> WordKind | None:
    """How values of a type become numbers; None if they cannot (lists, structs)."""
    if pt.is_floating(kind):
        return "float"
    if pt.is_decimal(kind):
        return "int" if kind.precision <= 18 else "hash"
    if is_text(kind) or is_bytes(kind):
        return "hash"
    if pt.is_integer(kind) or pt.is_boolean(kind) or (pt.is_temporal(kind) and not pt.is_interval(kind)):
        return "int"
    return None


def encode(array: pa.Array) -> tuple[np.ndarray, np.ndarray | None]:
    """(numbers, valid): valid is None if no value is null or NaN. Copies only if the layout requires it."""
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    kind = "int" if array.type.equals(_INT64) else encoding_of(array.type)
    if kind == "float":
        return _floats(array, valid)
    numbers = _integers(array) if kind == "int" else _hashes(array)
    return _frozen(numbers), valid


def _floats(array: pa.Array, valid: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    numbers = raw_values(array if array.type.equals(_FLOAT64) else array.cast(_FLOAT64), np.float64)
    nan = np.isnan(numbers)
    if nan.any():
        valid = ~nan if valid is None else valid & ~nan
    if not numbers.all():
        numbers = numbers + 0.0  # -0.0 + 0.0 is 0.0
    return _frozen(numbers), valid


def _integers(array: pa.Array) -> np.ndarray:
    kind = array.type
    if kind.equals(_INT64):
        return raw_values(array, np.int64)
    if pt.is_decimal(kind):
        width = 4 if pt.is_decimal256(kind) else 2
        return np.ascontiguousarray(raw_values(array, np.int64, width)[::width])
    if pt.is_uint64(kind):
        return (raw_values(array, np.uint64) ^ np.uint64(1 << 63)).view(np.int64)
    if pt.is_boolean(kind) or pt.is_integer(kind):
        return raw_values(array.cast(pa.int64()), np.int64)
    if kind.bit_width == 32:  # date32, time32
        return raw_values(array, np.int32).astype(np.int64)
    return raw_values(array, np.int64)


def _hashes(array: pa.Array) -> np.ndarray:
    kind = array.type
    if pt.is_decimal(kind):
        width = kind.bit_width // 64
        return hash_fixed(_frozen(raw_values(array, np.int64, width).view(np.uint8)), 8 * width)
    if pt.is_fixed_size_binary(kind):
        array = array.cast(pa.binary())
        kind = array.type
    large = pt.is_large_string(kind) or pt.is_large_binary(kind)
    _, offsets, data = array.buffers()
    wanted = np.int64 if large else np.int32
    if offsets is None or len(array) == 0:
        return np.empty(0, np.int64)
    ends = np.frombuffer(offsets, dtype=wanted)[array.offset : array.offset + len(array) + 1]
    raw = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return hash_bytes(_frozen(ends), _frozen(raw))


def _frozen(numbers: np.ndarray) -> np.ndarray:
    """Marks the array read-only: Arrow may own its memory, and a writable one would compile kernels again."""
    numbers.flags.writeable = False
    return numbers


def raw_values(array: pa.Array, dtype: type[np.generic], width: int = 1) -> np.ndarray:
    """A view of the array's values in memory, `width` elements of `dtype` per value."""
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.empty(0, dtype)
    start = array.offset * width
    return np.frombuffer(buffer, dtype=dtype)[start : start + len(array) * width]
