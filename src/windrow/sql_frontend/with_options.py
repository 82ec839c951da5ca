"""`WITH (...)`: settings by name, as values of Python.

A value is a text, a number, TRUE or FALSE, a list of texts in brackets, or a policy with its own settings:
`shed = importance(by = 'b.price')`. A bare word is a text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sqlglot import exp

from windrow.errors import QueryError, unknown
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.parse import SHED
from windrow.model.policies.time_policies import TimePolicy
from windrow.sql_frontend.source_text import SourceText, Span, span_of
from windrow.sql_frontend.syntax_nodes import Option

_TEXT = ((str,), "a text")
_DURATION = ((str,), "a duration such as '5 seconds'")
_NUMBER = ((int,), "a whole number")
_LIST = "a text, or a list such as ('a', 'b')"
_OF_QUERY: dict[str, tuple[tuple[type, ...], str]] = {
    "late": _DURATION,
    "idle": _DURATION,
    "ahead": ((str,), "a duration such as '1 day', or 'unlimited'"),
    "memory": ((str, int), "'64 MiB', '1000 rows' or a number of bytes"),
    "deadline": ((str,), "'2 seconds' or '50000 rows/s'"),
    "shed": ((str, tuple, MemoryPolicy, TimePolicy), "a policy, or one for memory and one for time"),
    "evaluate": _TEXT,
    "expire": _TEXT,
    "order": ((str, tuple), _LIST),
    "algorithm": _TEXT,
    "revise": ((int, float), "a number"),
    "cross": ((bool,), "TRUE or FALSE"),
    "seed": _NUMBER,
}
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    **_OF_QUERY,
    "partitions": _NUMBER,
    "partitioning": _TEXT,
    "state": _TEXT,
    "name": _TEXT,
    "watermark": _DURATION,
    "confidence": ((float,), "a number between 0 and 1"),
    "time": _TEXT,
}
OF_QUERY = tuple(_OF_QUERY)
KNOWN = tuple(_KINDS)


@dataclass(frozen=True)
class Settings:
    """What was set, and where."""

    values: Mapping[str, Any]
    spans: Mapping[str, Span | None]

    def of(self, *names: str) -> dict[str, Any]:
        return {name: self.values[name] for name in names if name in self.values}


def read_settings(text: SourceText, node: exp.Expr | None, known: tuple[str, ...] | None = KNOWN) -> Settings:
    """The settings of a statement; with `known` None any name will do, and names keep their case."""
    values: dict[str, Any] = {}
    spans: dict[str, Span | None] = {}
    for option in node.expressions if node is not None else ():
        assert isinstance(option, Option)
        name = option.this.name if known is None else option.this.name.lower()
        if known is not None and name not in known:
            raise text.at(unknown("setting", name, known), option.this)
        if name in values:
            raise text.at(f"setting '{name}' stands here twice", option.this)
        try:
            values[name] = _checked(name, _value(option.expression), known is not None)
        except QueryError as error:
            told = str(error)  # a policy's own mistakes open with "shed age: "
            told = told if told.startswith(f"{name} ") else f"{name}: {told}"
            raise text.at(told, option.expression) from None
        spans[name] = span_of(option)
    return Settings(values, spans)


def _checked(name: str, value: Any, known: bool) -> Any:
    if not known:
        return value
    kinds, wanted = _KINDS[name]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise QueryError(f"expected {wanted}, got {value!r}")
    return value


def _value(node: exp.Expr) -> Any:
    node = node.unnest()
    if isinstance(node, exp.Literal):
        if node.is_string:
            return node.name
        return float(node.name) if set(".eE") & set(node.name) else int(node.name)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Neg):
        inner = _value(node.this)
        if isinstance(inner, int | float):
            return -inner
    if isinstance(node, exp.Tuple):
        return tuple(_value(part) for part in node.expressions)
    if isinstance(node, exp.Column) and not node.table:
        return node.name
    if isinstance(node, exp.Anonymous):
        return _policy(node)
    raise QueryError(f"expected a text, a number, TRUE, FALSE or a policy, got {node.sql()}")


def _policy(node: exp.Anonymous) -> MemoryPolicy | TimePolicy:
    name = node.name.lower().replace("_", "-")
    if name not in SHED:
        raise QueryError(unknown("policy", node.name, SHED))
    settings = [f.name for f in fields(SHED[name])]
    given: dict[str, Any] = {}
    for part in node.expressions:
        if not isinstance(part, exp.EQ) or not isinstance(part.this, exp.Column):
            raise QueryError(f"shed {name}: takes settings by name, such as {settings[-1]} = ...")
        if part.this.name not in settings:
            raise QueryError(f"shed {name}: {unknown('setting', part.this.name, settings)}")
        given[part.this.name] = _value(part.expression)
    return SHED[name](**given)
