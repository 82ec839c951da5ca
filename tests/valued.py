"""Streams whose rows have an importance, joins of them under a memory limit, and a look inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr
from windrow.engine.operator import runner_of
from windrow.eviction.policies.row_importance import RowImportance
from windrow.eviction.ranking import Ranking
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.importance import By, Importance

SECOND = 1_000_000
SPAN = 20
PLAIN: Any = {"split": "equal", "monitor_fraction": 0.0}
IJOIN = Importance(maturity="1 second", unproductive="3 seconds", penalty=2.0, decay=0.1, **PLAIN)


def feeds(aliases: str, rows: int, keys: int = 6, seed: int = 0, start: int = 0) -> dict[str, pa.Table]:
    """Rows of each stream at random times, about one a second, each with an importance of its own."""
    rng = np.random.default_rng(seed)
    tables = {}
    for alias in aliases:
        ts = start * SECOND + np.sort(rng.integers(0, rows * SECOND, rows))
        key = (keys * rng.random(rows) ** 2).astype(np.int64)
        columns = {"ts": pa.array(ts, pa.timestamp("us")), "k": key, "imp": rng.uniform(1, 100, rows)}
        tables[alias] = pa.table(columns)
    return tables


def query(
    aliases: str, memory: int | None, shed: MemoryPolicy, within: int = SPAN, **more: object
) -> wr.Query:
    streams = {alias: wr.Stream("ts", f"{within} seconds") for alias in aliases}
    on = " and ".join(f"{aliases[0]}.k = {alias}.k" for alias in aliases[1:])
    limit = None if memory is None else f"{memory} rows"
    return wr.Query(streams, on=on, memory=limit, shed=shed, **more)


def by(aliases: str) -> By:
    return {alias: f"{alias}.imp" for alias in aliases}


def timed(columns: dict[str, list[Any]]) -> pa.Table:
    """A table with `ts` given in seconds."""
    return pa.table(columns | {"ts": pa.array([int(t * SECOND) for t in columns["ts"]], pa.timestamp("us"))})


def every_second(seconds: int) -> dict[str, pa.Table]:
    table = timed({"ts": list(range(seconds)), "k": [0] * seconds, "imp": [1.0] * seconds})
    return {"a": table, "b": table}


def held(operator: wr.Operator, alias: str) -> pa.Table:
    join = runner_of(operator).join
    assert join is not None
    return join.windows[list(operator.query.streams).index(alias)].live_payload()


def ranking(operator: wr.Operator) -> Ranking:
    join = runner_of(operator).join
    assert join is not None and join.evictor is not None
    return join.evictor.ranking


def importance(operator: wr.Operator) -> RowImportance:
    found = ranking(operator).importance
    assert found is not None
    return found


def view(operator: wr.Operator, stream: int) -> Any:
    join = runner_of(operator).join
    assert join is not None and join.evictor is not None
    return join.evictor._view(join.windows, stream)
