"""Failures: operations of an expression that have no value for a row, such as a cast of 'x' to a number.

A failed operation gives null. Whether that matters is decided as SQL's logic decides about null: a failure
counts where the outcome depends on it. `false and f` is false whatever `f` is, and neither a branch of a case
that is not taken nor an argument of coalesce after the first value affects the outcome. So the order in which
conditions are written does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from windrow.errors import DataError, Option
from windrow.expr.dialect import render
from windrow.expr.parse import Reference, references
from windrow.expr.values import Value, as_mask, is_constant

Mask = np.ndarray


@dataclass(frozen=True)
class Failure:
    """An operation, and a mask of the rows for which it fails."""

    node: exp.Expr
    rows: Mask


def failure(node: exp.Expr, answer: Value, inputs: Iterable[Value], length: int) -> list[Failure]:
    """The failure of an operation, if it gives null although no input is null."""
    if answer.is_valid if isinstance(answer, pa.Scalar) else answer.null_count == 0:
        return []
    rows = is_true(pc.is_null(answer), length)
    for value in inputs:
        rows = rows & is_true(pc.is_valid(value), length)
    return [Failure(node, rows)] if rows.any() else []


def is_true(condition: Value, length: int) -> Mask:
    """A condition, constant or not, as a mask."""
    if is_constant(condition):
        return np.full(length, condition.as_py() is True)
    return as_mask(condition)


def is_false(condition: Value, length: int) -> Mask:
    return is_true(pc.invert(condition), length)


def failed_rows(failures: Sequence[Failure], length: int) -> Mask:
    """Mask of the rows for which any operation fails."""
    found = np.zeros(length, bool)
    for each in failures:
        found |= each.rows
    return found


def restricted(failures: Sequence[Failure], rows: Mask) -> list[Failure]:
    """The failures in these rows only."""
    found = [Failure(each.node, each.rows & rows) for each in failures]
    return [each for each in found if each.rows.any()]


def undecided(conditions: Sequence[tuple[Mask, list[Failure]]], others: list[Failure]) -> list[Failure]:
    """Failures of conditions, given with a mask of the rows on which they hold, and of `others`; in rows that
    no other condition excludes."""
    found = [*(each for _, own in conditions for each in own), *others]
    for holds, own in conditions if found else ():
        found = restricted(found, holds | failed_rows(own, len(holds)))
    return found


def error(failures: Sequence[Failure], columns: Mapping[Reference, pa.Array], row: int) -> DataError:
    """The error that names the operation that fails for a row, its streams and its values."""
    node = next(each.node for each in failures if each.rows[row])
    needed = sorted(references(node))
    streams = sorted({alias for alias, _ in needed})
    values = ", ".join(f"{alias}.{name} = {_shown(columns[alias, name][row])}" for alias, name in needed)
    place = Option(stream=streams[0]) if len(streams) == 1 else Option("on")
    return DataError(
        f"{render(node)} fails{f' for {values}' if values else ''}; guard it (TRY_CAST, TRY_DIVIDE, NULLIF), "
        "or set on_error='null', which takes it as null and counts it; a checkpoint works with either",
        place,
    )


def _shown(value: pa.Scalar) -> str:
    text = repr(value.as_py())
    return text if len(text) <= 80 else f"{text[:79]}…"
