"""Filters and select lists of a subscription, bound to the streams' columns. Mistakes in them are refused
here.

Expressions are identified by their canonical text, so what several queries ask for is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from windrow.engine.shared.grouping import split_by_stream
from windrow.errors import Option, QueryError, placed
from windrow.expr.dialect import render
from windrow.expr.evaluate import can_fail, result_type, with_nan_as_null
from windrow.expr.parse import Reference, parse, references, resolve
from windrow.model.query import Function, NanRule
from windrow.model.sharing import Subscription


@dataclass(frozen=True)
class BoundExpression:
    """An expression over results."""

    sql: str
    node: exp.Expression
    type: pa.DataType

    @property
    def columns(self) -> frozenset[Reference]:
        return references(self.node)

    @cached_property
    def can_fail(self) -> bool:
        """Whether it can fail for some result."""
        return can_fail(self.node)


@dataclass(frozen=True)
class BoundSubscription:
    """A subscription bound to known columns."""

    filters: tuple[BoundExpression, ...]
    columns: Mapping[str, BoundExpression] | None
    """The select list; None for a struct per stream."""

    @cached_property
    def plain(self) -> bool:
        """Whether it takes every result that its windows hold, and computes nothing."""
        selected = (each.node for each in (self.columns or {}).values())
        return not self.filters and all(isinstance(node, exp.Column | exp.Literal) for node in selected)

    @property
    def references(self) -> frozenset[Reference] | None:
        """Columns it reads; None for all."""
        if self.columns is None:
            return None
        return frozenset().union(*(e.columns for e in (*self.filters, *self.columns.values())))

    @property
    def listed(self) -> tuple[tuple[str, str], ...] | None:
        """The select list as a key, equal for queries that select the same."""
        return None if self.columns is None else tuple((n, e.sql) for n, e in self.columns.items())

    def schema(self, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
        """Schema of its results."""
        if self.columns is None:
            return pa.schema([(alias, pa.struct(list(schema))) for alias, schema in schemas.items()])
        return pa.schema([(name, e.type) for name, e in self.columns.items()])


def bind(name: str, subscription: Subscription, schemas: Mapping[str, pa.Schema]) -> BoundSubscription:
    """Bind a subscription; raise a QueryError under the query's name."""
    functions = {n: f for n, f in subscription.query.functions.items() if isinstance(f, Function)}
    with placed(Option(query=name)):
        above = split_by_stream(subscription.query).above
        texts = [*above, *([subscription.where] if subscription.where else [])]
        filters = tuple(
            _bind("where", text, schemas, functions, subscription.query.nan_rule) for text in texts
        )
        wrong = next((f for f in filters if not _is_condition(f.type)), None)
        if wrong is not None:
            raise QueryError(f"expected a condition, got {wrong.sql} of type {wrong.type}", Option("where"))
        if not subscription.select:
            return BoundSubscription(filters, None)
        return BoundSubscription(
            filters,
            {n: _bind("select", t, schemas, functions, "spark") for n, t in subscription.columns.items()},
        )


def _is_condition(kind: pa.DataType) -> bool:
    return bool(pt.is_boolean(kind) or pt.is_null(kind))


def _bind(
    option: str,
    text: str,
    schemas: Mapping[str, pa.Schema],
    functions: Mapping[str, Function],
    nan: NanRule,
) -> BoundExpression:
    with placed(Option(option)):
        node = resolve(parse(text, list(schemas), functions), schemas)
        types = {(alias, name): schemas[alias].field(name).type for alias, name in references(node)}
        evaluated = with_nan_as_null(node) if nan == "never" else node
        return BoundExpression(render(evaluated), evaluated, result_type(node, types, functions))


def referenced_columns(
    bounds: Sequence[BoundSubscription], schemas: Mapping[str, pa.Schema]
) -> dict[str, list[str]]:
    """Per alias, the columns that any subscription reads, in the stream's order."""
    needed = [bound.references for bound in bounds]
    if any(a is None for a in needed):
        return {alias: list(schema.names) for alias, schema in schemas.items()}
    union = frozenset().union(*(a for a in needed if a is not None))
    return {
        alias: [name for name in schema.names if (alias, name) in union] for alias, schema in schemas.items()
    }
