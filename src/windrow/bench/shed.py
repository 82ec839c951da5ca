"""What a memory limit costs: full windows, so that every arriving row forces another out, against no limit.

The same rows in the same batches through the same join: without a limit; under each policy with room for a
fifth of the rows, counted in rows and in bytes; and with room for all, where the machinery has nothing to
shed. A batch brings a fifth of what the memory holds, so that it is one quantum with a limit as without. Runs
with and without a limit take turns, and the fastest of each are compared.

Without a limit the join finds four times as many results (about one a row), and building them is part of its
time, as it is of anyone's who uses it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from windrow.bench.data import batches, streams
from windrow.engine.operator import Operator
from windrow.model.measurements import Measurements
from windrow.model.policies import POLICIES
from windrow.model.query import Query, Stream

SECONDS = 240
SPAN = 60
PART = 0.2
BATCHES_PER_LIMIT = 5
AMPLE = 4.0
REPEATS = 3
GIVEN: dict[str, dict[str, Any]] = {"importance": {"by": "a.k"}, "greedy": {"by": "a.k"}}
"""Of policies that need to be told something."""


@dataclass(frozen=True)
class Run:
    seconds: float
    results: int
    measured: Measurements


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    rows = min(rows // 4, 1_000_000)
    whole = rows * SPAN / SECONDS
    batch = int(PART * whole / BATCHES_PER_LIMIT)
    parts = batches(streams(rows, rows // 10, 2, SECONDS), batch, SECONDS)
    with console.status("without a limit"):
        exact = _fastest([_measure(parts, None) for _ in range(REPEATS)])
    row_bytes = exact.measured.memory_bytes / exact.measured.window_rows
    limits = (
        f"{int(PART * whole)} rows",
        f"{int(PART * whole * row_bytes)} B",
        f"{int(AMPLE * whole)} rows",
    )
    figures = []
    for name in POLICIES:
        with console.status(name):
            in_rows, in_bytes, ample, beside = _compare(parts, name, limits)
        figures.append(
            {
                "policy": name,
                "rows/s": in_rows.measured.rows_in / in_rows.seconds,
                "of the rate without a limit": beside.seconds / in_rows.seconds,
                "limit in bytes": beside.seconds / in_bytes.seconds,
                "room for all": beside.seconds / ample.seconds,
                "rows shed": in_rows.measured.rows_shed,
                "recall": in_rows.results / exact.results,
                "rows watched": in_rows.measured.quality.watched_rows,
            }
        )
    return figures


def _compare(parts: list[dict[str, Any]], name: str, limits: tuple[str, ...]) -> list[Run]:
    """The fastest run under each limit, then without one."""
    turns = [[_measure(parts, limit, name) for limit in (*limits, None)] for _ in range(REPEATS)]
    return [_fastest(list(runs)) for runs in zip(*turns, strict=True)]


def _fastest(runs: list[Run]) -> Run:
    return min(runs, key=lambda run: run.seconds)


def _measure(parts: list[dict[str, Any]], memory: str | None, name: str = "auto") -> Run:
    policy = "auto" if memory is None else POLICIES[name](**GIVEN.get(name, {}))
    query = Query({a: Stream("ts", f"{SPAN} s") for a in "ab"}, "a.k = b.k", memory=memory, shed=policy)
    operator = Operator(query)
    began = time.perf_counter()
    results = sum(operator.process(part).num_rows for part in parts)
    return Run(time.perf_counter() - began, results, operator.measure())
