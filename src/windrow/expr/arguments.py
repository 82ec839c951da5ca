"""Arguments of built-in functions, and checks of their types."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from windrow.errors import QueryError
from windrow.expr.comparison import Operand
from windrow.expr.dialect import render
from windrow.expr.types import is_list, is_moment, is_number, is_text
from windrow.expr.values import Value, is_constant


@dataclass(frozen=True)
class Argument(Operand):
    """An argument of the function that errors name."""

    function: str

    def refused(self, wanted: str) -> QueryError:
        return QueryError(f"{self.function} takes {wanted}, got {self}")

    def number(self) -> Value:
        if not is_number(self.type) and not pa.types.is_null(self.type):
            raise self.refused("a number")
        return self.value

    def text(self) -> Value:
        if pa.types.is_null(self.type):
            return self.value.cast(pa.string())
        if not is_text(self.type):
            raise self.refused("a string")
        return self.value

    def moment(self) -> Value:
        if not is_moment(self.type):
            raise self.refused("a date or timestamp")
        return self.value

    def lists(self) -> Value:
        if not is_list(self.type):
            raise self.refused("a list")
        return self.value

    def constant_int(self) -> int:
        if not is_constant(self.value) or not pa.types.is_integer(self.type) or not self.value.is_valid:
            raise QueryError(f"{self.function} takes a constant integer here, got {render(self.node)}")
        return int(self.value.as_py())

    def constant_text(self) -> str:
        value = self.text()
        if not is_constant(value) or not value.is_valid:
            raise QueryError(f"{self.function} takes a constant string here, got {render(self.node)}")
        return str(value.as_py())
