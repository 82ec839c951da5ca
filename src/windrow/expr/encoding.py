"""Encodes an array as one 64-bit number per value, for indexes, joins and sets.

Integers, booleans, dates, times, durations and decimals of up to 18 digits become int64 and keep their order
and differences (uint64 is shifted by 2^63). Floats become float64, with -0.0 as 0.0, or the int64 that has
their place in order, with NaN last. Text, bytes and longer decimals become a hash. Nulls are flagged as
invalid, and so is NaN as a float64; their numbers are undefined.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from windrow.expr.types import is_bytes, is_text
from windrow.kernels.hashing import hash_bytes, hash_fixed
from windrow.model.predicate import ColumnKind

_INT64, _FLOAT64 = pa.int64(), pa.float64()
_INT64_MAX = np.iinfo(np.int64).max


def encoding_of(dtype: pa.DataType) -> ColumnKind | None:
    """How values of a type become numbers; None if they cannot (lists, structs)."""
    if pt.is_floating(dtype):
        return "float"
    if pt.is_decimal(dtype):
        return "int" if dtype.precision <= 18 else "hash"
    if is_text(dtype) or is_bytes(dtype):
        return "hash"
    if pt.is_integer(dtype) or pt.is_boolean(dtype) or (pt.is_temporal(dtype) and not pt.is_interval(dtype)):
        return "int"
    return None


def encode(array: pa.Array, ordered: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
    """(numbers, valid): valid is None if every value is valid. Copies only if the layout requires it. Floats
    become int64 if `ordered`."""
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    kind = "int" if array.type.equals(_INT64) else encoding_of(array.type)
    if kind == "float":
        numbers = raw_values(array if array.type.equals(_FLOAT64) else array.cast(_FLOAT64), np.float64)
        return (frozen(_in_order(numbers)), valid) if ordered else _floats(numbers, valid)
    numbers = _integers(array) if kind == "int" else _hashes(array)
    return frozen(numbers), valid


def _in_order(numbers: np.ndarray) -> np.ndarray:
    """Integers in the order of the floats. The bits of a positive float are in order already; those of a
    negative one are in reverse. All NaN become one, above infinity."""
    bits = (numbers + 0.0).view(np.int64)  # -0.0 + 0.0 is 0.0
    bits ^= (bits >> 63) & _INT64_MAX
    bits[np.isnan(numbers)] = _INT64_MAX
    return bits


def _floats(numbers: np.ndarray, valid: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    nan = np.isnan(numbers)
    if nan.any():
        valid = ~nan if valid is None else valid & ~nan
    if not numbers.all():
        numbers = numbers + 0.0  # -0.0 + 0.0 is 0.0
    return frozen(numbers), valid


def _integers(array: pa.Array) -> np.ndarray:
    dtype = array.type
    if dtype.equals(_INT64):
        return raw_values(array, np.int64)
    if pt.is_decimal(dtype):
        width = 4 if pt.is_decimal256(dtype) else 2
        return np.ascontiguousarray(raw_values(array, np.int64, width)[::width])
    if pt.is_uint64(dtype):
        return (raw_values(array, np.uint64) ^ np.uint64(1 << 63)).view(np.int64)
    if pt.is_boolean(dtype) or pt.is_integer(dtype):
        return raw_values(array.cast(pa.int64()), np.int64)
    if dtype.bit_width == 32:  # date32, time32
        return raw_values(array, np.int32).astype(np.int64)
    return raw_values(array, np.int64)


def _hashes(array: pa.Array) -> np.ndarray:
    dtype = array.type
    if pt.is_decimal(dtype):
        width = dtype.bit_width // 64
        return hash_fixed(frozen(raw_values(array, np.int64, width).view(np.uint8)), 8 * width)
    if pt.is_fixed_size_binary(dtype):
        array = array.cast(pa.binary())
    return hash_bytes(*text_buffers(array)) if len(array) else np.empty(0, np.int64)


def text_buffers(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """(ends, bytes) of an array of text or bytes: value i is bytes[ends[i] : ends[i + 1]]."""
    large = pt.is_large_string(array.type) or pt.is_large_binary(array.type)
    _, offsets, data = array.buffers()
    if offsets is None or len(array) == 0:
        return frozen(np.zeros(1, np.int32)), frozen(np.empty(0, np.uint8))
    ends = np.frombuffer(offsets, dtype=np.int64 if large else np.int32)
    raw = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return frozen(ends[array.offset : array.offset + len(array) + 1]), frozen(raw)


def frozen(numbers: np.ndarray) -> np.ndarray:
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
