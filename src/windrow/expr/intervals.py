"""Interval literals such as `interval '5' second` or `interval '1 hour 30 minutes'`, as exact microseconds.

Months, quarters and years have no fixed length and are refused.
"""

from __future__ import annotations

import re
from fractions import Fraction

from sqlglot import exp

from windrow.errors import QueryError, unknown
from windrow.expr.dialect import render

MICROSECONDS = {
    "microsecond": Fraction(1),
    "millisecond": Fraction(1_000),
    "second": Fraction(1_000_000),
    "minute": Fraction(60_000_000),
    "hour": Fraction(3_600_000_000),
    "day": Fraction(86_400_000_000),
    "week": Fraction(7 * 86_400_000_000),
}
_SHORT = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "min": "minute",
    "h": "hour",
    "d": "day",
}
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\s*([A-Za-z]+)")


def interval_microseconds(node: exp.Interval) -> Fraction:
    """The length of an interval literal."""
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


def _unit(name: str) -> Fraction:
    word = name.lower()
    word = _SHORT.get(word, word)
    if word not in MICROSECONDS:
        word = word.removesuffix("s")
    word = _SHORT.get(word, word)
    if word in ("month", "quarter", "year"):
        raise QueryError(f"an interval of {word}s has no fixed length; write it in days")
    if word not in MICROSECONDS:
        raise QueryError(unknown("unit", name.lower(), MICROSECONDS))
    return MICROSECONDS[word]
