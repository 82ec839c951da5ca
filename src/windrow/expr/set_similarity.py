"""`jaccard(x, y) >= c` and `overlap(x, y) >= k` over two streams, as what an inverted index can look up.

Only where a pair must share an element to fulfil it: then whatever shares none need not be looked at. A
jaccard is compared with the double that was written, as when it is evaluated; an overlap with an integer.
"""

from __future__ import annotations

import math

import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from windrow.expr.classify import Classifier
from windrow.expr.comparison import Operand
from windrow.expr.constants import Constant, fold
from windrow.expr.dialect import render
from windrow.expr.evaluate import evaluate, result_type
from windrow.expr.function_calls import own_function
from windrow.expr.list_functions import element_type
from windrow.expr.parse import detached
from windrow.model.predicate import JoinColumn, SetSimilarity

MEASURES = ("jaccard", "overlap")


def likeness(node: exp.Expr, classifier: Classifier) -> SetSimilarity | None:
    """The likeness that a conjunct asks for; None if it is about anything else."""
    if isinstance(node, exp.GT | exp.GTE):
        call, bound = node.left.unnest(), node.right
    elif isinstance(node, exp.LT | exp.LTE):
        call, bound = node.right.unnest(), node.left
    else:
        return None
    words = _words(call, classifier)
    threshold = fold(bound)
    if words is None or threshold is None or threshold.is_time:
        return None
    strict = isinstance(node, exp.GT | exp.LT)
    if call.name.lower() == "overlap":
        return _overlap(words, threshold, strict)
    share: float = evaluate(bound, {}, 1, classifier.functions).cast(pa.float64())[0].as_py()
    useful = 0 < share <= 1 or (strict and share == 0)
    return SetSimilarity(*words, "jaccard", share, strict) if useful else None


def _overlap(words: tuple[JoinColumn, JoinColumn], threshold: Constant, strict: bool) -> SetSimilarity | None:
    least = math.floor(threshold.amount) + 1 if strict else math.ceil(threshold.amount)
    return SetSimilarity(*words, "overlap", least) if 1 <= least < 2**31 else None


def _words(call: exp.Expr, classifier: Classifier) -> tuple[JoinColumn, JoinColumn] | None:
    """Both sides of a call, if each speaks of one stream and the streams differ."""
    called = isinstance(call, exp.Anonymous) and call.name.lower() in MEASURES and len(call.expressions) == 2
    if not called or own_function(call.name, classifier.functions) is not None:
        return None
    sides = [side.unnest() for side in call.expressions]
    streams = [classifier.streams_of(side) for side in sides]
    if any(len(s) != 1 for s in streams) or streams[0] == streams[1]:
        return None
    kinds = [result_type(side, classifier.types, classifier.functions) for side in sides]
    left, right = (Operand(side, pa.array([], kind)) for side, kind in zip(sides, kinds, strict=True))
    kind = element_type(call.name, left, right)
    if pt.is_null(kind):
        return None
    x, y = (
        JoinColumn(next(iter(s)), render(side), kind, "set", detached(side))
        for s, side in zip(streams, sides, strict=True)
    )
    return x, y
