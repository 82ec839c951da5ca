"""Names in a statement: finds the stream of each column, and the column's own spelling.

A name with an alias is a column of that stream. A bare name is the first of these that exists: an alias (the
whole row), a parameter, a column that only one stream has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from windrow.errors import unknown
from windrow.sql_frontend.source_text import SourceText, span_of

Parameter = str | int | float | bool | None


@dataclass(frozen=True)
class StreamInfo:
    """Columns and time column of a stream, as far as known."""

    columns: tuple[str, ...] | None = None
    time: str | None = None


@dataclass(frozen=True)
class Scope:
    """The names that a statement may use."""

    text: SourceText
    columns: Mapping[str, tuple[str, ...] | None]
    """Alias to columns; None where they are not known yet."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    extra: tuple[str, ...] = ()
    """Columns of the result that no stream has: weight and cluster of a sample."""

    @property
    def aliases(self) -> Sequence[str]:
        return list(self.columns)

    def resolved(self, node: exp.Expr, more: tuple[str, ...] = ()) -> exp.Expr:
        """A copy with every name qualified and every parameter replaced by its value."""
        root = exp.Paren(this=node.copy())
        for column in list(root.find_all(exp.Column)):
            if not isinstance(column.this, exp.Star):
                column.replace(self._found(column, more))
        for call in list(root.find_all(exp.Dot)):
            if isinstance(call.expression, exp.Anonymous):
                raise self.text.at("a call on a column is not supported", call)
        return root.this

    def alias(self, identifier: exp.Expr) -> str:
        found = next((a for a in self.aliases if a.lower() == identifier.name.lower()), None)
        if found is None:
            raise self.text.at(unknown("stream", identifier.name, self.aliases), identifier)
        return found

    def column(self, alias: str, identifier: exp.Expr) -> str:
        """The column in the stream's own spelling."""
        columns = self.columns[alias]
        if columns is None or identifier.name in columns:
            return identifier.name
        alike = [c for c in columns if c.lower() == identifier.name.lower()]
        if len(alike) != 1:
            raise self.text.at(unknown("column", identifier.name, columns, f"stream '{alias}'"), identifier)
        return alike[0]

    def _found(self, column: exp.Column, more: tuple[str, ...]) -> exp.Expr:
        parts = column.parts
        if len(parts) == 1:
            return self._alone(column, more)
        alias = self.alias(parts[0])
        found: exp.Expr = _column(alias, self.column(alias, parts[1]), column)
        for part in parts[2:]:
            found = exp.Dot(this=found, expression=part.copy())
        return found

    def _alone(self, column: exp.Column, more: tuple[str, ...]) -> exp.Expr:
        name, lowered = column.name, column.name.lower()
        if lowered in (*self.extra, *more):
            return exp.column(lowered)
        if any(alias.lower() == lowered for alias in self.aliases):
            return exp.column(self.alias(column.this))
        parameter = next((p for p in self.parameters if p.lower() == lowered), None)
        if parameter is not None:
            return exp.convert(self.parameters[parameter])
        owners = [a for a, cs in self.columns.items() if lowered in {c.lower() for c in cs or ()}]
        unknown_columns = [a for a, cs in self.columns.items() if cs is None]
        if len(owners) > 1 or (owners and unknown_columns):
            raise self.text.at(
                f"column '{name}' could be of {' or '.join([*owners, *unknown_columns])}; "
                f"write {owners[0]}.{name}",
                column,
            )
        if owners:
            return _column(owners[0], self.column(owners[0], column.this), column)
        if unknown_columns:
            raise self.text.at(
                f"column '{name}' names no stream. The streams are {', '.join(self.aliases)}; "
                f"write {self.aliases[0]}.{name}",
                column,
            )
        known = {c for cs in self.columns.values() for c in cs or ()} | set(self.parameters)
        raise self.text.at(unknown("column", name, known), column)


def _column(alias: str, name: str, written: exp.Column) -> exp.Column:
    column = exp.column(exp.to_identifier(name, quoted=not name.isidentifier()), table=alias)
    span = span_of(written)
    if span is not None:  # later errors point at the column as written
        column.this.meta.update(start=span[0], end=span[1])
    return column
