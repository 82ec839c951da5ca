"""Deadlines of parts and multiples of what an exact call takes: recall, late calls, the reported interval.

For each join the exact calls are timed by the processor's clock; then the same rows come under deadlines of a
quarter to one and a half times their median. Bars: a recall of 0.8 x for a deadline of x < 1 where streams do
not lag, 0.99 from 1.2 on. The optimum beside it takes what the same calls need with hardly any rows for what
no plan can save, and the rest to be saved in proportion to the results. `overload` plays GrubJoin's
three lagging streams (s. 6.2) at multiples of the rate that one process can handle, which is found here.
"""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from windrow.engine.operator import Operator
from windrow.model.query import Query, Stream
from windrow_bench.deadline_cases import CASES, DeadlineCase

SPAN, TICK = 5.0, 0.5
LAGS, NOISE = (0.0, 1.25, 3.75), (2.0, 2.0, 50.0)
NEAR = 1.0
"""How near values must be to match."""
FACTORS = (2, 4, 8)
PARTS_ALLOWED = (0.25, 0.5, 0.8, 1.2, 1.5)
CALLS, CALLS_WARM = 60, 25
"""Calls of a run, and those until windows are full and costs are known, which do not count."""
THINNED = 64
"""Of so many rows one is left, to see what a call takes whatever is in it."""
ROWS_FOR_FULL_SIZE = 1_000_000


def calls(rate: float, seconds: float, seed: int = 1, tick: float = TICK) -> list[dict[str, pa.Table]]:
    rng = np.random.default_rng(seed)
    found: list[dict[str, pa.Table]] = [{} for _ in range(round(seconds / tick))]
    for alias, lag, noise in zip("abc", LAGS, NOISE, strict=True):
        times = np.sort(rng.uniform(0, seconds, round(rate * seconds)))
        values = (80 * (times + lag) + noise * rng.standard_normal(len(times))) % 4000
        ends = np.searchsorted(times, np.arange(len(found) + 1) * tick)
        for part, begin, end in zip(found, ends[:-1], ends[1:], strict=True):
            ts = pa.array((times[begin:end] * 1e6).astype(np.int64), pa.timestamp("us"))
            part[alias] = pa.table({"ts": ts, "v": values[begin:end]})
    return found


def run(rows: int, console: Console, case: str | None = None) -> list[dict[str, Any]]:
    figures = []
    for each in CASES:
        for size in each.rows if rows >= ROWS_FOR_FULL_SIZE else each.rows[:1]:
            name = f"{each.name}, {size:,} rows"
            if case is not None and case not in name:
                continue
            with console.status(f"{name} a call"):
                figures += parts_of_exact(each, size)
            for line in figures[-len(PARTS_ALLOWED) :]:
                console.print(
                    f"{line['case']}: recall {line['recall']:.3f} (bar {line['bar']:.2f}, about "
                    f"{line['optimum']:.2f}), reported {line['reported']}, "
                    f"over {line['calls past 1.2 x deadline']:g}"
                )
    missed = [line for line in figures if line["recall"] < line["bar"]]
    beyond = sum(line["optimum"] < line["bar"] for line in missed)
    console.print(
        f"{len(missed)} of {len(figures)} cells miss their bar; in {beyond} of these so does the optimum"
    )
    return figures


def parts_of_exact(case: DeadlineCase, rows: int) -> list[dict[str, Any]]:
    """The recall at deadlines of parts and multiples of the median exact call, on the processor's clock."""
    calls, after = case.calls(rows, CALLS, seed=1), slice(CALLS_WARM, None)
    clocked(case.query(), calls[:CALLS_WARM])  # compiles
    exact, spent, _ = clocked(case.query(), calls)
    _, ample, _ = clocked(case.query(deadline="1 hour"), calls)
    whole = float(np.median(spent[after]))
    least = [
        {alias: table.take(np.arange(0, len(table), THINNED)) for alias, table in c.items()} for c in calls
    ]
    floor = float(np.median(clocked(case.query(), least)[1][after]))
    found = []
    for part in PARTS_ALLOWED:
        results, took, operator = clocked(case.query(deadline=f"{part * whole * 1e6:.0f} us"), calls)
        metrics = operator.metrics()
        recall = results[after].sum() / max(exact[after].sum(), 1)
        total = results.sum() / max(exact.sum(), 1)
        found.append(
            {
                "case": f"{case.name}, {rows:,} rows, {part:g}x",
                "exact call, ms": 1e3 * whole,
                "recall": float(recall),
                "bar": 0.8 * part if part < 1 else 0.99,
                "floor, ms": 1e3 * floor,
                "optimum": min(1.0, max(0.0, (part * whole - floor) / max(whole - floor, 1e-9))),
                "calls past 1.2 x deadline": int((took[after] > 1.2 * part * whole).sum()),
                "reported": f"{metrics.recall:.3f} [{metrics.recall_low:.3f}, {metrics.recall_high:.3f}]",
                "of the whole run": float(total),
                "inside": str(bool(metrics.recall_low - 1e-9 <= total <= metrics.recall_high + 1e-9)),
                "rows dropped": metrics.rows_dropped / metrics.rows_in,
                "ample : none": float(ample[after].sum() / spent[after].sum()),
            }
        )
    return found


def clocked(query: Query, calls: list[dict[str, pa.Table]]) -> tuple[np.ndarray, np.ndarray, Operator]:
    """Results and processor seconds of each call."""
    clock = time.process_time
    operator, found, spent = Operator(query, clock=clock), [], []
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # that there is no time to take rows in is in the figures
        for call in calls:
            began = clock()
            found.append(operator.process(call).num_rows)
            spent.append(clock() - began)
    return np.array(found), np.array(spent), operator


def predicate(near: float = NEAR) -> str:
    return " and ".join(f"abs({i}.v - {j}.v) <= {near:g}" for i, j in ("ab", "ac", "bc"))


def _query(near: float = NEAR, **limits: Any) -> Query:
    return Query({alias: Stream("ts", f"{SPAN} s", "scan") for alias in "abc"}, predicate(near), **limits)


def sustainable(near: float = NEAR) -> float:
    """Rows per second and stream for which an exact call takes as long as its rows take to come."""
    rate, taken, before = 100.0, 0.0, (0.0, 0.0)
    while taken < TICK:
        before, rate = (rate, taken), rate * 1.5
        operator = Operator(_query(near))
        spent = []
        for part in calls(rate, SPAN + 4 * TICK):
            began = time.perf_counter()
            operator.process(part)
            spent.append(time.perf_counter() - began)
        taken = float(np.median(spent[-4:]))
    if before[1] == 0.0:
        return rate
    steep = math.log(taken / before[1]) / math.log(rate / before[0])
    return float(before[0] * (TICK / before[1]) ** (1 / max(steep, 0.1)))
