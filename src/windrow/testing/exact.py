"""The exact results of a query over small tables, by the oracle's definition and the query's predicate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from windrow.engine.rows import check_time_column
from windrow.errors import Option, QueryError
from windrow.expr.dialect import render
from windrow.expr.evaluate import evaluate, with_nan_as_null
from windrow.expr.parse import conjuncts, parse, references, resolve
from windrow.model.query import Function, Query, Stream
from windrow.testing.oracle import Row, Term, admit, expected, expected_counted

_SOURCE = " source partition"
"""A key of a row that no expression can have, because of the leading space."""
MAX_COMBINATIONS = 5_000_000
"""Maximum of row combinations per condition."""


def exact_answer(query: Query, *steps: Mapping[str, pa.Table]) -> pa.Table:
    """The results of a query without limits, for these tables in these steps.

    It checks every combination of rows, so it is for tests with a few hundred rows per stream. It shares only
    the evaluation of SQL expressions with the join.

    Parameters
    ----------
    query
        Its limits and `on_error` are ignored: an operation that fails is null.
    steps
        The tables of each call of `process` or each micro-batch, by alias. The division into steps only
        decides which rows are late.

    Returns
    -------
    pyarrow.Table
        A struct column per stream, as `Operator.process` returns it.

    Examples
    --------
    >>> import windrow as wr
    >>> query = wr.Query({"a": wr.Stream("at", "5 s"), "b": wr.Stream("at", "5 s")}, on="a.k = b.k")
    >>> a, b = wr.testing.table("at k; 0 1; 9 1"), wr.testing.table("at k; 3 1")
    >>> exact_answer(query, {"a": a, "b": b}).num_rows
    1
    """
    if query.kind.shapes:
        raise QueryError("exact_answer supports inner joins only", Option("how"))
    tables = {alias: _whole(alias, query, steps) for alias in query.aliases}
    rows = {alias: _rows(table, query.streams[alias]) for alias, table in tables.items()}
    schemas = {alias: table.schema for alias, table in tables.items()}
    node = resolve(parse(query.on, list(tables), query.calls), schemas)
    parts = [with_nan_as_null(p) if query.nan == "never" else p for p in conjuncts(node)]
    conditions = _Conditions(tables, rows, query.calls)
    terms = [conditions.term(part) for part in parts]
    found = _combinations(query, steps, rows, [t for t in terms if t is not None]) if all(terms) else []
    numbers = list(zip(*found, strict=True)) or [()] * len(tables)
    columns = [
        pa.StructArray.from_arrays(
            [_plain(column) for column in _taken(table, own).columns], fields=list(table.schema)
        )
        for table, own in zip(tables.values(), numbers, strict=True)
    ]
    return pa.table(dict(zip(tables, columns, strict=True)))


def _whole(alias: str, query: Query, steps: Sequence[Mapping[str, pa.Table]]) -> pa.Table:
    """All rows of a stream, in the order of the steps."""
    given = [step[alias] for step in steps if alias in step]
    if not given:
        raise QueryError(f"there is no table of stream '{alias}'; pass one, even without rows")
    whole = pa.concat_tables([t if isinstance(t, pa.Table) else pa.Table.from_batches([t]) for t in given])
    check_time_column(alias, whole.schema, query.streams[alias].time)
    return whole.combine_chunks()


def _rows(table: pa.Table, stream: Stream) -> list[Row]:
    stamps = table.column(stream.time)
    micros = stamps.cast(pa.timestamp("us", stamps.type.tz)).cast(pa.int64()).to_pylist()
    rows = [{"id": n, "ts": moment} for n, moment in enumerate(micros)]
    if stream.source_partition is not None:
        for row, partition in zip(rows, table.column(stream.source_partition).to_pylist(), strict=True):
            row[_SOURCE] = partition
    return rows


@dataclass(frozen=True)
class _Conditions:
    """Conditions on these tables, evaluated in advance on every combination of their rows."""

    tables: Mapping[str, pa.Table]
    rows: Mapping[str, list[Row]]
    functions: Mapping[str, Function]

    def term(self, part: exp.Expression) -> Term | None:
        """A condition; None if it is a constant that does not hold."""
        aliases = [alias for alias in self.tables if alias in {a for a, _ in references(part)}]
        sizes = [self.tables[alias].num_rows for alias in aliases]
        if prod(sizes) > MAX_COMBINATIONS:
            raise QueryError(
                f"the exact answer takes {prod(sizes):,} combinations of rows; use at most "
                f"{MAX_COMBINATIONS:,}"
            )
        positions = np.indices(sizes).reshape(len(sizes), -1)
        chosen = {a: _taken(self.tables[a], own) for a, own in zip(aliases, positions, strict=True)}
        truth = self._evaluated(part, chosen, prod(sizes))
        if not aliases:
            return Term(render(part), (), lambda bound: True) if truth[0] is True else None

        def holds(bound: Mapping[str, Row]) -> bool | None:
            at = np.ravel_multi_index(tuple(bound[alias]["id"] for alias in aliases), sizes)
            value: bool | None = truth[int(at)]
            return value

        return Term(render(part), tuple(aliases), holds, columns=tuple(self._key(part)))

    def _key(self, part: exp.Expression) -> list[tuple[str, str]]:
        """The join columns of an equality of two streams, stored with the rows."""
        equality = part.unnest()
        sides = [equality.left, equality.right] if isinstance(equality, exp.EQ) else []
        owners = [{alias for alias, _ in references(side)} for side in sides]
        if len(sides) != 2 or any(len(own) != 1 for own in owners) or owners[0] == owners[1]:
            return []
        found = []
        for side, (alias,) in zip(sides, owners, strict=True):
            values = self._evaluated(side, self.tables, self.tables[alias].num_rows)
            for row, value in zip(self.rows[alias], values, strict=True):
                row[render(side)] = value
            found.append((alias, render(side)))
        return found

    def _evaluated(self, node: exp.Expr, tables: Mapping[str, pa.Table], length: int) -> list[Any]:
        columns = {(alias, name): _plain(tables[alias].column(name)) for alias, name in references(node)}
        return list(evaluate(node, columns, length, self.functions).to_pylist())


def _combinations(
    query: Query,
    steps: Sequence[Mapping[str, pa.Table]],
    rows: Mapping[str, list[Row]],
    terms: Sequence[Term],
) -> list[tuple[Any, ...]]:
    calls: list[dict[str, list[Row]]] = []
    taken = dict.fromkeys(rows, 0)
    for step in steps:
        calls.append({a: rows[a][taken[a] : taken[a] + table.num_rows] for a, table in step.items()})
        taken |= {a: taken[a] + table.num_rows for a, table in step.items()}
    admitted = admit(
        calls,
        late=dict(zip(query.aliases, query.watermark_delays, strict=True)),
        idle=query.idle_timeout_us,
        one_clock=query.counts_rows,
        source_partition={a: _SOURCE for a, s in query.streams.items() if s.source_partition is not None},
    )
    windows = {alias: stream.window for alias, stream in query.streams.items()}
    if not query.counts_rows:
        spans = {alias: window.size for alias, window in windows.items()}
        return list(expected({a: admitted.rows(a) for a in rows}, spans, terms).elements())
    sizes = {a: w.size if w.is_time else (w.size, w.kind == "rows per key") for a, w in windows.items()}
    return list(expected_counted(admitted.calls, sizes, terms).elements())


def _taken(table: pa.Table, positions: Sequence[int] | np.ndarray) -> pa.Table:
    return table.take(pa.array(positions, pa.int64())).combine_chunks()


def _plain(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
