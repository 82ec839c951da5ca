"""The rule `nan="never"`: a comparison with NaN is null, so it does not hold and neither does its negation.

Evaluation compares as Spark does, where NaN equals itself and is above every other number. Under the rule the
operands of comparisons are rewritten: NaN becomes null.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from windrow.expr.evaluate import result_type
from windrow.expr.parse import Reference, detached
from windrow.model.query import Function

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In)


def nan_as_null(
    node: exp.Expr, types: Mapping[Reference, pa.DataType], functions: Mapping[str, Function]
) -> exp.Expression:
    """The expression, with NaN as null wherever it is compared."""

    def is_float(part: exp.Expr) -> bool:
        return pt.is_floating(result_type(part, types, functions))

    def rewritten(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.NullSafeEQ | exp.NullSafeNEQ) and is_float(part.left):
            same = exp.NullSafeEQ(this=detached(part.left), expression=detached(part.right))
            number = exp.Not(this=exp.Anonymous(this="isnan", expressions=[detached(part.left)]))
            both = exp.Paren(this=exp.And(this=same, expression=number))
            return both if isinstance(part, exp.NullSafeEQ) else exp.Not(this=both)
        compared: list[exp.Expr] = []
        if isinstance(part, _COMPARISONS):
            compared = list(part.iter_expressions())
        elif isinstance(part, exp.Case) and part.this is not None:
            compared = [part.this, *(branch.this for branch in part.args["ifs"])]
        for operand in compared:
            if is_float(operand):
                operand.replace(exp.Anonymous(this="nanvl", expressions=[detached(operand), exp.Null()]))
        return part

    root = exp.Paren(this=detached(node))  # a parent for a node that is itself a comparison
    for part in reversed(list(root.find_all(*_COMPARISONS, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Case))):
        if (changed := rewritten(part)) is not part:
            part.replace(changed)
    return detached(root.this)
