"""Flags of a row in an outer join, computed on arrival, as bits of one number.

A row whose join column has no value (null, or NaN in a band) is in no inner result, and an inner join does
not store it. In an outer join it may still be in a result that lacks a row of the other stream. Such rows are
stored, and flags record which of their join columns have a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from windrow.errors import Option, QueryError
from windrow.model.predicate import JoinColumn
from windrow.planning.bound_query import BoundQuery
from windrow.planning.levels import ShapePlan

Array = np.ndarray
FLAGS = "row_flags"
"""The window column that holds the flags. (In earlier states it is called "flags", and its bits have another
order: it is computed again.)"""
WHOLE = 1
"""The row can be in a result that has a row of every stream."""
PASSED = 2
"""The row fulfils the conditions on its stream alone."""
_FIRST_COLUMN = 2
MOST_COLUMNS = 60


def column_flags(bound: BoundQuery, stream: int, columns: Iterable[JoinColumn]) -> int:
    """Bits for "this join column has a value". Sets have none: a null set is empty."""
    bits = _column_bits(bound, stream)
    return sum(bits[name] for name in {w.name for w in columns if w.stream == stream and w.kind != "set"})


def _column_bits(bound: BoundQuery, stream: int) -> dict[str, int]:
    # By name: flags are stored, and must not depend on the order in which a plan finds the columns.
    names = sorted(column.name for column in bound.join_columns[stream])
    return {name: 1 << (_FIRST_COLUMN + k) for k, name in enumerate(names)}


class RowFlags:
    """Computes the flags of a stream's rows, and which rows are stored."""

    def __init__(self, bound: BoundQuery, stream: int) -> None:
        if len(bound.join_columns[stream]) > MOST_COLUMNS:
            raise QueryError(
                f"an outer join compares up to {MOST_COLUMNS} expressions of a stream, got "
                f"{len(bound.join_columns[stream])}",
                Option("on"),
            )
        self._bits = _column_bits(bound, stream)
        self._needed = [_needed(bound, plan, stream) for plan in bound.shapes]
        self._equal = [_equal(plan, stream) for plan in bound.shapes]

    def read(
        self,
        columns: Mapping[str, Array],
        count: int,
        passed: Array | None,
        valid: Mapping[str, Array | None],
        whole: Array | None,
    ) -> tuple[dict[str, Array], Array]:
        """Join columns, 0 where there is no value, with the flags; and a mask of the rows to store. A mask of
        None means all rows."""
        flags = np.full(count, WHOLE, np.int64) if whole is None else np.where(whole, WHOLE, 0)
        for bit, mask in [(PASSED, passed), *((self._bits[name], mask) for name, mask in valid.items())]:
            flags |= bit if mask is None else np.where(mask, bit, 0)
        found = {
            name: values if (mask := valid[name]) is None else np.where(mask, values, values.dtype.type(0))
            for name, values in columns.items()
        }
        stored = np.zeros(count, bool)
        for needed, pairs in zip(self._needed, self._equal, strict=True):
            fits = (flags & needed) == needed
            for left, right in pairs:
                fits &= found[left] == found[right]
            stored |= fits
        return found | {FLAGS: flags}, stored


def _needed(bound: BoundQuery, plan: ShapePlan, stream: int) -> int:
    """Flags that a row must have to be in a combination."""
    own = next((each.own for each in plan.levels if each.level.stream == stream), None)
    if own is not None:
        return column_flags(bound, stream, own) | PASSED
    core = (column for atom in plan.core.atoms for column in atom.columns)
    return column_flags(bound, stream, core) | (PASSED if plan.shape.filters_core else 0)


def _equal(plan: ShapePlan, stream: int) -> list[tuple[str, str]]:
    """Join columns of a core stream that are equal in each of its combinations."""
    if stream not in plan.shape.core:
        return []
    groups = [[w.name for w in members if w.stream == stream] for members in plan.classes]
    return [(own[0], other) for own in groups for other in own[1:]]
