"""`GROUP BY`: a window of the result's time, further keys, and the aggregates in SELECT and HAVING."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from windrow.errors import Option, placed
from windrow.model.result_groups import ResultGroups
from windrow.model.settings import settings_of
from windrow.model.units import positive_duration
from windrow.sql_frontend.scope import Scope
from windrow.sql_frontend.source_text import SourceText
from windrow.sql_frontend.statement import AGGREGATES, Aggregate, Grouping, aggregate_column, key_column
from windrow.sql_frontend.with_options import WithClause

WINDOWS = ("window", "tumble", "hop")
EDGES = ("window_start", "window_end")
SPARK = "spark"
"""Dialect of the expressions over results and groups, which Spark evaluates."""


def is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES


def is_window(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in WINDOWS


def check_calls(text: SourceText, node: exp.Expr, grouped: bool) -> None:
    """Refuse unsupported expressions, and aggregates outside of groups."""
    for part in node.walk():
        if isinstance(part, exp.Query):
            raise text.at("a subquery is not supported; make it a stream of its own", part)
        if isinstance(part, exp.Window):
            raise text.at("OVER (...) is not supported; use GROUP BY a window of time", part)
        if isinstance(part, exp.Placeholder | exp.Parameter):
            raise text.at("write a parameter as a plain name and pass parameters={'name': value}", part)
        if not isinstance(part, exp.Anonymous):
            continue
        if is_window(part) and part is not node:
            raise text.at(f"{part.name}(...) belongs in GROUP BY; select window_start or window_end", part)
        if is_aggregate(part):
            if not grouped:
                raise text.at(
                    f"{part.name}(...) needs GROUP BY TUMBLE(time, INTERVAL 1 MINUTE) or similar", part
                )
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


def read_grouping(scope: Scope, group: exp.Group, settings: WithClause) -> Grouping:
    """The groups. `Groups` collects the aggregates later, from SELECT and HAVING."""
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
    window = windows[0]
    time, lengths = _window(scope, window)
    groups = lengths | {"keys": tuple(scope.resolved(key).sql(dialect=SPARK) for key in keys)}
    groups |= settings.of(settings_of(ResultGroups))
    with text.locating(window):
        return Grouping(ResultGroups(time, **groups), **settings.of(settings_of(Grouping)))


def _window(scope: Scope, node: exp.Expr) -> tuple[str, dict[str, Any]]:
    """The time of a window such as TUMBLE(time, length), and its lengths by name."""
    text, name, given = scope.text, node.name.lower(), node.expressions
    wanted = {"tumble": (2,), "hop": (3,), "window": (2, 3)}[name]
    if len(given) not in wanted:
        forms = {"tumble": "time, length", "hop": "time, slide, length", "window": "time, length[, slide]"}
        raise text.at(f"expected {name.upper()}({forms[name]})", node)
    check_calls(text, given[0], grouped=False)
    time = scope.resolved(given[0]).sql(dialect=SPARK)
    roles = ("slide", "window") if name == "hop" else ("window", "slide")
    return time, {role: _length(text, role, part) for role, part in zip(roles, given[1:], strict=False)}


def _length(text: SourceText, role: str, node: exp.Expr) -> int:
    if isinstance(node, exp.Interval):
        written = f"{node.this.name} {node.args['unit'].name if node.args.get('unit') else ''}"
    elif isinstance(node, exp.Literal) and node.is_string:
        written = node.name
    else:
        raise text.at("expected a length such as INTERVAL 1 MINUTE or '1 minute'", node)
    with text.locating(node), placed(Option(role)):
        return positive_duration(written)


@dataclass
class Groups:
    """Rewrites expressions over results as expressions over a group's columns, and collects aggregates."""

    text: SourceText
    keys: tuple[str, ...]
    aggregates: list[Aggregate] = field(default_factory=list)

    def shaped(self, node: exp.Expr) -> exp.Expr:
        """The expression over the group's columns. Other columns differ between the results of a group."""
        sql = node.sql(dialect=SPARK)
        if sql in self.keys:
            return exp.column(key_column(self.keys.index(sql)))
        if isinstance(node, exp.Anonymous) and is_aggregate(node):
            return exp.column(aggregate_column(self._number(node)))
        if isinstance(node, exp.Column):
            if not node.table and node.name in EDGES:
                return node
            raise self.text.at(f"{sql} is neither in GROUP BY nor in an aggregate", node)
        # Parts of the original are rewritten, not of the copy: only they know where they are in the text.
        copy = node.copy()
        for copied, part in zip(list(copy.iter_expressions()), list(node.iter_expressions()), strict=True):
            copied.replace(self.shaped(part))
        return copy

    def _number(self, node: exp.Anonymous) -> int:
        inner = node.expressions[0] if node.expressions else exp.Star()
        value = None if isinstance(inner, exp.Star) else inner.sql(dialect=SPARK)
        aggregate = Aggregate(node.name.lower(), value)
        if aggregate not in self.aggregates:
            self.aggregates.append(aggregate)
        return self.aggregates.index(aggregate)
