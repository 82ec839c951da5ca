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

    def _checked(self, fits: bool, wanted: str) -> Value:
        if not fits:
            raise QueryError(f"{self.function} takes {wanted}, got {self}")
        return self.value

    def number(self) -> Value:
        return self._checked(is_number(self.type) or pa.types.is_null(self.type), "a number")

    def text(self) -> Value:
        if pa.types.is_null(self.type):
            return self.value.cast(pa.string())
        return self._checked(is_text(self.type), "a string")

    def moment(self) -> Value:
        return self._checked(is_moment(self.type), "a date or timestamp")

    def lists(self) -> Value:
        return self._checked(is_list(self.type), "a list")

    def constant_int(self) -> int:
        if not is_constant(self.value) or not pa.types.is_integer(self.type) or not self.value.is_valid:
            raise QueryError(f"{self.function} takes a constant integer here, got {render(self.node)}")
        return int(self.value.as_py())

    def constant_text(self) -> str:
        value = self.text()
        if not is_constant(value) or not value.is_valid:
            raise QueryError(f"{self.function} takes a constant string here, got {render(self.node)}")
        return str(value.as_py())
