"""Constants: literals as scalars, intervals as microseconds, and constant expressions folded exactly.

`fold` computes + - * / over numbers and intervals in fractions, so that the width of a band is the number as
written and not its nearest double. Months, quarters and years have no fixed length and are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
from sqlglot import exp

from windrow.errors import QueryError, unknown
from windrow.expr.dialect import render
from windrow.expr.types import decimal_type
from windrow.model.units import UNITS, unit_micros

_PART = re.compile(r"\s*([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\s*([A-Za-z]+)")


def literal(node: exp.Literal) -> pa.Scalar:
    """Text, an int64, or a double; an integer too large for an int64 is a decimal."""
    if node.is_string:
        return pa.scalar(node.name)
    if not node.name.isdigit():
        return pa.scalar(float(node.name))
    number = int(node.name)
    return pa.scalar(number, pa.int64()) if number < 2**63 else decimal_scalar(Decimal(number))


def decimal_scalar(number: Decimal) -> pa.Scalar:
    """A number as the narrowest decimal that holds it."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    dtype = decimal_type(max(len(digits) + max(0, exponent), scale, 1), scale)
    return pa.scalar(number, dtype)


def exact_number(node: exp.Expr) -> Decimal | None:
    """The exact number of a literal, which may have parentheses and minus signs around it."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        inner = exact_number(node.this)
        return None if inner is None else -inner
    return Decimal(node.name) if isinstance(node, exp.Literal) and not node.is_string else None


def interval_microseconds(node: exp.Interval) -> Fraction:
    """The length of an interval literal such as `interval '5' second` or `interval '1 hour 30 minutes'`."""
    if not isinstance(node.this, exp.Literal):
        raise QueryError(f"an interval must be a constant, got {render(node)}")
    text = node.this.name.strip()
    if node.unit is not None:
        text = f"{text} {node.unit.name}"
    total, position = Fraction(0), 0
    for part in _PART.finditer(text):
        if part.start() != position:
            break
        total += Fraction(part.group(1)) * _unit(part.group(2))
        position = part.end()
    if position != len(text) or not text:
        raise QueryError(
            f"cannot read {render(node)}; write it like interval '5' second or interval '1 hour 5 min'"
        )
    return total


def _unit(name: str) -> int:
    micros = unit_micros(name)
    if micros is None and (unit := name.lower().removesuffix("s")) in ("month", "quarter", "year"):
        raise QueryError(f"an interval of {unit}s has no fixed length; write it in days")
    if micros is None:
        raise QueryError(unknown("unit", name.lower(), UNITS))
    return micros


@dataclass(frozen=True)
class Constant:
    """An exact number, or an exact span of time in microseconds."""

    amount: Fraction
    is_time: bool = False


def fold(node: exp.Expr) -> Constant | None:
    """The value of a constant expression of numbers and intervals; None for any other expression."""
    node = node.unnest()
    if isinstance(node, exp.Literal):
        return None if node.is_string else Constant(Fraction(node.name))
    if isinstance(node, exp.Interval):
        return Constant(interval_microseconds(node), True)
    if isinstance(node, exp.Neg):
        inner = fold(node.this)
        return None if inner is None else Constant(-inner.amount, inner.is_time)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        left, right = fold(node.left), fold(node.right)
        return None if left is None or right is None else _computed(node, left, right)
    return None


def _computed(node: exp.Binary, left: Constant, right: Constant) -> Constant | None:
    a, b = left.amount, right.amount
    if isinstance(node, exp.Mul):
        return None if left.is_time and right.is_time else Constant(a * b, left.is_time or right.is_time)
    if isinstance(node, exp.Div):
        return None if right.is_time or b == 0 else Constant(a / b, left.is_time)
    if left.is_time != right.is_time:
        return None
    return Constant(a + b if isinstance(node, exp.Add) else a - b, left.is_time)
