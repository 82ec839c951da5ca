"""Conditions as arithmetic on join columns: ranges to look up, masks to check.

A range is inclusive. It may be slightly too wide, for strict comparisons and for rounding of float bands; the
planner then keeps the condition among the checks. Integer bands are exact and never overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.expr.join_columns import column_values
from windrow.expr.parse import Reference
from windrow.expr.values import as_mask
from windrow.model.plan import BoundEquality, Condition, own_column
from windrow.model.predicate import Band, Equality, JoinColumn, SetSimilarity
from windrow.model.query import Function

Array = np.ndarray
_INT = np.iinfo(np.int64)
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def lookup_range(conditions: Sequence[Condition], stream: int, bound: Sequence[Array]) -> tuple[Array, Array]:
    """Lowest and highest value of the stream's own join column that can fulfil all conditions, per probe.

    `bound` holds the values of the other side of each condition.
    """
    low, high = _range(conditions[0], stream, bound[0])
    for condition, values in zip(conditions[1:], bound[1:], strict=True):
        more_low, more_high = _range(condition, stream, values)
        low, high = np.maximum(low, more_low), np.minimum(high, more_high)
    return low, high


def _range(condition: Condition, stream: int, bound: Array) -> tuple[Array, Array]:
    least, most = (-np.inf, np.inf) if bound.dtype.kind == "f" else (_INT.min, _INT.max)
    if isinstance(condition, BoundEquality | Equality):
        return bound, bound
    if isinstance(condition, Band):
        return _band_range(condition, bound)
    own_is_left = own_column(condition, stream) == condition.left
    op = condition.op if own_is_left else _MIRRORED[condition.op]
    if op in ("<", "<="):
        return np.full(len(bound), least, bound.dtype), bound
    return bound, np.full(len(bound), most, bound.dtype)


def _band_range(band: Band, bound: Array) -> tuple[Array, Array]:
    if bound.dtype.kind == "f":
        # Widen the range by two units in the last place on each side: rounding of x - e and of |x - y| moves
        # the border by less than that, relative to the larger operand.
        margin = 4 * np.finfo(np.float64).eps * (np.abs(bound) + abs(band.epsilon))
        margin = np.where(np.isfinite(bound), margin, 0.0)
        return bound - band.epsilon - margin, bound + band.epsilon + margin
    reach = int(band.epsilon) - (1 if band.strict else 0)
    if reach < 0:
        return np.full(len(bound), 1, np.int64), np.zeros(len(bound), np.int64)
    reach = min(reach, _INT.max)
    low = np.where(bound < _INT.min + reach, _INT.min, bound - np.int64(reach))
    high = np.where(bound > _INT.max - reach, _INT.max, bound + np.int64(reach))
    return low, high


def holds(condition: Condition, left: Array, right: Array) -> Array:
    """Mask of the pairs that fulfil a condition. `left` of a BoundEquality is the stream's own column."""
    if isinstance(condition, BoundEquality | Equality):
        return left == right
    if isinstance(condition, Band):
        return _in_band(condition, left, right)
    return _COMPARE[condition.op](left, right)


def alike(similarity: SetSimilarity, shared: Array, left: Array, right: Array) -> Array:
    """Mask of the pairs of sets that share enough elements; uses the arithmetic of the SQL function."""
    if similarity.measure == "overlap":
        return shared >= similarity.at_least
    part = shared / np.maximum(left + right - shared, 1)
    return part > similarity.threshold if similarity.strict else part >= similarity.threshold


def same_values(
    members: Sequence[JoinColumn],
    columns: Mapping[Reference, pa.Array],
    count: int,
    functions: Mapping[str, Function],
) -> Array:
    """Mask of the combinations on which join columns have the same value, not only the same hash."""
    first, *others = (column_values(member, columns, count, functions) for member in members)
    return np.logical_and.reduce([as_mask(pc.equal(first, other)) for other in others])


def _in_band(band: Band, left: Array, right: Array) -> Array:
    if left.dtype.kind != "f":
        low, high = _band_range(band, right)
        return (left >= low) & (left <= high)
    if band.form == "between":
        return (left >= right - band.epsilon) & (left <= right + band.epsilon)
    with np.errstate(invalid="ignore"):  # inf - inf is NaN, which is in no band
        difference = np.abs(left - right)
    return difference < band.epsilon if band.strict else difference <= band.epsilon


_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "<>": np.not_equal,  # a row with NaN in a column of floats is not stored
}
