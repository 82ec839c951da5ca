"""Turns a conjunct over two streams into an atom or a set similarity, which indexes find, if its form allows.

Each side is an expression over exactly one stream. Both become join columns of their common type. The width
of an integer band becomes an integer: `<= 2.5` is `<= 2`, and `< 2.5` is `< 3`. Widths of decimals and times
become integers in their smallest unit in the same way, so rounding never changes the band.

Of `jaccard(x, y) >= c` and `overlap(x, y) >= k`, only conditions that require a shared element qualify,
because an inverted index never sees pairs that share none. A jaccard threshold stays the double that
evaluation compares with; an overlap threshold becomes an integer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from windrow.expr.arguments import Argument
from windrow.expr.constants import Constant, fold
from windrow.expr.dialect import render
from windrow.expr.encoding import encoding_of
from windrow.expr.evaluate import evaluate, result_type
from windrow.expr.function_calls import own_function
from windrow.expr.list_functions import element_type
from windrow.expr.parse import Reference, detached, references
from windrow.expr.types import common_type
from windrow.model.predicate import (
    Atom,
    Band,
    ColumnKind,
    Comparison,
    Equality,
    JoinColumn,
    SetSimilarity,
)
from windrow.model.query import Function, NanRule
from windrow.model.units import DAY

Order = Literal["<", "<=", ">", ">=", "<>"]
_ORDER: dict[type[exp.Expr], Order] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NEQ: "<>",
}
_PER_MICROSECOND = {
    "s": Fraction(1, 1_000_000),
    "ms": Fraction(1, 1000),
    "us": Fraction(1),
    "ns": Fraction(1000),
}
_SET_MEASURES = ("jaccard", "overlap")


@dataclass(frozen=True)
class Classifier:
    """Stream numbers by alias, types of the columns, the user's functions, and what NaN matches."""

    streams: Mapping[str, int]
    types: Mapping[Reference, pa.DataType]
    functions: Mapping[str, Function]
    nan: NanRule = "spark"

    def atom(self, node: exp.Expr) -> Atom | None:
        """The atom equivalent to a conjunct; None if there is none."""
        return self._between(node) or self._band(node) or self._comparison(node)

    def streams_of(self, node: exp.Expr) -> frozenset[int]:
        return frozenset(self.streams[alias] for alias, _ in references(node))

    def two_sided(self, left: exp.Expr, right: exp.Expr) -> list[tuple[int, exp.Expr]] | None:
        """(stream, expression) of both sides, if each side reads one stream and the streams differ."""
        sides = [(self.streams_of(side), side.unnest()) for side in (left, right)]
        if any(len(streams) != 1 for streams, _ in sides) or sides[0][0] == sides[1][0]:
            return None
        return [(next(iter(streams)), side) for streams, side in sides]

    def similarity(self, node: exp.Expr) -> SetSimilarity | None:
        """The set similarity that a conjunct requires; None for any other conjunct."""
        sides = _ascending(node)
        if sides is None:
            return None
        bound, call = sides
        columns, threshold = self._set_columns(call), fold(bound)
        if columns is None or threshold is None or threshold.is_time:
            return None
        strict = isinstance(node, exp.GT | exp.LT)
        if call.name.lower() == "overlap":
            least = math.floor(threshold.amount) + 1 if strict else math.ceil(threshold.amount)
            return SetSimilarity(*columns, "overlap", least) if 1 <= least < 2**31 else None
        fraction = self._double(bound)
        # `jaccard >= 0` also holds for pairs that share nothing.
        shares_element = 0 < fraction <= 1 or (strict and fraction == 0)
        return SetSimilarity(*columns, "jaccard", fraction, strict) if shares_element else None

    def _set_columns(self, call: exp.Expr) -> tuple[JoinColumn, JoinColumn] | None:
        """Both arguments of a built-in measure of sets, as join columns of kind "set"."""
        given = self._arguments(call, _SET_MEASURES, 2)
        sides = None if given is None else self.two_sided(*given)
        if sides is None:
            return None
        types = (pa.array([], result_type(side, self.types, self.functions)) for _, side in sides)
        left, right = (Argument(s, t, call.name) for (_, s), t in zip(sides, types, strict=True))
        dtype = element_type(left, right)
        return None if pt.is_null(dtype) else _columns(sides, dtype, "set")

    def _comparison(self, node: exp.Expr) -> Atom | None:
        if not isinstance(node, exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
            return None
        # A row with NaN in a column of kind "float" is left out.
        columns = self._join_columns(node.left, node.right, "float" if self.nan == "never" else "ordered")
        if columns is None:
            return None
        if isinstance(node, exp.EQ):
            return Equality(*columns)
        return None if columns[0].kind == "hash" else Comparison(*columns, _ORDER[type(node)])

    def _between(self, node: exp.Expr) -> Band | None:
        """The band of `x between y - e and y + e`, where the sum may also be `e + y`."""
        if not isinstance(node, exp.Between):
            return None
        value, low, high = (node.args[name].unnest() for name in ("this", "low", "high"))
        if isinstance(low, exp.Sub) and isinstance(high, exp.Add):
            centre, width = low.left, fold(low.right)
            swapped = fold(high.left) is not None
            other, reach = (high.right, high.left) if swapped else (high.left, high.right)
            if width is not None and width == fold(reach) and render(centre) == render(other):
                return self._banded(value, centre, low.right, width, False, "between")
        return None

    def _band(self, node: exp.Expr) -> Band | None:
        """The band of `abs(x - y) <= e` or `e >= abs(x - y)`."""
        sides = _ascending(node)
        if sides is None:
            return None
        call, width = sides
        given, constant = self._arguments(call, ("abs",), 1), fold(width)
        if given is None or constant is None or not isinstance(difference := given[0].unnest(), exp.Sub):
            return None
        strict = isinstance(node, exp.LT | exp.GT)
        return self._banded(difference.left, difference.right, width, constant, strict, "abs")

    def _arguments(self, node: exp.Expr, names: Sequence[str], count: int) -> list[exp.Expr] | None:
        """The arguments of a call of a built-in function; None for any other expression."""
        called = isinstance(node, exp.Anonymous) and node.name.lower() in names
        if not called or own_function(node.name, self.functions) is not None:
            return None
        return node.expressions if len(node.expressions) == count else None

    def _double(self, constant: exp.Expr) -> float:
        """The double that evaluation computes, not the exact fraction: both must agree on every row."""
        value: float = evaluate(constant, {}, 1, self.functions).cast(pa.float64())[0].as_py()
        return value

    def _banded(
        self,
        left: exp.Expr,
        right: exp.Expr,
        width: exp.Expr,
        constant: Constant,
        strict: bool,
        form: Literal["abs", "between"],
    ) -> Band | None:
        columns = self._join_columns(left, right, "float")
        if columns is None or columns[0].kind == "hash":
            return None
        if columns[0].kind == "float":
            return Band(*columns, self._double(width), strict, form)
        amount = _in_units(constant, columns[0].type)
        if amount is None:
            return None
        limit = math.ceil(amount) if strict else math.floor(amount)
        return Band(*columns, limit, strict, form) if abs(limit) < 2**63 else None

    def _join_columns(
        self, left: exp.Expr, right: exp.Expr, floats: ColumnKind
    ) -> tuple[JoinColumn, JoinColumn] | None:
        """Both sides as join columns of one type, floats of kind `floats`; None if they are not two-sided or
        cannot be encoded."""
        sides = self.two_sided(left, right)
        if sides is None:
            return None
        dtype = common_type(*(result_type(side, self.types, self.functions) for _, side in sides))
        encoding = None if dtype is None else encoding_of(dtype)
        if dtype is None or encoding is None:
            return None
        return _columns(sides, dtype, floats if encoding == "float" else encoding)


def _columns(
    sides: Sequence[tuple[int, exp.Expr]], dtype: pa.DataType, encoding: ColumnKind
) -> tuple[JoinColumn, JoinColumn]:
    x, y = (JoinColumn(stream, render(side), dtype, encoding, detached(side)) for stream, side in sides)
    return x, y


def _ascending(node: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """The smaller and the larger side of an inequality; None for any other expression."""
    if isinstance(node, exp.LT | exp.LTE):
        return node.left.unnest(), node.right.unnest()
    if isinstance(node, exp.GT | exp.GTE):
        return node.right.unnest(), node.left.unnest()
    return None


def _in_units(constant: Constant, dtype: pa.DataType) -> Fraction | None:
    """A width in the smallest unit of a type; None if it has no meaning there (a time beside a number)."""
    if pt.is_date(dtype):
        return constant.amount / DAY if constant.is_time else None
    if pt.is_temporal(dtype):
        return constant.amount * _PER_MICROSECOND[dtype.unit] if constant.is_time else None
    if constant.is_time or pt.is_boolean(dtype):
        return None
    return constant.amount * 10**dtype.scale if pt.is_decimal(dtype) else constant.amount
