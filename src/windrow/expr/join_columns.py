"""Computes join columns: the one number per row that indexes and kernels compare."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from windrow.expr.casts import cast
from windrow.expr.encoding import encode
from windrow.expr.evaluate import evaluate
from windrow.expr.failures import Failure
from windrow.expr.list_functions import sets_of
from windrow.expr.parse import Reference
from windrow.model.predicate import JoinColumn
from windrow.model.query import Function


def column_values(
    column: JoinColumn,
    columns: Mapping[Reference, pa.Array],
    length: int,
    functions: Mapping[str, Function],
    failures: list[Failure] | None = None,
) -> pa.Array:
    """The values before encoding, in the common type of both sides. Operations that fail are added to
    `failures`."""
    if column.reference is not None:
        array = columns.get(column.reference)
        if isinstance(array, pa.Array) and array.type.equals(column.type):
            return array
    return cast(evaluate(column.node, columns, length, functions, failures), column.type)


def encoded_column(
    column: JoinColumn,
    columns: Mapping[Reference, pa.Array],
    length: int,
    functions: Mapping[str, Function],
    failures: list[Failure] | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """(numbers, valid): float64 numbers for a column of kind float, else int64.

    `valid` is None if every row has a number. Otherwise it is false where the value is null, or NaN in a
    column of kind float, and the number there is undefined. The numbers are read-only: a plain column of the
    right type is not copied.
    """
    return encode(column_values(column, columns, length, functions, failures), column.kind == "ordered")


def column_sets(
    column: JoinColumn, columns: Mapping[Reference, pa.Array], length: int, functions: Mapping[str, Function]
) -> tuple[np.ndarray, np.ndarray]:
    """(sizes, elements): the set of each row, for a column of kind set. A null list is an empty set."""
    _, sizes, elements = sets_of(evaluate(column.node, columns, length, functions), column.type)
    return sizes, elements
