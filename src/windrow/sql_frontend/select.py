"""Reads one SELECT: streams, predicate, settings, columns, groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from windrow.errors import Option, QueryError, located
from windrow.expr.dialect import render
from windrow.expr.parse import references
from windrow.model.execution import describe
from windrow.model.join_kind import CERTAIN
from windrow.model.query import Function, Window
from windrow.model.sharing import JOIN_SETTINGS, read_sharing
from windrow.sql_frontend.from_clause import FromItem, read_from
from windrow.sql_frontend.group_by import (
    EDGES,
    SPARK,
    Groups,
    check_calls,
    is_aggregate,
    is_window,
    read_grouping,
)
from windrow.sql_frontend.interval_windows import interval_windows
from windrow.sql_frontend.join_kinds import JoinedTable, conditions_of_where, joined_tables, read_kinds
from windrow.sql_frontend.scope import Parameter, Scope, StreamInfo
from windrow.sql_frontend.source_text import ClauseSpans, SourceText, Span, span_of
from windrow.sql_frontend.statement import Grouping, SelectItem, Statement
from windrow.sql_frontend.with_options import GROUP_SETTINGS, WithClause, read_with

_TAKEN = ("expressions", "from_", "joins", "where", "group", "having", "within", "settings")
_INSTEAD = {
    "order": "ORDER BY is not supported: a stream has no end to sort at; sort the results",
    "limit": "LIMIT is not supported; take a part of the results",
    "distinct": "DISTINCT is not supported; GROUP BY a window of time",
    "qualify": "QUALIFY is not supported; GROUP BY a window of time",
}


def read_select(
    text: SourceText,
    select: exp.Expr,
    name: str,
    known: Mapping[str, StreamInfo] | None,
    time: str | None,
    functions: Mapping[str, Function | Callable[..., Any]],
    parameters: Mapping[str, Parameter],
    replaced: Mapping[str, Any],
    explain: bool = False,
) -> Statement:
    """The statement, with all names resolved."""
    if not isinstance(select, exp.Select):
        raise text.at("UNION, INTERSECT and EXCEPT are not supported; write separate statements", select)
    _refuse_clauses(text, select)
    settings = read_with(text, select.args.get("settings"))
    settings = WithClause({**settings.values, **replaced}, settings.spans)
    joined = joined_tables(text, select)
    streams = read_from(text, select, joined, known, settings.values.get("within"))
    scope = Scope(text, {f.alias: f.known.columns for f in streams}, parameters)
    for node in _conditions(select, joined):
        _check_condition(scope, node)
    spans = _spans(select, joined, settings)
    places = ClauseSpans(text, span_of(select), spans, {f.alias: f.span for f in streams})
    with located(places.locate):
        times = {f.alias: _time(f, settings, time) for f in streams}
        by_alias = {f.alias: table for f, table in zip(streams[1:], joined, strict=True)}
        kinds = read_kinds(scope, select, streams[0].alias, by_alias, times)
        parts = list(kinds.on)
        _check_keys(scope, streams, parts)
        given = settings.of(JOIN_SETTINGS) | {
            "time": times,
            "within": _windows(text, streams, parts, times),
            "on": " AND ".join(_written(part) for part in parts) or "true",
            "functions": functions,
        }
        sharing = read_sharing(given)
        query, execution = describe([f.alias for f in streams], given | kinds.settings)
        if sharing is not None and query.kind.shapes:
            raise QueryError("only inner joins defer rows; shed them, or leave it out", Option("deadline"))
        sampled = ("weight", "cluster") if query.sampled else ()
        certain = (CERTAIN,) if query.kind.reports_certainty else ()
        shown = {alias: scope.columns[alias] for alias in query.kind.result_aliases}
        shaped = Scope(text, shown, parameters, (*sampled, *certain))
        outputs, grouping = _shape(shaped, select, settings, query.sampled)
    # Only for display: the query has them all in `on`.
    several = [part for part in parts if len({alias for alias, _ in references(part)}) > 1]
    return Statement(
        name=execution.name or name,
        query=query,
        sources={f.alias: f.name for f in streams},
        outputs=outputs,
        conditions=tuple(_written(part) for part in several),
        filters=tuple(_written(part) for part in parts if part not in several),
        where=tuple(shaped.resolved(part).sql(dialect=SPARK) for part in kinds.after),
        grouping=grouping,
        explain=explain,
        execution=replace(execution, name=None),
        sharing=sharing,
        places=places,
    )


def _windows(
    text: SourceText, streams: Sequence[FromItem], parts: Sequence[exp.Expr], times: Mapping[str, str]
) -> dict[str, Window]:
    """The streams' windows. Conditions on times imply those that are not written."""
    found = {f.alias: f.window for f in streams if f.window is not None}
    if len(found) == len(streams):
        return found
    implied = interval_windows(parts, times)
    for item in streams:
        if item.window is None and item.alias not in implied:
            raise text.error(
                f"stream '{item.alias}' has no window; write [RANGE 1 MINUTE] or [ROWS 1000] after it, "
                "WINDOW 1 MINUTE at the end for all, or conditions that bound how far every other stream's "
                f"time is past {item.alias}.{times[item.alias]}, such as b.at BETWEEN a.at AND a.at + "
                "INTERVAL '1' MINUTE",
                item.span,
            )
    return found | {a: Window("time", size) for a, size in implied.items() if a not in found}


