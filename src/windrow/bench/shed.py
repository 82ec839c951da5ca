"""What a memory limit costs: full windows, so that every arriving row forces another out, against no limit.

The same rows through the same join, without a limit and under each policy with room for a fifth of the rows;
and with room for all, where the machinery has nothing to shed.
"""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console

from windrow.bench.data import batches, streams
from windrow.engine.operator import Operator
from windrow.model.policies import POLICIES
from windrow.model.policy import Policy
from windrow.model.query import Query, Stream

SECONDS = 240
SPAN = 60
PART = 0.2
REPEATS = 2
GIVEN: dict[str, dict[str, Any]] = {"importance": {"by": "a.k"}, "greedy": {"by": "a.k"}}
"""Of policies that need to be told something."""


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    rows = min(rows // 4, 1_000_000)
    parts = batches(streams(rows, rows // 10, 2, SECONDS), rows // 60, SECONDS)
    whole = rows * SPAN / SECONDS
    with console.status("without a limit"):
        exact = _measure(parts, None, None)
    figures = [_figures("no limit", exact, exact)]
    with console.status("auto, room for all"):
        ample = f"{int(4 * whole)} rows"
        figures.append(_figures("auto, room for all", _measure(parts, ample, POLICIES["auto"]()), exact))
    for name, kind in POLICIES.items():
        with console.status(name):
            made = kind(**GIVEN.get(name, {}))
            figures.append(_figures(name, _measure(parts, f"{int(PART * whole)} rows", made), exact))
    return figures


def _measure(parts: list[dict[str, Any]], memory: str | None, policy: Policy | None) -> dict[str, float]:
    best: dict[str, float] = {}
    for _ in range(REPEATS):
        query = Query(
            {a: Stream("ts", f"{SPAN} s") for a in "ab"}, "a.k = b.k", memory=memory, shed=policy or "auto"
        )
        operator = Operator(query)
        began = time.perf_counter()
        results = sum(operator.process(part).num_rows for part in parts)
        seconds = time.perf_counter() - began
        measured = operator.measure()
        if not best or seconds < best["seconds"]:
            best = {
                "seconds": seconds,
                "rows": measured.rows_in,
                "results": results,
                "shed": measured.rows_shed,
                "window": measured.window_rows,
                "watched": measured.quality.watched_rows,
            }
    return best


def _figures(name: str, ours: dict[str, float], exact: dict[str, float]) -> dict[str, Any]:
    return {
        "policy": name,
        "rows/s": ours["rows"] / ours["seconds"],
        "of the rate without a limit": exact["seconds"] / ours["seconds"],
        "window rows": ours["window"],
        "rows shed": ours["shed"],
        "recall": ours["results"] / exact["results"],
        "rows watched": ours["watched"],
    }
