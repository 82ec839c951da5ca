"""`WITH (...)`: settings by name, as Python values.

A value is a text, a number, TRUE, FALSE or NULL, a list in brackets, a mapping such as (a = 'x', b = 'y'), or
a policy with its own settings: `shed = importance(by = 'b.price')`. A bare word is a text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from windrow.errors import Option, QueryError, placed
from windrow.model.execution import read_texts
from windrow.model.result_groups import ResultGroups
from windrow.model.settings import check_known, settings_of
from windrow.model.sharing import JOIN_SETTINGS
from windrow.sql_frontend.grammar import Assignment
from windrow.sql_frontend.source_text import SourceText, Span, span_of
from windrow.sql_frontend.statement import Grouping

GROUP_SETTINGS = settings_of(Grouping) | settings_of(ResultGroups)
KNOWN = {n: each for n, each in (JOIN_SETTINGS | GROUP_SETTINGS).items() if each.texts and n != "on"}
"""Without the predicate, which WHERE and ON give."""


@dataclass(frozen=True)
class WithClause:
    """Settings and their spans in the text."""

    values: Mapping[str, Any]
    spans: Mapping[str, Span | None]

    def of(self, names: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.values[name] for name in names if name in self.values}


def read_with(text: SourceText, node: exp.Expr | None) -> WithClause:
    """Read the settings of a statement."""
    values: dict[str, Any] = {}
    spans: dict[str, Span | None] = {}
    for option in node.expressions if node is not None else ():
        assert isinstance(option, Assignment)
        name = option.this.name.lower()
        with text.locating(option.this):
            check_known({name: None}, KNOWN)
            if name in values:
                raise QueryError(f"setting '{name}' is given twice")
        with text.locating(option.expression), placed(Option(name)):
            values |= read_texts({name: _value(option.expression)}, KNOWN)
        spans[name] = span_of(option)
    return WithClause(values, spans)


def read_options(text: SourceText, node: exp.Expr) -> dict[str, Any]:
    """The options of a source. Any name is allowed, and names keep their case."""
    found: dict[str, Any] = {}
    for option in node.expressions:
        if option.this.name in found:
            raise text.at(f"setting '{option.this.name}' is given twice", option.this)
        with text.locating(option.expression), placed(Option(option.this.name)):
            found[option.this.name] = _value(option.expression)
    return found


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
    if isinstance(node, exp.EQ):
        return _named([node], "a mapping")
    if isinstance(node, exp.Tuple):
        if any(isinstance(part, exp.EQ) for part in node.expressions):
            return _named(node.expressions, "a mapping")
        return tuple(_value(part) for part in node.expressions)
    if isinstance(node, exp.Column) and not node.table:
        return node.name
    if isinstance(node, exp.Anonymous):
        name = node.name.lower().replace("_", "-")
        with placed(Option(policy=name)):
            return {"policy": name, **_named(node.expressions, "a policy")}
    raise QueryError(f"expected a text, a number, TRUE, FALSE or a policy, got {node.sql()}")


def _named(parts: list[exp.Expr], what: str) -> dict[str, Any]:
    found = {}
    for part in parts:
        if not isinstance(part, exp.EQ) or not isinstance(part.this, exp.Column):
            raise QueryError(f"{what} takes settings by name, such as x = 1, got {part.sql()}")
        found[part.this.name] = _value(part.expression)
    return found
