"""Words: the number per row that indexes and kernels see of an expression."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from sqlglot import exp

from windrow.expr.casts import cast
from windrow.expr.encoding import encode
from windrow.expr.evaluate import evaluate
from windrow.expr.list_functions import sets_of
from windrow.expr.parse import Reference
from windrow.model.predicate import JoinColumn
from windrow.model.query import Function


def column_values(
    word: JoinColumn, columns: Mapping[Reference, pa.Array], length: int, functions: Mapping[str, Function]
) -> pa.Array:
    """The values themselves, in the type in which both sides are compared."""
    if isinstance(word.node, exp.Column):
        array = columns.get((word.node.table, word.node.name))
        if isinstance(array, pa.Array) and array.type.equals(word.type):
            return array
    return cast(evaluate(word.node, columns, length, functions), word.type)


def encoded_column(
    word: JoinColumn, columns: Mapping[Reference, pa.Array], length: int, functions: Mapping[str, Function]
) -> tuple[np.ndarray, np.ndarray | None]:
    """(numbers, valid): int64 numbers, or float64 for a word of kind float.

    `valid` is None if every row has a number; else it is false where the value is null or NaN, and the
    numbers there mean nothing. The numbers are read-only: a plain column of the word's type is not copied.
    """
    return encode(column_values(word, columns, length, functions))


def column_sets(
    word: JoinColumn, columns: Mapping[Reference, pa.Array], length: int, functions: Mapping[str, Function]
) -> tuple[np.ndarray, np.ndarray]:
    """(sizes, elements): the set of each row, for a word of kind set; that of a null list is empty."""
    _, sizes, elements = sets_of(evaluate(word.node, columns, length, functions), word.type)
    return sizes, elements