def _refuse_clauses(text: SourceText, select: exp.Select) -> None:
    for key, value in select.args.items():
        if not value or key in _TAKEN:
            continue
        node = value[0] if isinstance(value, list) else value
        message = _INSTEAD.get(key, f"{key.strip('_').upper()} is not supported")
        raise text.at(message, node if isinstance(node, exp.Expr) and span_of(node) else select)
    if not select.expressions:
        raise text.at("nothing is selected; write SELECT * or name columns", select)


def _conditions(select: exp.Select, joined: Sequence[JoinedTable]) -> list[exp.Expr]:
    """The conditions in ON, EXISTS and WHERE."""
    return [*(each.on for each in joined if each.on is not None), *conditions_of_where(select)]


def _check_condition(scope: Scope, node: exp.Expr) -> None:
    check_calls(scope.text, node, grouped=False)
    star = node.find(exp.Star)
    if star is not None:
        raise scope.text.at("* is not supported in a condition", star)


def _written(part: exp.Expression) -> str:
    """Text that can be joined with AND."""
    return f"({render(part)})" if isinstance(part, exp.Or) else render(part)


def _spans(select: exp.Select, joined: Sequence[JoinedTable], settings: WithClause) -> dict[str, Span | None]:
    conditions = _conditions(select, joined)
    on = span_of(conditions[0]) if conditions else None
    if on is not None:
        on = (on[0], (span_of(conditions[-1]) or on)[1])
    group = select.args.get("group")
    listed = [span for node in select.expressions if (span := span_of(node)) is not None]
    return {
        "on": on,
        "select": (listed[0][0], listed[-1][1]) if listed else None,
        "group": span_of(group) if group is not None else None,
        **settings.spans,
    }


def _time(stream: FromItem, settings: WithClause, default: str | None) -> str:
    given = settings.values.get("time")
    time = (given.get(stream.alias) if isinstance(given, Mapping) else given) or stream.known.time or default
    if time is None:
        raise QueryError(
            "its time column is not known; write TIME column in CREATE STREAM, WITH (time = 'column'), or "
            "pass time=",
            Option(stream=stream.alias),
        )
    columns = stream.known.columns or ()
    return next((c for c in columns if c.lower() == str(time).lower()), str(time))


def _check_keys(scope: Scope, streams: list[FromItem], parts: list[exp.Expression]) -> None:
    """PARTITION BY must name the join key, because row windows per key count by it."""
    for stream in streams:
        if not stream.keys:
            continue
        joined = {
            side.name
            for part in parts
            if isinstance(part, exp.EQ) and len({alias for alias, _ in references(part)}) == 2
            for side in (part.left, part.right)
            if isinstance(side, exp.Column) and side.table == stream.alias
        }
        own = Scope(scope.text, {stream.alias: scope.columns[stream.alias]})
        given = set()
        for key in stream.keys:
            if not isinstance(key, exp.Column):
                raise scope.text.at("PARTITION BY takes columns", key)
            if key.table:
                own.alias(key.args["table"])
            given.add(own.column(stream.alias, key.this))
        if given != joined:
            keys = ", ".join(sorted(joined)) or "none, since no condition is an equality of columns"
            raise scope.text.at(
                f"rows are counted per join key, which is {keys}; PARTITION BY {', '.join(sorted(given))} is "
                "not supported",
                stream.keys[0],
                Option(stream=stream.alias),
            )


