"""Similarity of list columns: as sets (jaccard, overlap) or as vectors (cosine, inner_product, distance).

A null list gives null. Sets ignore null elements; two empty sets have jaccard 0. A vector with a null
element, vectors of unequal length, and the cosine of a zero vector give null.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from windrow.errors import QueryError
from windrow.expr.arguments import Argument
from windrow.expr.casts import cast
from windrow.expr.encoding import encode, encoding_of
from windrow.expr.types import common_type, is_number
from windrow.expr.values import Value, from_numpy, plain, rowwise, to_numpy, valid_mask
from windrow.kernels.similarity import common, distinct, products


@dataclass(frozen=True)
class _Lists:
    """List i is values[starts[i] : starts[i] + lengths[i]]; null lists have length 0."""

    starts: np.ndarray
    lengths: np.ndarray
    values: pa.Array


def _lists(array: pa.Array, dtype: pa.DataType) -> _Lists:
    """The lists of an array, which may be a slice: reads only elements between its first and last list."""
    count = len(array)
    if pt.is_fixed_size_list(array.type):
        size = array.type.list_size
        starts = (np.arange(count, dtype=np.int64) + array.offset) * size
        lengths = np.full(count, size, np.int64)
    else:
        offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        starts, lengths = offsets[:-1], np.diff(offsets)
    first = int(starts[0]) if count else 0
    last = int(starts[-1] + lengths[-1]) if count else 0
    values = cast(plain(array.values.slice(first, last - first)), dtype)
    return _Lists(starts - first, np.where(valid_mask(array), lengths, 0), values)


def list_element(array: pa.Array, index: int) -> pa.Array:
    """Element `index` of every list, counted from 0; null where a list has none."""
    lists = _lists(array, array.type.value_type)
    there = (lists.lengths > index) & (index >= 0)
    return lists.values.take(pa.array(np.where(there, lists.starts + index, 0), mask=~there))


def element_type(left: Argument, right: Argument) -> pa.DataType:
    """The type in which the elements of two lists are compared. Refuses arguments that are not lists."""
    dtype = common_type(*(plain(pa.array([], o.lists().type.value_type)).type for o in (left, right)))
    if dtype is None or (encoding_of(dtype) is None and not pt.is_null(dtype)):
        raise QueryError(f"{left.function} cannot compare the elements of {left} with those of {right}")
    return dtype


def sets_of(array: pa.Array, dtype: pa.DataType) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(starts, sizes, elements): the distinct elements of each list as numbers, ascending and packed."""
    lists = _lists(array, pa.int64() if pt.is_null(dtype) else dtype)
    numbers, valid = encode(lists.values)
    keep = np.ones(len(numbers), bool) if valid is None else valid
    return distinct(lists.starts, lists.lengths, numbers.view(np.int64), keep)


def _set_measure(measure: Callable[..., np.ndarray]) -> Callable[[Argument, Argument], Value]:
    """A function of the number of shared elements, and of the sizes of both sets."""

    def apply(left: Argument, right: Argument) -> Value:
        dtype = element_type(left, right)

        def call(a: pa.Array, b: pa.Array) -> pa.Array:
            x, y = sets_of(a, dtype), sets_of(b, dtype)
            return from_numpy(measure(common(*x, *y), x[1], y[1]), valid_mask(a, b))

        return rowwise(call, left.value, right.value)

    return apply


def _vector_measure(measure: Callable[..., np.ndarray]) -> Callable[[Argument, Argument], Value]:
    """A function of the products a·b, a·a and b·b of two vectors, and of (a - b)·(a - b)."""

    def apply(left: Argument, right: Argument) -> Value:
        if not is_number(element_type(left, right)):
            raise QueryError(f"{left.function} takes lists of numbers, got {left} and {right}")
        return rowwise(call, left.value, right.value)

    def call(a: pa.Array, b: pa.Array) -> pa.Array:
        x, y = _lists(a, pa.float64()), _lists(b, pa.float64())
        numbers = [_nan_for_null(v.values) for v in (x, y)]
        *sums, same = products(x.starts, x.lengths, numbers[0], y.starts, y.lengths, numbers[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            answer = measure(*sums)
        return from_numpy(answer, valid_mask(a, b) & same & ~np.isnan(answer))

    return apply


def _nan_for_null(values: pa.Array) -> np.ndarray:
    """Nulls as NaN, which makes every sum over the vector NaN and the result null."""
    numbers = to_numpy(values, pa.float64())
    return np.where(valid_mask(values), numbers, np.nan) if values.null_count else numbers


LISTS: dict[str, Callable[..., Value]] = {
    "jaccard": _set_measure(lambda shared, left, right: shared / np.maximum(left + right - shared, 1)),
    "overlap": _set_measure(lambda shared, left, right: shared),
    "cosine": _vector_measure(lambda ab, aa, bb, gap: ab / np.sqrt(aa * bb)),
    "inner_product": _vector_measure(lambda ab, aa, bb, gap: ab),
    "distance": _vector_measure(lambda ab, aa, bb, gap: np.sqrt(gap)),
}
