"""Calls by name: the user's own functions first, then the built-in ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import Parameter, signature
from math import inf

import pyarrow as pa

from windrow.errors import DataError, QueryError, unknown
from windrow.expr.arguments import Argument
from windrow.expr.comparison import Operand
from windrow.expr.date_functions import TIMES
from windrow.expr.list_functions import LISTS
from windrow.expr.math_functions import NUMBERS
from windrow.expr.string_functions import STRINGS
from windrow.expr.values import Value, broadcast
from windrow.model.query import Function

BUILTINS: dict[str, Callable[..., Value]] = NUMBERS | STRINGS | TIMES | LISTS
"""Built-in functions of one `Argument` each for their arguments."""
_BY_GRAMMAR = ("case", "cast", "coalesce", "extract", "if", "nullif")


def own_function(name: str, functions: Mapping[str, Function]) -> tuple[str, Function] | None:
    """The user's function of that name, regardless of case, under the name the user gave it."""
    # No two names differ only in case: `split_predicate` refuses them.
    return next((item for item in functions.items() if item[0].lower() == name.lower()), None)


def call_builtin(name: str, operands: Sequence[Operand], functions: Mapping[str, Function]) -> Value:
    called = name.lower()
    builtin = BUILTINS.get(called)
    if builtin is None:
        raise QueryError(
            f"{unknown('function', name, {*BUILTINS, *_BY_GRAMMAR, *functions})}; a function of your own is "
            f"given as functions={{{called!r}: ...}}"
        )
    least, most = _arity(builtin)
    if not least <= len(operands) <= most:
        raise QueryError(f"{called} takes {_arguments(least, most)}, got {len(operands)}")
    try:
        return builtin(*(Argument(o.node, o.value, called) for o in operands))
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        # Arrow decides which types a function takes, but its message names kernels.
        given = ", ".join(str(o) for o in operands)
        raise QueryError(f"{called} cannot be computed from {given}") from None


@cache
def _arity(builtin: Callable[..., Value]) -> tuple[int, float]:
    """The least and the most arguments of a function."""
    parameters = signature(builtin).parameters.values()
    positional = [p for p in parameters if p.kind is not Parameter.VAR_POSITIONAL]
    least = sum(p.default is Parameter.empty for p in positional)
    return least, len(positional) if len(positional) == len(parameters) else inf


def _arguments(least: int, most: float) -> str:
    if least != most < inf:
        return f"{least} to {most} arguments"
    return f"{'at least ' if most == inf else ''}{least} argument{'s' * (least > 1)}"


def call_own(name: str, function: Function, operands: Sequence[Operand], length: int) -> Value:
    """Calls a Python function on whole arrays if it is vectorized, else row by row; never without rows."""
    if length == 0:
        return pa.array([], function.returns)
    arrays = [broadcast(o.value, length) for o in operands]
    try:
        if function.vectorized:
            answer = function.call(*arrays)
        else:
            columns = [array.to_pylist() for array in arrays]
            rows = zip(*columns, strict=True) if columns else iter([()] * length)
            answer = [function.call(*row) for row in rows]
    except Exception as error:
        raise DataError(f"function '{name}' failed: {type(error).__name__}: {error}") from error
    return _answer(name, function, answer, length)


def _answer(name: str, function: Function, answer: object, length: int) -> pa.Array:
    if isinstance(answer, pa.ChunkedArray):
        answer = answer.combine_chunks()
    try:
        array = answer if isinstance(answer, pa.Array) else pa.array(answer, function.returns)
        array = array if array.type.equals(function.returns) else array.cast(function.returns)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(
            f"function '{name}' must return {function.returns}, but its result cannot be cast: {error}; "
            "state the type with wr.Function(call, returns=...)"
        ) from None
    if len(array) != length:
        raise DataError(
            f"function '{name}' got {length} rows and returned {len(array)}; return one value per row"
        )
    return array
