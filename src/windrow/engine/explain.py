"""The plan without the data: what a query will do at stated rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from windrow.engine.join import Join
from windrow.engine.observe import statistics
from windrow.engine.planner import make_plan
from windrow.engine.rows import check_time_column, plain_schema
from windrow.errors import QueryError, unknown
from windrow.model.plan import Plan
from windrow.model.query import Query


def explain(
    query: Query,
    schemas: Mapping[str, pa.Schema],
    rates: Mapping[str, float] | None = None,
    distinct: Mapping[str, float] | None = None,
) -> Plan:
    """The plan for a query whose streams have these schemas.

    Parameters
    ----------
    rates
        Rows per second by alias; one each where not given.
    distinct
        Number of distinct values by column, such as {"a.id": 1000}; otherwise taken to be the rows in the
        window. An operator that runs measures both itself: see its `plan`.
    """
    for alias, stream in query.streams.items():
        if alias not in schemas:
            raise QueryError(f"explain: the schema of stream '{alias}' is missing")
        check_time_column(alias, schemas[alias], stream.time)
    for alias in rates or {}:
        if alias not in query.streams:
            raise QueryError(f"rates: {unknown('stream', alias, query.streams)}")
    join = Join(query, [plain_schema(schemas[alias]) for alias in query.aliases])
    known = [float((rates or {}).get(alias, 1.0)) for alias in query.aliases]
    samples = [{w: np.empty(0) for w in words} for words in join.words]
    stats = statistics(query, join.predicate, join.classes, known, samples, {})
    told = distinct or {}
    classes = tuple(
        {w.stream: told.get(w.sql, max(1.0, stats.streams[w.stream].rows)) for w in members}
        for members in join.classes
    )
    return make_plan(query, join.predicate, join.classes, replace(stats, classes=classes))
