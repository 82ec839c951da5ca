"""Shared s. 2.2: isolation. The operator itself, seven queries of Table 1 under a tight deadline, each
compared with itself alone, row by row and in order, while another query comes and goes beside it.

Windows are scaled down by 20. The deadline lets about a third of the work be done in each call, by a clock on
which every look takes a second, so that rows are carried over under every schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

import windrow as wr
from windrow_lab.experiment import Claim, Row
from windrow_lab.shared import MIXES, SCHEDULES, VALUES
from windrow_lab.sweep import swept

SCALE = 20
ROWS_PER_CALL = 200


def measure(mix: str, schedule: str, calls: int) -> list[Row]:
    """A row for each query."""
    queries, data, alone = _alone(mix, calls)
    now = [0.0]

    def clock() -> float:
        now[0] += 1
        return now[0]

    op = wr.SharedOperator(queries, schedule, deadline="300 ms", max_backlog=10**9, clock=clock)
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in queries}
    behind = 0
    for n, call in enumerate(data):
        if n == calls // 3:
            op.add("guest", _query(700))
        if n == 2 * calls // 3:
            op.remove("guest")
        out = op.process(call)
        behind = max(behind, max(q.backlog_rows for q in op.metrics().queries.values()))
        for name in queries:
            found[name] += _pairs(out[name])
    out = op.finish()
    return [
        {
            "query": name,
            "results": len(alone[name]),
            "same": found[name] + _pairs(out[name]) == alone[name],
            "rows behind": behind,
        }
        for name in queries
    ]


@lru_cache(maxsize=1)
def _alone(mix: str, calls: int) -> tuple[dict[str, wr.Query], list[dict[str, pa.Table]], dict[str, list]]:
    """The queries of a mix, what they are fed, and what each gets alone: the same for every schedule."""
    queries = {f"q{k}": _query(w) for k, w in enumerate(MIXES[mix])}
    data = [_call(n) for n in range(calls)]
    alone = {name: _ids(wr.SharedOperator({name: q}), data, name) for name, q in queries.items()}
    return queries, data, alone


def _query(window: float) -> wr.Query:
    return wr.Query(
        {a: wr.Stream("ts", f"{window / SCALE} s") for a in "ab"}, "a.k = b.k", evaluate="every 100 rows"
    )


def _call(number: int) -> dict[str, pa.Table]:
    random = np.random.default_rng(number)
    found = {}
    for side, alias in enumerate("ab"):
        times = np.sort(random.integers(number * 1_000_000, (number + 1) * 1_000_000, ROWS_PER_CALL // 2))
        ids = (np.arange(ROWS_PER_CALL // 2) + number * ROWS_PER_CALL) * 2 + side
        keys = random.integers(0, VALUES // 10, len(times))
        found[alias] = pa.table({"ts": pa.array(times, pa.timestamp("us")), "k": keys, "id": ids})
    return found


def _ids(op: wr.SharedOperator, data: Sequence[dict[str, pa.Table]], name: str) -> list[tuple[int, int]]:
    return [pair for call in data for pair in _pairs(op.process(call)[name])] + _pairs(op.finish()[name])


def _pairs(table: pa.Table) -> list[tuple[int, int]]:
    columns = (table.column(alias).combine_chunks().field("id").to_pylist() for alias in "ab")
    return list(zip(*columns, strict=True)) if table.num_rows else []


def assess(rows: Sequence[Row]) -> list[Claim]:
    by = {s: [r for r in rows if r["schedule"] == s] for s in SCHEDULES}
    return [
        Claim(
            "S7",
            "each query's results are those it gets alone, in the same order, while another comes and goes",
            {s: f"{sum(r['same'] for r in mine)} of {len(mine)}" for s, mine in by.items()},
            all(r["same"] for r in rows),
        ),
        Claim(
            "S7",
            "and rows really were carried over, under every schedule",
            {s: max(r["rows behind"] for r in mine) for s, mine in by.items()},
            all(any(r["rows behind"] > 0 for r in mine) for mine in by.values())
            and any(r["results"] > 100 for r in rows),
        ),
    ]


def plot(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    for k, schedule in enumerate(SCHEDULES):
        most = [
            max(r["rows behind"] for r in rows if (r["mix"], r["schedule"]) == (m, schedule)) for m in MIXES
        ]
        axes.bar([x + 0.27 * k for x in range(len(MIXES))], most, 0.27, label=schedule)
    axes.set_xticks([x + 0.27 for x in range(len(MIXES))], list(MIXES))
    axes.set_ylabel("most rows carried over; every output as if alone")
    axes.legend()


EXPERIMENT = swept(
    "shared-isolation",
    "Each query as if it were alone",
    ("S7",),
    measure,
    full={"mix": tuple(MIXES), "schedule": SCHEDULES, "calls": 60},
    quick={"calls": 6},
    assess=assess,
    plot=plot,
    fixed={"windows": f"Table 1, in units of {1 / SCALE:g} s", "rows a call": ROWS_PER_CALL},
)
