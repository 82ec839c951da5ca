"""Kinds of join in SQL: LEFT, RIGHT, FULL, SEMI, ANTI and ASOF JOIN, and WHERE [NOT] EXISTS.

The conditions in ON define a match. Those in WHERE filter results. They filter the streams instead where that
gives the same results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from windrow.expr.parse import conjuncts, references
from windrow.sql_frontend.scope import Scope
from windrow.sql_frontend.source_text import SourceText

_ROLES = {
    "": "required",
    "INNER": "required",
    "CROSS": "required",
    "LEFT": "optional",
    "LEFT OUTER": "optional",
    "LEFT SEMI": "exists",
    "SEMI": "exists",
    "LEFT ANTI": "absent",
    "ANTI": "absent",
}
_BOTH = {"RIGHT": "right", "RIGHT OUTER": "right", "FULL": "full", "FULL OUTER": "full"}
_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}


@dataclass(frozen=True)
class JoinedTable:
    """A stream that is joined to those before it."""

    table: exp.Expr
    kind: str
    """LEFT, FULL OUTER and so on; empty for an inner join."""
    as_of: bool
    on: exp.Expr | None
    node: exp.Expr


@dataclass(frozen=True)
class Kinds:
    """Predicate, `how` and `match` of the query, and conditions on its results."""

    on: tuple[exp.Expression, ...]
    """Conjuncts."""
    after: tuple[exp.Expression, ...] = ()
    """Conjuncts that filter results."""
    how: str | Mapping[str, str] = "inner"
    match: Mapping[str, str] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the query. Inner joins set nothing, so that WITH may."""
        given = {} if self.how == "inner" else {"how": self.how}
        return given | ({} if self.match is None else {"match": self.match})


def joined_tables(text: SourceText, select: exp.Select) -> list[JoinedTable]:
    """In the order written, then those of EXISTS."""
    return [*(_read_join(text, join) for join in select.args.get("joins") or ()), *_existing(text, select)]


def _read_join(text: SourceText, join: exp.Expr) -> JoinedTable:
    method = str(join.args.get("method") or "").upper()
    kind = " ".join(str(join.args[k]) for k in ("side", "kind") if join.args.get(k)).upper()
    if method not in ("", "ASOF") or kind not in (*_ROLES, *_BOTH):
        raise text.at(f"{' '.join(filter(None, (method, kind)))} JOIN is not supported", join)
    if join.args.get("using"):
        raise text.at("USING is not supported; write ON with the condition", join)
    if method and kind not in ("", "INNER", "LEFT", "LEFT OUTER"):
        raise text.at(f"ASOF {kind} JOIN is not supported; write ASOF JOIN or ASOF LEFT JOIN", join)
    return JoinedTable(join.this, kind, bool(method), join.args.get("on"), join)


def _existing(text: SourceText, select: exp.Select) -> Iterator[JoinedTable]:
    for part in _where(select):
        inner = _existence(part)
        if inner is None:
            continue
        select = inner.this
        clauses = {key for key, value in select.args.items() if value}
        if not isinstance(select, exp.Select) or clauses - {"expressions", "from_", "where"}:
            raise text.at("EXISTS takes SELECT ... FROM one stream with its window WHERE ...", inner)
        condition = select.args.get("where")
        kind = "ANTI" if isinstance(part, exp.Not) else "SEMI"
        yield JoinedTable(
            select.args["from_"].this, kind, False, condition.this if condition is not None else None, inner
        )


def conditions_of_where(select: exp.Select) -> list[exp.Expr]:
    """The conditions of WHERE except EXISTS."""
    return [part for part in _where(select) if _existence(part) is None]


def _where(select: exp.Select) -> list[exp.Expr]:
    where = select.args.get("where")
    return [] if where is None else _parts(where.this)


