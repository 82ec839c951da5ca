"""The plan without the data: what a query will do at stated rates, and what memory it takes.

An operator that has run knows its streams; asked about one, `explain` tells what it has learned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
import pyarrow as pa

from windrow.engine.join import Join
from windrow.engine.observe import statistics
from windrow.engine.operator import Operator
from windrow.engine.planner import make_plan
from windrow.engine.rows import check_time_column, plain_schema
from windrow.engine.shared.grouping import Group, base_query, group
from windrow.engine.shared.ladder import Ladder
from windrow.errors import QueryError, unknown
from windrow.model.limit import MemoryLimit
from windrow.model.plan import Plan
from windrow.model.query import Query
from windrow.model.sharing import Subscription
from windrow.planning.age import AgeCurve
from windrow.planning.allocation import RecallCurve
from windrow.shed.forecast import Known, forecast

TEXT_BYTES = 24
"""Taken for a value whose length the schema does not tell."""
INDEX_BYTES = 12
"""Of a row in a hash index, with room for growing."""
SET_BYTES = 100
"""Of a row's set of some eight elements, by row and by element."""


@dataclass(frozen=True)
class Explanation:
    """A plan, the memory it takes to be exact, and the recall to expect of less; prints itself."""

    plan: Plan
    exact: MemoryLimit
    """What whole windows take."""
    recall: RecallCurve | None
    """Against memory."""
    limit: MemoryLimit | None = None
    """The query's own."""

    def __str__(self) -> str:
        lines = [str(self.plan), f"Memory for an exact answer: about {self.exact}"]
        if self.recall is not None:
            lines += ["Recall against memory:", *(f"  {line}" for line in str(self.recall).splitlines())]
            if self.limit is not None and self.limit.kind == self.recall.unit:
                lines.append(f"  {self.limit} give about {100 * self.recall.at(self.limit.size):.3g} %")
        return "\n".join(lines)


@dataclass(frozen=True)
class SharedExplanation:
    """Which queries share which join, and what each join will do; prints itself."""

    groups: tuple[Group, ...]
    joins: tuple[Explanation, ...]
    """One per group; none where the schemas were not given."""

    def __str__(self) -> str:
        told = [str(group) for group in self.groups]
        if self.joins:
            told = [f"{text}\n{join}" for text, join in zip(told, self.joins, strict=True)]
        if len(told) > 1:
            told.insert(0, f"{len(told)} joins: queries share one only if streams and predicate are the same")
        return "\n".join(told)


@overload
def explain(
    query: Query | Operator,
    schemas: Mapping[str, pa.Schema] | None = None,
    rates: Mapping[str, float] | None = None,
    distinct: Mapping[str, float] | None = None,
    curves: Mapping[str, Sequence[float]] | None = None,
) -> Explanation: ...


@overload
def explain(
    query: Mapping[str, Query | Subscription],
    schemas: Mapping[str, pa.Schema] | None = None,
    rates: Mapping[str, float] | None = None,
    distinct: Mapping[str, float] | None = None,
    curves: Mapping[str, Sequence[float]] | None = None,
) -> SharedExplanation: ...


