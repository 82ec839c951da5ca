"""Intermediate values of an evaluation: an array with one value per row, or a scalar for a constant.

`plain` decodes dictionaries, views and run-ends of input columns, so that other code handles few layouts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

Value: TypeAlias = pa.Array | pa.Scalar


def plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The same values as one array of a plain layout; the array itself if it is plain already."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pt.is_dictionary(array.type):
        return plain(array.dictionary_decode())
    if pt.is_run_end_encoded(array.type):
        return plain(pc.run_end_decode(array))
    if pt.is_date64(array.type):
        return array.cast(pa.date32(), safe=False)
    target = _plain_type(array.type)
    return array if target is None else array.cast(target)


def _plain_type(dtype: pa.DataType) -> pa.DataType | None:
    if pt.is_string_view(dtype):
        return pa.large_string()
    if pt.is_binary_view(dtype):
        return pa.large_binary()
    if pt.is_decimal32(dtype) or pt.is_decimal64(dtype):
        return pa.decimal128(dtype.precision, dtype.scale)
    if pt.is_list_view(dtype):
        return pa.list_(dtype.value_type)
    if pt.is_large_list_view(dtype):
        return pa.large_list(dtype.value_type)
    return None


def is_constant(value: Value) -> bool:
    return isinstance(value, pa.Scalar)


def broadcast(value: Value, length: int) -> pa.Array:
    """One value per row."""
    return pa.repeat(value, length) if isinstance(value, pa.Scalar) else value


def as_mask(condition: pa.Array) -> np.ndarray:
    """A SQL condition as a mask: null is false."""
    if condition.null_count:
        condition = condition.fill_null(False)
    return condition.to_numpy(zero_copy_only=False)


def rowwise(call: Callable[..., pa.Array], *values: Value) -> Value:
    """Calls a function of arrays of equal length. The result is a constant if all arguments are."""
    if all(is_constant(v) for v in values):
        return call(*(broadcast(v, 1) for v in values))[0]
    length = next(len(v) for v in values if not is_constant(v))
    return call(*(broadcast(v, length) for v in values))


def to_numpy(array: pa.Array, dtype: pa.DataType) -> np.ndarray:
    """The numbers of an array, undefined in null rows. Copies only to change the type or to fill nulls."""
    if not array.type.equals(dtype):
        array = array.cast(dtype)
    if array.null_count:
        array = array.fill_null(0)
    return array.to_numpy(zero_copy_only=False)


def from_numpy(numbers: np.ndarray, valid: np.ndarray) -> pa.Array:
    """An array that is null where `valid` is false."""
    return pa.array(numbers, mask=None if valid.all() else ~valid, from_pandas=False)


def valid_mask(*arrays: pa.Array) -> np.ndarray:
    """True where no array is null."""
    mask = np.ones(len(arrays[0]), dtype=bool)
    for array in arrays:
        if array.null_count:
            mask &= array.is_valid().to_numpy(zero_copy_only=False)
    return mask


def from_unscaled(numbers: np.ndarray, valid: np.ndarray, dtype: pa.DataType) -> pa.Array:
    """The decimal128 array that stores these integers, null where `valid` is false."""
    words = np.column_stack([numbers, numbers >> 63])  # the high 64 bits repeat the sign
    decimals = pa.Array.from_buffers(dtype, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(words))])
    return decimals if valid.all() else pc.if_else(pa.array(valid), decimals, pa.scalar(None, dtype))
