"""The user's importance function: expressions and lookup tables bound to the streams' columns.

Errors in them are found when they are bound, before any row is read. A row without an importance (null, NaN,
negative, infinite, or its expression fails) has importance 0 and is counted: a function may work for years
and then fail on an unforeseen row, which must not stop the query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from sqlglot import exp

from windrow.errors import QueryError, unknown
from windrow.eviction.window_view import WindowView
from windrow.expr.evaluate import evaluate, result_type
from windrow.expr.parse import column_name, parse, references, resolve
from windrow.expr.types import is_number
from windrow.kernels import importance_priority
from windrow.model.policies.importance import By, Lookup
from windrow.model.query import Function
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray


@dataclass(frozen=True)
class _Expression:
    alias: str
    node: exp.Expression
    columns: tuple[str, ...]
    functions: Mapping[str, Function]

    def values(self, columns: Sequence[pa.Array], rows: int) -> pa.Array:
        named = {(self.alias, name): array for name, array in zip(self.columns, columns, strict=True)}
        return evaluate(self.node, named, rows, self.functions)


@dataclass(frozen=True)
class _Table:
    keys: pa.Array
    importance: pa.Array
    """Importance of each key, then the default."""
    columns: tuple[str, ...]

    def values(self, columns: Sequence[pa.Array], rows: int) -> pa.Array:
        return self.importance.take(pc.index_in(columns[0], self.keys).fill_null(len(self.keys)))


class ImportanceFunction:
    """Importance of the rows of each stream (iJoin, eq. 1)."""

    def __init__(self, by: By, bound: BoundQuery) -> None:
        self._terms: dict[int, _Expression | _Table] = {}
        aliases = bound.query.aliases
        if isinstance(by, str):
            by = {_only_stream(by, bound): by}
        for alias, term in (by or {}).items():
            if alias not in aliases:
                raise QueryError(unknown("stream", alias, aliases))
            self._terms[aliases.index(alias)] = (
                _bind_table(term, alias, bound)
                if isinstance(term, Lookup)
                else _bind_expression(term, alias, bound)
            )

    @property
    def streams(self) -> tuple[int, ...]:
        """Streams whose rows have an importance of their own."""
        return tuple(sorted(self._terms))

    def of(self, view: WindowView, start: int, new: int) -> tuple[Array, int]:
        """Importance of the rows from `start` on, and the number of rows from `new` on without one."""
        term = self._terms[view.stream]
        rows = len(view) - start
        try:
            found = term.values(view.payload(term.columns, start), rows)
            if pat.is_decimal(found.type):
                found = found.cast(pa.float64())
            values = found.to_numpy(zero_copy_only=False).astype(np.float64)
        except Exception:  # some row fails; which one is unknown
            values = np.full(rows, np.nan)
        return values, importance_priority.bound_importance(values, new - start)


def combined(how: str, parts: Sequence[Array]) -> Array:
    """Importance of results from the importances of their rows; eq. 2 is `min`."""
    if how == "mean":
        return reduce(np.add, parts) / len(parts)
    ways = {"min": np.minimum, "max": np.maximum, "sum": np.add, "product": np.multiply}
    return reduce(ways[how], parts)


def _only_stream(text: str, bound: BoundQuery) -> str:
    """The stream that an expression refers to."""
    aliases = sorted({alias for alias, _ in references(_parsed(text, bound))})
    if not aliases:
        raise QueryError(f"{text!r} names no column; write one such as {bound.query.aliases[0]}.price")
    if len(aliases) > 1:
        raise QueryError(
            f"{text!r} refers to the streams {', '.join(aliases)}; give one expression for each, "
            f"such as {{'{aliases[0]}': ..., '{aliases[1]}': ...}}, and how to combine them"
        )
    return aliases[0]


def _bind_expression(text: str, alias: str, bound: BoundQuery) -> _Expression:
    node = _parsed(text, bound)
    others = sorted({a for a, _ in references(node)} - {alias})
    if others:
        raise QueryError(
            f"{text!r} of '{alias}' refers to stream '{others[0]}'; an importance is over the columns of one "
            "stream"
        )
    names = tuple(sorted(name for _, name in references(node)))
    types = {(alias, name): bound.named_schemas[alias].field(name).type for name in names}
    kind = result_type(node, types, bound.functions)
    if not is_number(kind):
        raise QueryError(f"expected a number, got {text!r} of type {kind}")
    return _Expression(alias, node, names, bound.functions)


def _bind_table(table: Lookup, alias: str, bound: BoundQuery) -> _Table:
    schema = bound.named_schemas[alias]
    name = column_name(alias, table.column, schema.names)
    kind = schema.field(name).type
    try:
        keys = pa.array(list(table.values), kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        # Arrow's message names the value, but neither the table nor the type of the column.
        raise QueryError(f"column '{name}' is {kind}, its values cannot be {list(table.values)}") from None
    importance = pa.array([*table.values.values(), table.default], pa.float64())
    return _Table(keys, importance, (name,))


def _parsed(text: str, bound: BoundQuery) -> exp.Expression:
    return resolve(parse(text, list(bound.query.aliases), bound.functions), bound.named_schemas)