def explain(
    query: Query | Operator | Mapping[str, Query | Subscription],
    schemas: Mapping[str, pa.Schema] | None = None,
    rates: Mapping[str, float] | None = None,
    distinct: Mapping[str, float] | None = None,
    curves: Mapping[str, Sequence[float]] | None = None,
) -> Explanation | SharedExplanation:
    """What a query will do, and what it needs.

    Parameters
    ----------
    query
        The query; or an operator that has run, which needs nothing else; or several queries by name, as
        `SharedOperator` takes them, which need no schemas to tell who shares a join.
    schemas
        Alias to schema.
    rates
        Rows per second by alias; one each where not given.
    distinct
        Number of distinct values by column, such as {"a.id": 1000}; otherwise taken to be the rows in the
        window. An operator that runs measures both itself.
    curves
        Alias to the results of a row in each of equally long parts of its window, youngest first, for the
        recall against memory; even where not given.
    """
    if isinstance(query, Operator):
        return _learned(query)
    if isinstance(query, Mapping):
        groups = group(query)
        tops = [
            base_query(next(iter(members.values())).query, Ladder.of(s.windows for s in members.values()).top)
            for members in (g.subscriptions for g in groups)
        ]
        joins = [explain(top, schemas, rates, distinct, curves) for top in tops] if schemas else []
        return SharedExplanation(tuple(groups), tuple(joins))
    schemas = schemas or {}
    for alias, stream in query.streams.items():
        if alias not in schemas:
            raise QueryError(f"explain: the schema of stream '{alias}' is missing")
        check_time_column(alias, schemas[alias], stream.time)
    for what, given in (("rates", rates), ("curves", curves)):
        for alias in given or {}:
            if alias not in query.streams:
                raise QueryError(f"{what}: {unknown('stream', alias, query.streams)}")
    join = Join(query, [plain_schema(schemas[alias]) for alias in query.aliases])
    known = [float((rates or {}).get(alias, 1.0)) for alias in query.aliases]
    samples = [{w: np.empty(0) for w in words} for words in join.words]
    stats = statistics(query, join.predicate, join.classes, known, samples, {})
    told = distinct or {}
    classes = tuple(
        {w.stream: told.get(w.sql, max(1.0, stats.streams[w.stream].rows)) for w in members}
        for members in join.classes
    )
    plan = make_plan(query, join.predicate, join.classes, replace(stats, classes=classes))
    costs = [_row_bytes(join, s) for s in range(len(known))]
    exact = MemoryLimit("bytes", max(1, round(sum(r * c for r, c in zip(plan.rows, costs, strict=True)))))
    in_rows = query.limit is not None and query.limit.kind == "rows"
    streams = [
        _assumed(query, alias, rate, rows, 1.0 if in_rows else cost, (curves or {}).get(alias), curves)
        for alias, rate, rows, cost in zip(query.aliases, known, plan.rows, costs, strict=True)
    ]
    return Explanation(plan, exact, forecast(streams, "rows" if in_rows else "bytes"), query.limit)


def _learned(operator: Operator) -> Explanation:
    if operator.plan is None:
        raise QueryError("explain: this operator has not seen all its streams yet; process some rows first")
    measured, recall = operator.measure(), operator.forecast()
    held = max(1, measured.window_rows)
    exact = MemoryLimit("bytes", max(1, round(sum(operator.plan.rows) * measured.memory_bytes / held)))
    if recall is not None and recall.unit == "bytes":
        exact = MemoryLimit("bytes", max(1, round(recall.memory[-1])))
    return Explanation(operator.plan, exact, recall, operator.query.limit)


def _assumed(
    query: Query,
    alias: str,
    rate: float,
    rows: float,
    cost: float,
    curve: Sequence[float] | None,
    curves: Mapping[str, Sequence[float]] | None,
) -> Known:
    """A stream as it was described. Where some curves are given, the streams without one find nothing."""
    window = query.streams[alias].window
    span = window.size / 1e6 if window.is_time else max(rows / max(rate, 1e-9), 1e-9)
    given = tuple(curve) if curve is not None else ((1.0,) if curves is None else (0.0,))
    one = np.ones(1)
    return Known(AgeCurve(given, span / len(given)), rate, cost, one, one)


def _row_bytes(join: Join, stream: int) -> float:
    """A row in its window: payload, time, words and index."""
    payload = sum(_width(field.type) for field in join.schemas[stream])
    sets = SET_BYTES * len(join.sets[stream])
    return payload + 8 * (1 + len(join.words[stream]) + len(join.notes)) + INDEX_BYTES + sets


def _width(kind: pa.DataType) -> float:
    try:
        return kind.bit_width / 8
    except ValueError:
        return TEXT_BYTES
