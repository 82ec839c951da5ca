"""`GROUP BY`: a window of the result's time, further keys, and what may be selected beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from windrow.errors import Option, located, placed
from windrow.model.units import parse_duration
from windrow.sql_frontend.scope import Scope
from windrow.sql_frontend.source_text import SourceText, TextLocation, span_of
from windrow.sql_frontend.statement import AGGREGATES, Aggregate, Grouping, aggregate_column, key_column

WINDOWS = ("window", "tumble", "hop")
EDGES = ("window_start", "window_end")
SPARK = "spark"
"""Results are shaped by Spark's expressions."""


def is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES


def is_window(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in WINDOWS


def check_calls(text: SourceText, node: exp.Expr, grouped: bool) -> None:
    """Refuses what the dialect does not have, and aggregates where there are no groups."""
    for part in node.walk():
        if isinstance(part, exp.Query):
            raise text.at("a subquery is not supported; make it a stream of its own", part)
        if isinstance(part, exp.Window):
            raise text.at("OVER (...) is not supported; use GROUP BY a window of time", part)
        if isinstance(part, exp.Placeholder | exp.Parameter):
            raise text.at("parameters are names here: give parameters={'name': value}", part)
        if not isinstance(part, exp.Anonymous):
            continue
        if is_window(part) and part is not node:
            raise text.at(f"{part.name}(...) stands in GROUP BY; select window_start or window_end", part)
        if is_aggregate(part):
            if not grouped:
                raise text.at(f"{part.name}(...) needs GROUP BY TUMBLE(time, INTERVAL 1 MINUTE) or so", part)
            if len(part.expressions) > 1 or not (part.expressions or part.name.lower() == "count"):
                raise text.at(f"{part.name}(...) takes one value", part)
            if any(isinstance(p, exp.Distinct) for p in part.expressions):
                raise text.at("DISTINCT is not supported in an aggregate", part)
            if any(is_aggregate(p) for p in part.walk() if p is not part):
                raise text.at("an aggregate of an aggregate is not supported", part)
        else:
            known = exp.FUNCTION_BY_NAME.get(part.name.upper())
            if known is not None and issubclass(known, exp.AggFunc):
                raise text.at(f"{part.name}(...) is not supported; there are {', '.join(AGGREGATES)}", part)


def read_grouping(scope: Scope, group: exp.Group, settings: Mapping[str, Any]) -> Grouping:
    """All but the aggregates, which `Groups` finds in what is selected."""
    text = scope.text
    for name in ("grouping_sets", "cube", "rollup", "totals", "all"):
        if group.args.get(name):
            raise text.at(f"{name.replace('_', ' ').upper()} is not supported in GROUP BY", group)
    windows = [node for node in group.expressions if is_window(node)]
    keys = [node for node in group.expressions if not is_window(node)]
    if len(windows) != 1:
        raise text.at(
            "GROUP BY needs one window of time, such as TUMBLE(b.at, INTERVAL 1 MINUTE), "
            f"got {len(windows) or 'none'}",
            windows[1] if windows else group,
        )
    for key in keys:
        check_calls(text, key, grouped=False)
        if isinstance(key.unnest(), exp.Literal):
            raise text.at("a position is not supported in GROUP BY; name the expression", key)
    time, size, slide = _window(scope, windows[0])
    return Grouping(
        time,
        size,
        slide,
        tuple(scope.resolved(key).sql(dialect=SPARK) for key in keys),
        **settings,
    )


def _window(scope: Scope, node: exp.Expr) -> tuple[str, int, int | None]:
    """(time, length, slide)."""
    text, name, given = scope.text, node.name.lower(), node.expressions
    wanted = {"tumble": (2,), "hop": (3,), "window": (2, 3)}[name]
    if len(given) not in wanted:
        forms = {"tumble": "time, length", "hop": "time, slide, length", "window": "time, length[, slide]"}
        raise text.at(f"expected {name.upper()}({forms[name]})", node)
    lengths = [_length(text, part) for part in given[1:]]
    if name == "hop":
        lengths.reverse()
    size, slide = lengths[0], lengths[1] if len(lengths) == 2 else None
    if slide is not None and slide > size:
        raise text.at("the slide must not exceed the window's length", node)
    check_calls(text, given[0], grouped=False)
    return scope.resolved(given[0]).sql(dialect=SPARK), size, slide


def _length(text: SourceText, node: exp.Expr) -> int:
    if isinstance(node, exp.Interval):
        written = f"{node.this.name} {node.args['unit'].name if node.args.get('unit') else ''}"
    elif isinstance(node, exp.Literal) and node.is_string:
        written = node.name
    else:
        raise text.at("expected a length such as INTERVAL 1 MINUTE or '1 minute'", node)
    with located(lambda place: TextLocation(text, span_of(node))), placed(Option("window")):
        length = parse_duration(written)
    if length <= 0:
        raise text.at("a window's length must be positive", node)
    return length


@dataclass
class Groups:
    """The columns of a group, as they are asked for."""

    text: SourceText
    keys: tuple[str, ...]
    aggregates: list[Aggregate] = field(default_factory=list)

    def shaped(self, node: exp.Expr) -> exp.Expr:
        """The expression over the group's columns; nothing else is the same for all its results."""
        sql = node.sql(dialect=SPARK)
        if sql in self.keys:
            return exp.column(key_column(self.keys.index(sql)))
        if isinstance(node, exp.Anonymous) and is_aggregate(node):
            return exp.column(aggregate_column(self._number(node)))
        if isinstance(node, exp.Column):
            if not node.table and node.name in EDGES:
                return node
            raise self.text.at(f"{sql} is neither in GROUP BY nor in an aggregate", node)
        copy = node.copy()
        for mine, part in zip(list(copy.iter_expressions()), list(node.iter_expressions()), strict=True):
            mine.replace(self.shaped(part))
        return copy

    def _number(self, node: exp.Anonymous) -> int:
        inner = node.expressions[0] if node.expressions else exp.Star()
        value = None if isinstance(inner, exp.Star) else inner.sql(dialect=SPARK)
        made = Aggregate(node.name.lower(), value)
        if made not in self.aggregates:
            self.aggregates.append(made)
        return self.aggregates.index(made)
