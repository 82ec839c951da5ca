"""Recognises `jaccard(x, y) >= c` and `overlap(x, y) >= k` over two streams, for lookups by inverted index.

Only conditions that require a shared element qualify, because the index never sees pairs that share none. A
jaccard threshold stays the double that evaluation compares with; an overlap threshold becomes an integer.
"""

from __future__ import annotations

import math

import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from windrow.expr.classify import Classifier
from windrow.expr.comparison import Operand
from windrow.expr.constants import fold
from windrow.expr.dialect import render
from windrow.expr.evaluate import evaluate, result_type
from windrow.expr.function_calls import own_function
from windrow.expr.list_functions import element_type
from windrow.expr.parse import detached
from windrow.model.predicate import JoinColumn, SetSimilarity

MEASURES = ("jaccard", "overlap")


def set_similarity(node: exp.Expr, classifier: Classifier) -> SetSimilarity | None:
    """The set similarity that a conjunct requires; None for any other conjunct."""
    if isinstance(node, exp.GT | exp.GTE):
        call, bound = node.left.unnest(), node.right
    elif isinstance(node, exp.LT | exp.LTE):
        call, bound = node.right.unnest(), node.left
    else:
        return None
    columns = _join_columns(call, classifier)
    threshold = fold(bound)
    if columns is None or threshold is None or threshold.is_time:
        return None
    strict = isinstance(node, exp.GT | exp.LT)
    if call.name.lower() == "overlap":
        least = math.floor(threshold.amount) + 1 if strict else math.ceil(threshold.amount)
        return SetSimilarity(*columns, "overlap", least) if 1 <= least < 2**31 else None
    fraction: float = evaluate(bound, {}, 1, classifier.functions).cast(pa.float64())[0].as_py()
    # `jaccard >= 0` also holds for pairs that share nothing.
    shares_element = 0 < fraction <= 1 or (strict and fraction == 0)
    return SetSimilarity(*columns, "jaccard", fraction, strict) if shares_element else None


def _join_columns(call: exp.Expr, classifier: Classifier) -> tuple[JoinColumn, JoinColumn] | None:
    """Both arguments of a built-in measure, if each reads one stream and the streams differ."""
    called = isinstance(call, exp.Anonymous) and call.name.lower() in MEASURES and len(call.expressions) == 2
    if not called or own_function(call.name, classifier.functions) is not None:
        return None
    sides = classifier.two_sided(*call.expressions)
    if sides is None:
        return None
    left, right = (
        Operand(side, pa.array([], result_type(side, classifier.types, classifier.functions)))
        for _, side in sides
    )
    kind = element_type(call.name, left, right)
    if pt.is_null(kind):
        return None
    x, y = (JoinColumn(stream, render(side), kind, "set", detached(side)) for stream, side in sides)
    return x, y