def _shape(
    scope: Scope, select: exp.Select, settings: WithClause, sampled: bool
) -> tuple[tuple[SelectItem, ...], Grouping | None]:
    """The select list, and the groups it selects from."""
    group, having = select.args.get("group"), select.args.get("having")
    if group is None:
        if having is not None:
            raise scope.text.at("HAVING needs GROUP BY", having)
        for name in settings.of(GROUP_SETTINGS):
            raise QueryError("needs GROUP BY", Option(name))
        return _outputs(scope, select, None), None
    grouping = read_grouping(scope, group, settings)
    groups = Groups(scope.text, grouping.groups.keys)
    outputs, kept = _outputs(scope, select, groups), None
    if sampled:
        _refuse_of_sample(scope, select, having)
    if having is not None:
        check_calls(scope.text, having.this, grouped=True)
        kept = groups.shaped(scope.resolved(having.this, EDGES)).sql(dialect=SPARK)
    return outputs, replace(grouping, having=kept, aggregates=tuple(groups.aggregates))


def _outputs(scope: Scope, select: exp.Select, groups: Groups | None) -> tuple[SelectItem, ...]:
    outputs = tuple(_output(scope, node, groups) for node in select.expressions)
    names = [o.name.lower() for o in outputs if o.name is not None]
    twice = next((o for o in outputs if o.name and names.count(o.name.lower()) > 1), None)
    if twice is not None:
        raise scope.text.at(f"two columns are called '{twice.name}'; rename one", select.expressions[-1])
    return outputs


def _refuse_of_sample(scope: Scope, select: exp.Select, having: exp.Expr | None) -> None:
    if having is not None:
        raise scope.text.at("HAVING is not supported on a sample: its figures are estimates", having)
    for node in select.expressions:
        inner = node.unalias()
        if not is_aggregate(inner) and any(is_aggregate(part) for part in inner.walk()):
            raise scope.text.at(
                "select an aggregate of a sample on its own: expressions over it have no interval",
                node,
            )


def _output(scope: Scope, node: exp.Expr, groups: Groups | None) -> SelectItem:
    text, name = scope.text, None
    if isinstance(node, exp.Alias):
        node, name = node.this, node.alias
    star = node if isinstance(node, exp.Star) else node.this if isinstance(node, exp.Column) else None
    if isinstance(star, exp.Star):
        return _star(scope, node, star, name, groups)
    if is_window(node):
        raise text.at(f"{node.name}(...) belongs in GROUP BY; select window_start or window_end", node)
    check_calls(text, node, grouped=groups is not None)
    found = scope.resolved(node, EDGES if groups is not None else ())
    sql = found.sql(dialect=SPARK)
    shaped = groups.shaped(found).sql(dialect=SPARK) if groups is not None else None
    if isinstance(found, exp.Column):
        return SelectItem(sql, name, shaped, found.name, found.table or None)
    natural = found.expression.name if isinstance(found, exp.Dot) else None
    return SelectItem(sql, name, shaped, found.name.lower() if is_aggregate(found) else natural)


def _star(
    scope: Scope, node: exp.Expr, star: exp.Star, name: str | None, groups: Groups | None
) -> SelectItem:
    if groups is not None:
        raise scope.text.at("* cannot be selected from groups; name the keys and aggregates", node)
    if star.args.get("except_") or star.args.get("replace") or name:
        raise scope.text.at("* takes no EXCEPT, REPLACE or AS", node)
    alias = scope.alias(node.args["table"]) if isinstance(node, exp.Column) else None
    return SelectItem(f"{alias}.*" if alias else "*", alias=alias)
