"""One conjunct over two streams as atoms, if kernels can check it; None if they cannot.

A side of an atom is an expression over exactly one stream. Both sides become words of their common type.
An integer difference is checked against an integer width: `<= 2.5` is `<= 2`, `< 2.5` is `< 3`; decimals
and times likewise in their smallest unit, so no width is ever rounded the wrong way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from windrow.expr.constants import Constant, fold
from windrow.expr.dialect import render
from windrow.expr.encoding import encoding_of
from windrow.expr.evaluate import evaluate, result_type
from windrow.expr.function_calls import own_function
from windrow.expr.parse import Reference, detached, references
from windrow.expr.types import common_type
from windrow.model.predicate import Atom, Band, Comparison, Equality, JoinColumn
from windrow.model.query import Function

Order = Literal["<", "<=", ">", ">=", "<>"]
_ORDER: dict[type[exp.Expr], Order] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NEQ: "<>",
}
_FLIPPED = {exp.GT: exp.LT, exp.GTE: exp.LTE}
_PER_MICROSECOND = {
    "s": Fraction(1, 1_000_000),
    "ms": Fraction(1, 1000),
    "us": Fraction(1),
    "ns": Fraction(1000),
}
_DAY = 86_400_000_000


@dataclass(frozen=True)
class Classifier:
    """Knows the streams' numbers, their columns' types and the user's functions."""

    streams: Mapping[str, int]
    types: Mapping[Reference, pa.DataType]
    functions: Mapping[str, Function]

    def atom(self, node: exp.Expr) -> Atom | None:
        """The atom that means the same as a conjunct."""
        return self._between(node) or self._band(node) or self._comparison(node)

    def streams_of(self, node: exp.Expr) -> frozenset[int]:
        return frozenset(self.streams[alias] for alias, _ in references(node))

    def _comparison(self, node: exp.Expr) -> Atom | None:
        if not isinstance(node, exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
            return None
        words = self._words(node.left, node.right)
        if words is None:
            return None
        if isinstance(node, exp.EQ):
            return Equality(*words)
        return None if words[0].kind == "hash" else Comparison(*words, _ORDER[type(node)])

    def _between(self, node: exp.Expr) -> Band | None:
        """x between y - e and y + e."""
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
        """abs(x - y) <= e, and the same turned round."""
        if not isinstance(node, exp.LT | exp.LTE | exp.GT | exp.GTE):
            return None
        if type(node) in _FLIPPED:
            small, large = node.right.unnest(), node.left.unnest()
        else:
            small, large = node.left.unnest(), node.right.unnest()
        width = fold(large)
        difference = self._inside_abs(small)
        if width is None or difference is None:
            return None
        strict = isinstance(node, exp.LT | exp.GT)
        return self._banded(difference.left, difference.right, large, width, strict, "abs")

    def _inside_abs(self, node: exp.Expr) -> exp.Sub | None:
        called = isinstance(node, exp.Anonymous) and node.name.lower() == "abs" and len(node.expressions) == 1
        if not called or own_function(node.name, self.functions) is not None:
            return None
        inner = node.expressions[0].unnest()
        return inner if isinstance(inner, exp.Sub) else None

    def _banded(
        self,
        left: exp.Expr,
        right: exp.Expr,
        width: exp.Expr,
        constant: Constant,
        strict: bool,
        form: Literal["abs", "between"],
    ) -> Band | None:
        words = self._words(left, right)
        if words is None or words[0].kind == "hash":
            return None
        if words[0].kind == "float":
            epsilon: float = evaluate(width, {}, 1, self.functions).cast(pa.float64())[0].as_py()
            return Band(*words, epsilon, strict, form)
        amount = _in_words(constant, words[0].type)
        if amount is None:
            return None
        whole = math.ceil(amount) if strict else math.floor(amount)
        return Band(*words, whole, strict, form) if abs(whole) < 2**63 else None

    def _words(self, left: exp.Expr, right: exp.Expr) -> tuple[JoinColumn, JoinColumn] | None:
        """Both sides as words of one type, if each speaks of one stream and the streams differ."""
        sides = [left.unnest(), right.unnest()]
        streams = [self.streams_of(side) for side in sides]
        if any(len(s) != 1 for s in streams) or streams[0] == streams[1]:
            return None
        kind = common_type(*(result_type(side, self.types, self.functions) for side in sides))
        how = None if kind is None else encoding_of(kind)
        if kind is None or how is None:
            return None
        x, y = (
            JoinColumn(next(iter(s)), render(side), kind, how, detached(side))
            for s, side in zip(streams, sides, strict=True)
        )
        return x, y


def _in_words(constant: Constant, kind: pa.DataType) -> Fraction | None:
    """A width in the unit of integer words of `kind`; None if it is none of theirs."""
    if pt.is_date(kind):
        return constant.amount / _DAY if constant.is_time else None
    if pt.is_temporal(kind):
        return constant.amount * _PER_MICROSECOND[kind.unit] if constant.is_time else None
    if constant.is_time or pt.is_boolean(kind):
        return None
    return constant.amount * 10**kind.scale if pt.is_decimal(kind) else constant.amount
