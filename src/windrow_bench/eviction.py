"""What a memory limit costs: full windows, so that every arriving row forces another out, against no limit.

The same rows in the same batches through the same join: without a limit; under each policy with room for a
fifth of the rows, counted in rows and in bytes; and with room for all, where the machinery has nothing to
shed. A batch brings a fifth of what the memory holds, so that it is one sub-batch with a limit as without.
Runs with and without a limit take turns, those of a turn are compared, and of all turns the middle one
counts: a machine that others use too is fast for some seconds and slow for others.

Without a limit the join finds four times as many results (about one a row), and building them is part of its
time, as it is of anyone's who uses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.console import Console

from windrow.model.policies.parse import POLICIES
from windrow_bench.data import batches, streams
from windrow_bench.measure import TimedRun, timed, window_query

SECONDS = 240
SPAN = 60
PART = 0.2
BATCHES_PER_LIMIT = 5
AMPLE = 4.0
TURNS = 5
GIVEN: dict[str, dict[str, Any]] = {"importance": {"by": "a.k"}, "greedy": {"by": "a.k"}}
"""Settings of policies that need some."""


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    rows = min(rows // 4, 1_000_000)
    whole = rows * SPAN / SECONDS
    batch = int(PART * whole / BATCHES_PER_LIMIT)
    parts = batches(streams(rows, rows // 10, 2, SECONDS), batch, SECONDS)
    with console.status("without a limit"):
        exact = [_measure(parts, None) for _ in range(2)][-1]
    row_bytes = exact.metrics.memory_bytes / exact.metrics.window_rows
    limits = (
        f"{int(PART * whole)} rows",
        f"{int(PART * whole * row_bytes)} B",
        f"{int(AMPLE * whole)} rows",
    )
    figures = []
    for name in POLICIES:
        with console.status(name):
            turns = [_turn(parts, name, limits) for _ in range(TURNS)]
        in_rows, in_bytes, ample = (median(turn.of_its_rate[k] for turn in turns) for k in range(3))
        shed = turns[0].in_rows
        figures.append(
            {
                "policy": name,
                "rows/s": shed.metrics.rows_in / min(turn.in_rows.seconds for turn in turns),
                "of the rate without a limit": in_rows,
                "limit in bytes": in_bytes,
                "room for all": ample,
                "rows shed": shed.metrics.rows_evicted,
                "recall": shed.results / exact.results,
                "rows monitored": shed.metrics.quality.monitored_rows,
            }
        )
    return figures


@dataclass(frozen=True)
class BenchTurn:
    in_rows: TimedRun
    """Under a limit in rows."""
    of_its_rate: tuple[float, ...]
    """Under each limit, the part of the rate without one in the same turn."""


def _turn(parts: list[dict[str, Any]], name: str, limits: tuple[str, ...]) -> BenchTurn:
    """Each limit between two runs without one."""
    free = [_measure(parts, None).seconds]
    limited = []
    for limit in limits:
        limited.append(_measure(parts, limit, name))
        free.append(_measure(parts, None).seconds)
    beside = zip(free[:-1], free[1:], limited, strict=True)
    return BenchTurn(limited[0], tuple((a + b) / 2 / run.seconds for a, b, run in beside))


def _measure(parts: list[dict[str, Any]], memory: str | None, name: str = "auto") -> TimedRun:
    policy = "auto" if memory is None else POLICIES[name](**GIVEN.get(name, {}))
    query = window_query("a.k = b.k", SPAN, memory=memory, shed=policy)
    return timed(query, parts, warm_up=False)
