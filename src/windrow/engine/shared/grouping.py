"""Groups queries that can share a join: the same streams and conditions, and windows of one kind.

Outer, semi, anti and as-of joins are shared by queries with the same windows and the same predicate: what a
row lacks depends on all of it.

In inner joins single-stream conditions are evaluated above the join. They then drop no row that another query
needs, and a row that fails them still displaces others from a row window, as when the query runs alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from sqlglot import exp

from windrow.errors import Option, QueryError, unknown
from windrow.expr.dialect import render
from windrow.expr.parse import conjuncts, parse, references
from windrow.model.notebook import html_text, short_repr
from windrow.model.query import Query, Window
from windrow.model.sharing import Subscription


@dataclass(frozen=True)
class SplitPredicate:
    """A predicate in two parts: checked by the join, and checked on results."""

    join: tuple[str, ...]
    """Conditions between streams in canonical order, so that two spellings of a predicate are equal."""
    above: tuple[str, ...]
    """Conditions on one stream or none. Empty unless the join is inner."""

    @property
    def on(self) -> str:
        return " and ".join(f"({part})" for part in self.join) or "true"


def split_by_stream(query: Query) -> SplitPredicate:
    """Split the query's predicate.

    >>> from windrow.model.query import Stream
    >>> streams = {"a": Stream("at", "5 s"), "b": Stream("at", "5 s")}
    >>> split_by_stream(Query(streams, "b.k = a.k and a.x > 3"))
    SplitPredicate(join=('a.k = b.k',), above=('a.x > 3',))
    """
    return _part(query.on, query.aliases, tuple(query.functions), bool(query.kind.shapes))


@lru_cache(maxsize=1024)
def _part(on: str, aliases: tuple[str, ...], functions: tuple[str, ...], whole: bool) -> SplitPredicate:
    join: list[str] = []
    above: list[str] = []
    for piece in conjuncts(parse(on, aliases, functions)):
        between = len({alias for alias, _ in references(piece)}) > 1
        (join if between or whole else above).append(_canonical(piece))
    return SplitPredicate(tuple(sorted(set(join))), tuple(dict.fromkeys(above)))


def _canonical(node: exp.Expression) -> str:
    if isinstance(node, exp.EQ):
        left, right = sorted(map(_side, (node.left, node.right)))
        return f"{left} = {right}"
    return render(node)


def _side(node: exp.Expr) -> str:
    """Parenthesise a side that is itself a condition: `=` binds as tightly as the operators inside."""
    condition = isinstance(node.unnest(), exp.Predicate | exp.Connector | exp.Not)
    return f"({render(node)})" if condition else render(node)


def signature(query: Query) -> dict[str, Any]:
    """Properties that queries must have in common to share a join."""
    return {
        "streams": [[alias, s.time] for alias, s in query.streams.items()],
        "how": query.how if isinstance(query.how, str) else dict(query.how),
        "match": dict(query.match or {}),
        "on": split_by_stream(query).on,
        "windows": [s.window.kind for s in query.streams.values()],
        "within": [str(s.window) for s in query.streams.values()] if query.kind.shapes else None,
        "late": list(query.watermark_delays),
        "source partitions": [s.source_partition for s in query.streams.values()],
        "idle": query.idle_timeout_us,
        "ahead": query.head_start,
        "allow_cross_join": query.allow_cross_join,
        "nan": query.nan,
        "on_error": "raise" if query.raises else "null",
        "functions": sorted((name, id(getattr(f, "call", f))) for name, f in query.functions.items()),
    }


def difference(one: Query, other: Query) -> str | None:
    """Why two queries cannot share a join; None if they can."""
    mine, theirs = signature(one), signature(other)
    named = {"on": "predicates", "windows": "kinds of windows", "within": "windows", "how": "kinds of join"}
    for key in mine:
        if mine[key] != theirs[key]:
            shown = "" if key == "functions" else f": {_shown(mine[key])} and {_shown(theirs[key])}"
            return f"different {named.get(key, key)}{shown}"
    return None


def _shown(value: object) -> str:
    return ", ".join(_shown(v) for v in value) if isinstance(value, list) else str(value)


@dataclass(frozen=True)
class QueryGroup:
    """Queries that share one join; prints itself."""

    subscriptions: Mapping[str, Subscription]
    why: str = ""
    """How it differs from the first group."""

    __repr__ = short_repr
    _repr_html_ = html_text

    def __str__(self) -> str:
        first = next(iter(self.subscriptions.values())).query
        lines = [f"one join on {split_by_stream(first).on} for {len(self.subscriptions)} queries{self.why}"]
        for name, s in self.subscriptions.items():
            windows = ", ".join(f"{a} {w}" for a, w in zip(s.query.aliases, s.windows, strict=True))
            kept = [*split_by_stream(s.query).above, *([s.where] if s.where else [])]
            line = f"  {name}: {windows}" + (f"; where {' and '.join(kept)}" if kept else "")
            lines.append(line + (f"; select {', '.join(s.select)}" if s.select else ""))
        return "\n".join(lines)


def group_queries(queries: Mapping[str, Query | Subscription]) -> list[QueryGroup]:
    """Group queries by the join they can share, in the order given."""
    if not queries:
        raise QueryError("expected at least one, got none", Option("queries"))
    groups: list[dict[str, Subscription]] = []
    for name, given in queries.items():
        if not isinstance(name, str) or not name:
            raise QueryError(f"a query's name must be a text, got {name!r}", Option("queries"))
        subscribed = Subscription.of(given, name)
        for members in groups:
            if difference(next(iter(members.values())).query, subscribed.query) is None:
                members[name] = subscribed
                break
        else:
            groups.append({name: subscribed})
    first = next(iter(groups[0].values())).query
    return [
        QueryGroup(members, "" if k == 0 else f" ({difference(first, next(iter(members.values())).query)})")
        for k, members in enumerate(groups)
    ]


def with_windows(like: Query, within: object, on: str) -> Query:
    """The same query over other windows: one for all streams, a sequence, or a mapping by alias."""
    place = Option("within")
    if isinstance(within, Mapping):
        for alias in within:
            if alias not in like.streams:
                raise QueryError(unknown("stream", str(alias), like.streams), place)
        missing = [alias for alias in like.aliases if alias not in within]
        if missing:
            raise QueryError(f"stream '{missing[0]}' is missing; give one for each of {like.aliases}", place)
        chosen = [within[alias] for alias in like.aliases]
    else:
        chosen = list(within) if isinstance(within, list | tuple) else [within] * len(like.streams)
        if len(chosen) != len(like.streams):
            raise QueryError(f"expected a window for each of {like.aliases}, got {within!r}", place)
    streams = {
        alias: replace(s, within=window)
        for (alias, s), window in zip(like.streams.items(), chosen, strict=True)
    }
    return replace(like, streams=streams, on=on)


def base_query(like: Query, windows: tuple[Window, ...]) -> Query:
    """The query to run: the conditions between streams, over these windows."""
    return with_windows(like, windows, split_by_stream(like).on)