def _parts(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a conjunction, not copied, so that errors can point at them."""
    node = node.unnest()
    return [*_parts(node.left), *_parts(node.right)] if isinstance(node, exp.And) else [node]


def _existence(part: exp.Expr) -> exp.Exists | None:
    """The EXISTS of a condition EXISTS (...) or NOT EXISTS (...)."""
    inner = part.this.unnest() if isinstance(part, exp.Not) else part
    return inner if isinstance(inner, exp.Exists) else None


def read_kinds(
    scope: Scope, select: exp.Select, first: str, joined: Mapping[str, JoinedTable], times: Mapping[str, str]
) -> Kinds:
    """Read the kinds of all joins. `joined` and `times`, the time columns, are by alias."""
    text = scope.text
    after = [piece for part in conditions_of_where(select) for piece in conjuncts(scope.resolved(part))]
    on = {
        alias: conjuncts(scope.resolved(table.on)) if table.on is not None else []
        for alias, table in joined.items()
    }
    everything = tuple(piece for pieces in on.values() for piece in pieces)
    match = {a: _match(scope, a, t, on[a], times) for a, t in joined.items() if t.as_of}
    outer = {a: t for a, t in joined.items() if t.kind in _BOTH}
    roles = {a: _ROLES.get(t.kind, "required") for a, t in joined.items()}
    # Of two streams, `how` names the kind. With more, each stream has a role.
    if outer or (len(joined) == 1 and "optional" in roles.values()):
        if len(joined) > 1:
            table = next(iter(outer.values()))
            raise text.at(f"{table.kind} JOIN is for two streams; write LEFT JOINs", table.node)
        (only,) = joined.values()
        return Kinds(everything, tuple(after), _BOTH.get(only.kind, "left"), match or None)
    # Streams that every result has a row of. Conditions of WHERE on them alone can filter before the join;
    # others must see the result, in which rows may be missing.
    core = {first, *(a for a, role in roles.items() if role == "required" and a not in match)}
    for alias, table in joined.items():
        _check_level(scope, alias, table, on[alias], roles[alias], core)
    filters = [piece for piece in after if _aliases(piece) <= core]
    rest = tuple(piece for piece in after if piece not in filters)
    special = {alias: role for alias, role in roles.items() if role != "required"}
    return Kinds((*everything, *filters), rest, special or "inner", match or None)


def _aliases(node: exp.Expr) -> set[str]:
    return {alias for alias, _ in references(node)}


def _check_level(
    scope: Scope, alias: str, table: JoinedTable, on: list[exp.Expression], role: str, core: set[str]
) -> None:
    """Refuse conditions in ON that refer to streams of another join."""
    for piece in on:
        if alias in core and not _aliases(piece) <= core:
            raise scope.text.at(
                f"the condition of '{alias}' refers to a stream that may be missing; write inner joins first",
                table.node,
            )
        if role in ("optional", "absent") and alias not in _aliases(piece):
            raise scope.text.at(
                f"a condition of '{alias}' does not refer to it; a filter on other streams belongs in WHERE",
                table.node,
            )


def _match(
    scope: Scope, alias: str, table: JoinedTable, on: list[exp.Expression], times: Mapping[str, str]
) -> str:
    """Which row matches, from the one comparison of time columns: `a.at >= b.at` is the last row of b,
    `a.at < b.at` the first row after."""
    found: list[type[exp.Expr]] = []  # comparisons, written with `alias` on the right
    for piece in on:
        if not isinstance(piece, exp.LT | exp.LTE | exp.GT | exp.GTE):
            continue
        left, right = piece.left.unnest(), piece.right.unnest()
        if not isinstance(left, exp.Column) or not isinstance(right, exp.Column):
            continue
        timed = all(side.name == times.get(side.table) for side in (left, right))
        if timed and alias in (left.table, right.table) and left.table != right.table:
            found.append(type(piece) if right.table == alias else _FLIPPED[type(piece)])
    if len(found) != 1:
        raise scope.text.at(
            f"ASOF JOIN takes one comparison of time columns, such as a.{times[alias]} >= {alias}."
            f"{times[alias]}; got {len(found)}",
            table.node,
        )
    if found[0] is exp.LTE:
        raise scope.text.at(
            f"ASOF JOIN takes the first row of '{alias}' after the others: write < in place of <=", table.node
        )
    return "first" if found[0] is exp.LT else "last"
