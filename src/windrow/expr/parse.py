"""Parses an expression, and finds the streams and columns that its names refer to.

Columns are written `alias.column`, or `alias.column.field` for a field of a struct. `parse` spells aliases as
the query does. `resolve` spells columns as the schema of their stream does: a name that the schema has is
taken as it is, any other must match exactly one column regardless of case. After that, two spellings of one
expression have one canonical text. Subqueries, aggregates, window functions and stars are refused, so later
steps see only expressions over one row of each stream.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from windrow.errors import QueryError, unknown
from windrow.expr.dialect import WindrowPredicate, render

Reference = tuple[str, str]
"""(alias, column)"""

_REFUSED: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.Query, "subqueries are not supported; join the other table as a stream of its own"),
    (exp.Exists, "subqueries are not supported; join the other table as a stream of its own"),
    (exp.Window, "window functions are not supported; compute them on the stream before the join"),
    (exp.Star, "* is not supported here; name the column, such as a.id"),
    (exp.Distinct, "distinct is not supported in a predicate"),
    (exp.Placeholder, "parameters are not supported; write the value into the text"),
    (exp.Parameter, "parameters are not supported; write the value into the text"),
    (exp.Alias, "a predicate takes no 'as'"),
)


def parse(text: str, aliases: Sequence[str], functions: Collection[str] = ()) -> exp.Expression:
    """Parses one expression and qualifies its columns. Raises a QueryError if the text is not an expression,
    or if a column has no stream or an unknown one.

    `functions` are the names of the user's own functions, which may be those of aggregates.
    """
    node = _parse(text)
    own = {name.lower() for name in functions}
    for part in list(node.walk()):
        _refuse(part, text, own)
    root = exp.Paren(this=node)  # a parent for a node that is itself a column
    for column in list(root.find_all(exp.Column)):
        column.replace(_qualified(column, aliases))
    return detached(root.unnest())


def resolve(node: exp.Expression, schemas: Mapping[str, pa.Schema]) -> exp.Expression:
    """A copy of `node` with every column spelled as in its stream's schema."""
    copy = node.copy()
    for column in copy.find_all(exp.Column):
        name = column_name(column.table, column.name, schemas[column.table].names)
        column.set("this", exp.to_identifier(name, quoted=not name.isidentifier()))
    return copy


def column_name(alias: str, name: str, names: list[str]) -> str:
    """`name` as the schema spells it; raises a QueryError that lists the stream's columns if none matches.

    >>> column_name("b", "Auction_ID", ["auction_id", "price"])
    'auction_id'
    """
    if name in names:
        if names.count(name) > 1:
            raise QueryError(
                f"column '{name}' of stream '{alias}' occurs {names.count(name)} times; rename one"
            )
        return name
    alike = [n for n in names if n.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise QueryError(
            f"column '{name}' of stream '{alias}' could be {' or '.join(alike)}; write it in the right case"
        )
    raise QueryError(unknown("column", name, names, f"stream '{alias}'"))


def conjuncts(node: exp.Expr) -> list[exp.Expression]:
    """The parts of `a AND b AND c`, in the order written."""
    node = node.unnest()
    if isinstance(node, exp.And):
        return conjuncts(node.left) + conjuncts(node.right)
    return [detached(node)]


def detached(node: exp.Expr) -> exp.Expression:
    """A copy without the surrounding tree, which a stored or pickled node would otherwise keep with it."""
    copy = node.copy()
    assert isinstance(copy, exp.Expression)
    return copy


def depth(text: str) -> tuple[int, int]:
    """(nesting, tree depth). A chain of one operator, such as `x or y or z`, counts once for the nesting.

    >>> depth("a.x = 1 or a.x = 2 or abs(a.x) = 3")
    (5, 5)
    """
    level, nested, deep = [(_parse(text), 1)], 0, 0
    while level:
        nested, deep = max(nested, *(n for _, n in level)), deep + 1
        level = [
            (child, n + (type(child) is not type(node) or not isinstance(node, exp.Binary)))
            for node, n in level
            for child in node.iter_expressions()
        ]
    return nested, deep


def references(node: exp.Expr) -> frozenset[Reference]:
    """The columns an expression reads."""
    return frozenset((column.table, column.name) for column in node.find_all(exp.Column))


def _parse(text: str) -> exp.Expr:
    try:
        statements = sqlglot.parse(text, dialect=WindrowPredicate)
    except ParseError as error:
        raise QueryError(f"cannot parse {text!r}{_position(error)}") from None
    except TokenError:
        raise QueryError(f"cannot parse {text!r}: a quote is opened and never closed") from None
    if len(statements) != 1 or statements[0] is None:
        raise QueryError(f"expected one predicate such as 'a.id = b.id', got {text!r}")
    return statements[0]


def _position(error: ParseError) -> str:
    if not error.errors:
        return ""
    first = error.errors[0]
    line, column, near = first.get("line"), first.get("col"), first.get("highlight")
    description = str(first.get("description", ""))
    what = "something is missing" if description.startswith("Required keyword") else "not expected here"
    if description.startswith("Expecting )"):
        what = "expected ) after this"
    if not line or not column or not near:
        return f": {what}"
    start = column - len(near) + 1
    return f" at line {line}, column {start}, near '{near}': {what}"


def _refuse(node: exp.Expr, text: str, own: Collection[str]) -> None:
    for kind, remedy in _REFUSED:
        if isinstance(node, kind):
            raise QueryError(f"cannot use {text!r}: {remedy}")
    if isinstance(node, exp.Anonymous) and node.name.lower() not in own:
        known = exp.FUNCTION_BY_NAME.get(node.name.upper())
        if known is not None and issubclass(known, exp.AggFunc):
            raise QueryError(
                f"{node.name}(...) needs many rows and a predicate sees one of each stream; "
                "aggregate the stream before the join, or its result after"
            )


def _qualified(column: exp.Column, aliases: Sequence[str]) -> exp.Expr:
    parts = [part.name for part in column.parts]
    if len(parts) == 1:
        raise QueryError(
            f"column '{parts[0]}' names no stream. The streams are {', '.join(aliases)}; "
            f"write {aliases[0]}.{parts[0]}"
        )
    alias = next((a for a in aliases if a.lower() == parts[0].lower()), None)
    if alias is None:
        raise QueryError(f"{unknown('stream', parts[0], aliases)} (in {render(column)})")
    found: exp.Expr = exp.column(parts[1], table=alias)
    for field in parts[2:]:
        found = exp.Dot(this=found, expression=exp.to_identifier(field))
    return found
