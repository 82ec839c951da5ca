"""Similarity of list columns: as sets (jaccard, overlap) or as vectors (cosine, inner_product, distance).

A null list gives null. Sets ignore null elements; two empty sets have jaccard 0. A vector with a null
element, vectors of unequal length, and the cosine of a zero vector give null.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from windrow.errors import QueryError
from windrow.expr.builtin import Builtin, refuse
from windrow.expr.casts import cast
from windrow.expr.comparison import Operand
from windrow.expr.encoding import encode, encoding_of
from windrow.expr.types import common_type, is_list, is_number
from windrow.expr.values import Value, from_numpy, plain, rowwise, to_numpy, valid_mask
from windrow.kernels.similarity import common, distinct, products


@dataclass(frozen=True)
class _Lists:
    """List i is values[starts[i] : starts[i] + lengths[i]]; null lists have length 0."""

    starts: np.ndarray
    lengths: np.ndarray
    values: pa.Array


def _lists(array: pa.Array, kind: pa.DataType) -> _Lists:
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
    values = cast(plain(array.values.slice(first, last - first)), kind)
    return _Lists(starts - first, np.where(valid_mask(array), lengths, 0), values)


def list_element(array: pa.Array, index: int) -> pa.Array:
    """Element `index` of every list, counted from 0; null where a list has none."""
    lists = _lists(array, array.type.value_type)
    there = (lists.lengths > index) & (index >= 0)
    return lists.values.take(pa.array(np.where(there, lists.starts + index, 0), mask=~there))


def element_type(name: str, left: Operand, right: Operand) -> pa.DataType:
    """The type in which the elements of two lists are compared. Refuses operands that are not lists."""
    for operand in (left, right):
        if not is_list(operand.type):
            raise refuse(name, operand, "a list")
    kinds = [plain(pa.array([], o.type.value_type)).type for o in (left, right)]
    kind = common_type(*kinds)
    if kind is None or (encoding_of(kind) is None and not pt.is_null(kind)):
        raise QueryError(f"{name} cannot compare the elements of {left} with those of {right}")
    return kind


def sets_of(array: pa.Array, kind: pa.DataType) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(starts, sizes, elements): the distinct elements of each list as numbers, ascending and packed."""
    lists = _lists(array, pa.int64() if pt.is_null(kind) else kind)
    words, valid = encode(lists.values)
    keep = np.ones(len(words), bool) if valid is None else valid
    return distinct(lists.starts, lists.lengths, words.view(np.int64), keep)


def _set_measure(name: str, measure: Callable[..., np.ndarray], left: Operand, right: Operand) -> Value:
    kind = element_type(name, left, right)

    def call(a: pa.Array, b: pa.Array) -> pa.Array:
        x, y = sets_of(a, kind), sets_of(b, kind)
        return from_numpy(measure(common(*x, *y), x[1], y[1]), valid_mask(a, b))

    return rowwise(call, left.value, right.value)


def _jaccard(shared: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return shared / np.maximum(left + right - shared, 1)


def _overlap(shared: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return shared


def _vector_measure(name: str, measure: Callable[..., np.ndarray], left: Operand, right: Operand) -> Value:
    if not is_number(element_type(name, left, right)):
        raise QueryError(f"{name} takes lists of numbers, got {left} and {right}")

    def call(a: pa.Array, b: pa.Array) -> pa.Array:
        x, y = _lists(a, pa.float64()), _lists(b, pa.float64())
        numbers = [_nan_for_null(v.values) for v in (x, y)]
        *sums, same = products(x.starts, x.lengths, numbers[0], y.starts, y.lengths, numbers[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            answer = measure(*sums)
        return from_numpy(answer, valid_mask(a, b) & same & ~np.isnan(answer))

    return rowwise(call, left.value, right.value)


def _nan_for_null(values: pa.Array) -> np.ndarray:
    """Nulls as NaN, which makes every sum over the vector NaN and the result null."""
    numbers = to_numpy(values, pa.float64())
    return np.where(valid_mask(values), numbers, np.nan) if values.null_count else numbers


def _inner_product(dot: np.ndarray, aa: np.ndarray, bb: np.ndarray, gap: np.ndarray) -> np.ndarray:
    return dot


def _cosine(dot: np.ndarray, aa: np.ndarray, bb: np.ndarray, gap: np.ndarray) -> np.ndarray:
    return dot / np.sqrt(aa * bb)


def _distance(dot: np.ndarray, aa: np.ndarray, bb: np.ndarray, gap: np.ndarray) -> np.ndarray:
    return np.sqrt(gap)


LISTS: dict[str, Builtin] = {
    "jaccard": Builtin(partial(_set_measure, "jaccard", _jaccard), 2, 2),
    "overlap": Builtin(partial(_set_measure, "overlap", _overlap), 2, 2),
    "cosine": Builtin(partial(_vector_measure, "cosine", _cosine), 2, 2),
    "inner_product": Builtin(partial(_vector_measure, "inner_product", _inner_product), 2, 2),
    "distance": Builtin(partial(_vector_measure, "distance", _distance), 2, 2),
}
