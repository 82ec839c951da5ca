"""Evaluates expressions over whole arrays, with SQL's three-valued logic.

Evaluation is bottom-up; constants stay scalars until the end. An operation that fails for a row (division by
zero, overflow, a cast, an element past the end of a list) gives null for that row and is recorded: see
`failures.py`. A failure that does not depend on the row (incompatible types, unknown names) raises a
QueryError. It is raised on empty arrays too, so `result_type` finds every such error before any data is read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt
from sqlglot import exp

from windrow.errors import DataError, Option, QueryError
from windrow.expr.arguments import Argument
from windrow.expr.arithmetic import arithmetic, negated
from windrow.expr.casts import cast
from windrow.expr.comparison import WRITE_INTERVAL, Operand, compare, mismatch, unified
from windrow.expr.constants import decimal_scalar, exact_number, interval_microseconds, literal
from windrow.expr.dialect import render
from windrow.expr.failures import Failure, Mask, failed_rows, failure, is_false, is_true, restricted
from windrow.expr.function_calls import call_builtin, call_own, own_function
from windrow.expr.list_functions import list_element
from windrow.expr.parse import Reference, detached
from windrow.expr.string_functions import LIKE
from windrow.expr.types import is_list, sql_type
from windrow.expr.values import Value, broadcast, is_constant, plain, rowwise
from windrow.model.query import Function

_ARITHMETIC = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_COMPARISON = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_TRIED = {"try_add": "+", "try_subtract": "-", "try_multiply": "*", "try_divide": "/", "try_mod": "%"}
_COALESCE = ("coalesce", "ifnull", "nvl")
_FALLIBLE = ("abs", "mod")
"""Functions that fail. Others are null outside their domain, such as ln(0), as in Spark."""


def with_nan_as_null(node: exp.Expr) -> exp.Expression:
    """The expression under the rule `nan="never"`: a comparison with NaN is null, so it does not hold, and
    neither does its negation. Without the rule NaN equals itself and is above every other number."""
    return exp.Paren(this=detached(node), nan_as_null=True)


def evaluate(
    node: exp.Expr,
    columns: Mapping[Reference, pa.Array],
    length: int,
    functions: Mapping[str, Function],
    failures: list[Failure] | None = None,
) -> pa.Array:
    """One value per row. `columns` holds every column the node refers to, each of `length` rows. Operations
    that fail are added to `failures`."""
    evaluation = _Evaluation(columns, length, functions)
    found = broadcast(evaluation.value(node), length)
    if failures is not None:
        failures += evaluation.failures
    return found


def can_fail(node: exp.Expr) -> bool:
    """Whether an operation of the expression can fail for some row."""
    return any(
        (isinstance(part, _MAY_FAIL) and not isinstance(part, exp.TryCast))
        or (isinstance(part, exp.Anonymous) and part.name.lower() in _FALLIBLE)
        for part in node.walk()
    )


def result_type(
    node: exp.Expr, types: Mapping[Reference, pa.DataType], functions: Mapping[str, Function]
) -> pa.DataType:
    """The type of an expression. Evaluates it on empty columns, which raises every type error."""
    empty = {reference: pa.array([], dtype) for reference, dtype in types.items()}
    return evaluate(node, empty, 0, functions).type


def check_condition(node: exp.Expr, dtype: pa.DataType) -> None:
    """Refuse an expression of a type that a condition cannot have."""
    if not pt.is_boolean(dtype) and not pt.is_null(dtype):
        raise QueryError(f"expected a condition that is true or false, got {render(node)} of type {dtype}")


@dataclass
class _Evaluation:
    columns: Mapping[Reference, pa.Array]
    length: int
    functions: Mapping[str, Function]
    failures: list[Failure] = field(default_factory=list)
    nan_as_null: bool = False

    def value(self, node: exp.Expr) -> Value:
        for cls in type(node).__mro__:
            if (rule := _RULES.get(cls)) is not None:
                return rule(self, node)
        raise QueryError(f"{render(node)} is not supported in a predicate")

    def operand(self, node: exp.Expr) -> Operand:
        return Operand(node, self.value(node))

    def note(self, node: exp.Expr, answer: Value, *inputs: Value) -> Value:
        """The answer; an operation that gives null for inputs that are not null has failed."""
        self.failures += failure(node, answer, inputs, self.length)
        return answer

    def apart(self, evaluated: Callable[[], Value]) -> tuple[Value, list[Failure]]:
        """A value, and its failures apart from all others."""
        before, self.failures = self.failures, []
        value = evaluated()
        found, self.failures = self.failures, before
        return value, found

    def keep(self, failures: list[Failure], rows: Mask) -> None:
        """Keep the failures in these rows: the outcome of others does not depend on them."""
        self.failures += restricted(failures, rows)

    def nested(self, node: exp.Paren) -> Value:
        self.nan_as_null |= bool(node.args.get("nan_as_null"))
        return self.value(node.this)

    def condition(self, node: exp.Expr) -> Value:
        value = self.value(node)
        check_condition(node, value.type)
        return cast(value, pa.bool_())

    # Names and constants

    def column(self, node: exp.Column) -> Value:
        reference = (node.table, node.name)
        if reference not in self.columns:
            raise DataError(f"column '{node.name}' is missing", Option(stream=node.table))
        return plain(self.columns[reference])

    def field(self, node: exp.Dot) -> Value:
        struct, name = self.value(node.this), node.expression.name
        if not pt.is_struct(struct.type) or struct.type.get_field_index(name) < 0:
            raise QueryError(f"{render(node.this)} ({struct.type}) has no field '{name}'")
        return rowwise(lambda array: plain(pc.struct_field(array, name)), struct)

    def element(self, node: exp.Bracket) -> Value:
        """`list[0]`, counted from 0 as in Spark, and `map['key']`. Null if there is no such element."""
        container, key = self.operand(node.this), self.operand(node.expressions[0])
        if len(node.expressions) != 1 or not is_constant(key.value):
            raise QueryError(f"{render(node)} needs one constant in brackets, such as [0] or ['key']")
        wanted = key.value.as_py()
        if is_list(container.type) and isinstance(wanted, int):
            there = pc.less(wanted if wanted >= 0 else sys.maxsize, pc.list_value_length(container.value))
            self.note(node, pc.if_else(there, True, pa.scalar(None, pa.bool_())), container.value)
            return rowwise(lambda lists: list_element(lists, wanted), container.value)
        if pt.is_map(container.type):
            item = pa.scalar(wanted, container.type.key_type)
            return rowwise(lambda maps: plain(pc.map_lookup(maps, item, "first")), container.value)
        if is_list(container.type):
            raise QueryError(
                f"cannot take {render(node)}: {container} needs a number in brackets, such as [0]"
            )
        raise QueryError(f"cannot take {render(node)}: {container} is neither a list nor a map")

    # Logic

    def conjunction(self, node: exp.And) -> Value:
        return self._all(partial(self.condition, side) for side in (node.left, node.right))

    def disjunction(self, node: exp.Or) -> Value:
        return self._any(partial(self.condition, side) for side in (node.left, node.right))

    def _all(self, conditions: Iterable[Callable[[], Value]]) -> Value:
        return reduce(pc.and_kleene, self._absorbing(conditions, is_false))

    def _any(self, conditions: Iterable[Callable[[], Value]]) -> Value:
        return reduce(pc.or_kleene, self._absorbing(conditions, is_true))

    def _absorbing(
        self, conditions: Iterable[Callable[[], Value]], decides: Callable[[Value, int], Mask]
    ) -> list[Value]:
        """All conditions. A failure of one does not matter where another `decides` the outcome."""
        evaluated = [self.apart(condition) for condition in conditions]
        if any(failures for _, failures in evaluated):
            decided = np.zeros(self.length, bool)
            for value, failures in evaluated:
                decided |= decides(value, self.length) & ~failed_rows(failures, self.length)
            self.keep([each for _, failures in evaluated for each in failures], ~decided)
        return [value for value, _ in evaluated]

    def identity(self, node: exp.Is) -> Value:
        """`x is null`, `x is true`, `x is false`."""
        if isinstance(node.expression, exp.Null):
            return pc.is_null(self.value(node.this))
        if not isinstance(node.expression, exp.Boolean):
            raise QueryError(f"{render(node)} is not supported in a predicate")
        wanted = pa.scalar(node.expression.this)
        return pc.coalesce(pc.equal(self.condition(node.this), wanted), pa.scalar(False))

    # Comparisons

    def comparison(self, node: exp.Binary) -> Value:
        return self._compared(_COMPARISON[type(node)], self.operand(node.left), node.right)

    def same(self, node: exp.Binary) -> Value:
        """`x is not distinct from y`: two nulls are the same."""
        left, right = self.operand(node.left), self.operand(node.right)
        absent = pc.and_(pc.is_null(left.value), pc.is_null(right.value))
        equal = compare("=", left, right, self.nan_as_null)
        return pc.or_(absent, pc.coalesce(equal, pa.scalar(False)))

    def between(self, node: exp.Between) -> Value:
        if node.args.get("symmetric"):
            raise QueryError("between symmetric is not supported; write least and greatest")
        value = self.operand(node.this)
        bounds = ((">=", node.args["low"]), ("<=", node.args["high"]))
        return self._all(partial(self._compared, op, value, bound) for op, bound in bounds)

    def membership(self, node: exp.In) -> Value:
        if not node.expressions:
            raise QueryError(f"in takes a list of values, got {render(node)}")
        value = self.operand(node.this)
        return self._any(partial(self._compared, "=", value, one) for one in node.expressions)

    def _compared(self, op: str, value: Operand, node: exp.Expr) -> Value:
        return compare(op, value, self.operand(node), self.nan_as_null)

    def like(self, node: exp.Binary) -> Value:
        found = LIKE[type(node)](*(Argument(o, self.value(o), "like") for o in (node.left, node.right)))
        return pc.invert(found) if node.args.get("negate") else found

    # Computation

    def arithmetic(self, node: exp.Binary) -> Value:
        left, right = self.operand(node.left), self.operand(node.right)
        return self.note(node, self._computed(_ARITHMETIC[type(node)], left, right), left.value, right.value)

    def _computed(self, op: str, left: Operand, right: Operand) -> Value:
        if pt.is_decimal(left.type) or pt.is_decimal(right.type):
            # A literal is exact: 1.1, and not the nearest double.
            exact = ((o, exact_number(o.node)) for o in (left, right))
            left, right = (o if n is None else Operand(o.node, decimal_scalar(n)) for o, n in exact)
        answer = arithmetic(op, left.value, right.value)
        if answer is None:
            timed = any(pt.is_temporal(o.type) for o in (left, right))
            remedy = WRITE_INTERVAL if timed else "cast to a number first"
            raise mismatch(f"cannot compute {left} {op} {right}", left, right, remedy)
        return answer

    def minus(self, node: exp.Neg) -> Value:
        operand = self.operand(node.this)
        answer = negated(operand.value)
        if answer is None:
            raise QueryError(f"cannot compute - {operand}")
        return self.note(node, answer, operand.value)

    def conversion(self, node: exp.Cast) -> Value:
        value = self.value(node.this)
        answer = cast(value, sql_type(node.to))
        return answer if isinstance(node, exp.TryCast) else self.note(node, answer, value)

    def choice(self, node: exp.Case) -> Value:
        """`case when c then v ... else d end` and `case x when y then v ... end`."""
        subject = self.operand(node.this) if node.this is not None else None

        def condition(branch: exp.If) -> Value:
            if subject is None:
                return self.condition(branch.this)
            return self._compared("=", subject, branch.this)

        branches = node.args["ifs"]
        conditions = [self.apart(partial(condition, branch)) for branch in branches]
        return self._choose(conditions, [b.args["true"] for b in branches], node.args.get("default"))

    def alternative(self, node: exp.If) -> Value:
        condition = self.apart(lambda: self.condition(node.this))
        return self._choose([condition], [node.args["true"]], node.args.get("false"))

    def _choose(
        self,
        conditions: list[tuple[Value, list[Failure]]],
        branches: list[exp.Expr],
        default: exp.Expr | None,
    ) -> Value:
        nodes = [*branches, default if default is not None else exp.Null()]
        evaluated = [self.apart(partial(self.value, node)) for node in nodes]
        operands = [Operand(node, value) for node, (value, _) in zip(nodes, evaluated, strict=True)]
        *values, chosen = unified(operands, "case")
        self._note_taken(conditions, [failures for _, failures in evaluated])
        # From the last branch to the first, so that the first true condition overrides those after it.
        for (condition, _), value in zip(reversed(conditions), reversed(values), strict=True):
            chosen = pc.if_else(pc.coalesce(condition, pa.scalar(False)), value, chosen)
        return chosen

    def _note_taken(
        self, conditions: list[tuple[Value, list[Failure]]], of_values: list[list[Failure]]
    ) -> None:
        """Keep the failures of the conditions that are reached and of the values that are taken."""
        if not any(of_values) and not any(failures for _, failures in conditions):
            return
        reached = np.ones(self.length, bool)
        for (condition, of_condition), of_value in zip(conditions, of_values, strict=False):
            failed = failed_rows(of_condition, self.length)
            taken = reached & is_true(condition, self.length) & ~failed
            self.keep(of_condition, reached)
            self.keep(of_value, taken)
            reached = reached & ~taken & ~failed
        self.keep(of_values[-1], reached)

    def _coalesce(self, name: str, nodes: list[exp.Expr]) -> Value:
        evaluated = [self.apart(partial(self.value, node)) for node in nodes]
        if any(failures for _, failures in evaluated):
            reached = np.ones(self.length, bool)
            for value, failures in evaluated:
                self.keep(failures, reached)
                reached &= is_true(pc.is_null(value), self.length) & ~failed_rows(failures, self.length)
        operands = [Operand(node, value) for node, (value, _) in zip(nodes, evaluated, strict=True)]
        return pc.coalesce(*unified(operands, name))

    def builtin(self, name: str, *arguments: exp.Expr) -> Value:
        return call_builtin(name, [self.operand(argument) for argument in arguments], self.functions)

    def call(self, node: exp.Anonymous) -> Value:
        name, own = node.name.lower(), own_function(node.name, self.functions)
        if own is None and name in _COALESCE and node.expressions:
            return self._coalesce(name, node.expressions)
        operands = [self.operand(argument) for argument in node.expressions]
        if own is not None:
            return call_own(*own, operands, self.length)
        if name == "nullif":
            return _nullif(operands)
        if name in _TRIED and len(operands) == 2:
            return self._computed(_TRIED[name], *operands)
        answer = call_builtin(node.name, operands, self.functions)
        return self.note(node, answer, *(o.value for o in operands)) if name in _FALLIBLE else answer


def _nullif(operands: list[Operand]) -> Value:
    if len(operands) != 2:
        raise QueryError(f"nullif takes 2 arguments, got {len(operands)}")
    value = operands[0].value
    equal = pc.coalesce(compare("=", operands[0], operands[1]), pa.scalar(False))
    return pc.if_else(equal, pa.scalar(None, value.type), value)


_Rule = Callable[[_Evaluation, Any], Value]
_RULES: dict[type, _Rule] = {
    exp.Column: _Evaluation.column,
    exp.Dot: _Evaluation.field,
    exp.Bracket: _Evaluation.element,
    exp.Paren: _Evaluation.nested,
    exp.Literal: lambda ev, node: literal(node),
    exp.Boolean: lambda ev, node: pa.scalar(bool(node.this)),
    exp.Null: lambda ev, node: pa.scalar(None, pa.null()),
    exp.Interval: lambda ev, node: pa.scalar(round(interval_microseconds(node)), pa.duration("us")),
    exp.And: _Evaluation.conjunction,
    exp.Or: _Evaluation.disjunction,
    exp.Not: lambda ev, node: pc.invert(ev.condition(node.this)),
    exp.Is: _Evaluation.identity,
    exp.NullSafeEQ: _Evaluation.same,
    exp.NullSafeNEQ: lambda ev, node: pc.invert(ev.same(node)),
    exp.Between: _Evaluation.between,
    exp.In: _Evaluation.membership,
    exp.Like: _Evaluation.like,
    exp.ILike: _Evaluation.like,
    exp.RegexpLike: lambda ev, node: ev.builtin("rlike", node.this, node.expression),
    exp.Neg: _Evaluation.minus,
    exp.DPipe: lambda ev, node: ev.builtin("concat", node.left, node.right),
    exp.Cast: _Evaluation.conversion,
    exp.Extract: lambda ev, node: ev.builtin(node.name, node.expression),
    exp.Case: _Evaluation.choice,
    exp.If: _Evaluation.alternative,
    exp.Anonymous: _Evaluation.call,
    **dict.fromkeys(_ARITHMETIC, _Evaluation.arithmetic),
    **dict.fromkeys(_COMPARISON, _Evaluation.comparison),
}
_MAY_FAIL = (exp.Cast, exp.Neg, exp.Bracket, *_ARITHMETIC)
