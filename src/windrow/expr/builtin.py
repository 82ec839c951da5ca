"""Built-in functions: their description, and checks of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from windrow.errors import QueryError
from windrow.expr.comparison import Operand
from windrow.expr.dialect import render
from windrow.expr.types import is_number, is_text
from windrow.expr.values import Value, is_constant

MANY = 255


@dataclass(frozen=True)
class Builtin:
    """A function of `least` to `most` arguments. `call` receives one Operand per argument."""

    call: Callable[..., Value]
    least: int = 1
    most: int = 1


def refuse(name: str, operand: Operand, wanted: str) -> QueryError:
    return QueryError(f"{name} takes {wanted}, got {operand}")


def number(name: str, operand: Operand) -> Value:
    if not is_number(operand.type) and not pa.types.is_null(operand.type):
        raise refuse(name, operand, "a number")
    return operand.value


def text(name: str, operand: Operand) -> Value:
    if pa.types.is_null(operand.type):
        return operand.value.cast(pa.string())
    if not is_text(operand.type):
        raise refuse(name, operand, "a string")
    return operand.value


def constant_int(name: str, operand: Operand) -> int:
    if not is_constant(operand.value) or not pa.types.is_integer(operand.type) or not operand.value.is_valid:
        raise QueryError(f"{name} takes a constant integer here, got {render(operand.node)}")
    return int(operand.value.as_py())
