"""Deadlines in real time: streams that come two, four and eight times as fast as the machine can join them.

GrubJoin's three streams (s. 6.2), whose values rise with time and which lag behind each other, in an epsilon
join by nested loops. A call brings half a second of each stream and may take half a second. First the rate is
found at which exact calls take just that; then the streams come at multiples of it, and harvesting is put
beside dropping rows. Before, with ample time, what the machinery costs when nothing is shed: against a join
without a deadline that takes the same rows at once and probes in the same orders, and against one left to
itself. The latter takes larger quanta, and orders by how often rows match at all; under a deadline it is seen
how often they match when they are new, which where streams lag makes for better orders.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from windrow.engine.operator import Operator
from windrow.model.query import Query, Stream

SPAN, TICK, SECONDS = 5.0, 0.5, 15.0
LAGS, NOISE = (0.0, 1.25, 3.75), (2.0, 2.0, 50.0)
NEAR = 1.0
"""How near values must be to match."""
WARM_UP = 12
"""Calls until windows are full and the throttle has settled."""
FACTORS = (2, 4, 8)
QUANTA, TURNS = 4, 3
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


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    seconds = SECONDS if rows >= ROWS_FOR_FULL_SIZE else 8.0
    with console.status("finding the rate that the machine can handle"):
        base = sustainable()
    with console.status("what a deadline costs while there is time for everything"):
        cost = _idle(base / 2, seconds)
    for name, ratio in cost.items():
        console.print(f"{name} = {ratio:.3f}")
    figures = []
    for factor in FACTORS if rows >= ROWS_FOR_FULL_SIZE else FACTORS[:1]:
        with console.status(f"{factor} times {base:,.0f} rows/s a stream"):
            figures.append(_overload(factor, base, seconds) | cost)
    return figures


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


def _play(query: Query, parts: list[dict[str, pa.Table]]) -> tuple[list[int], list[float], Operator]:
    operator, found, spent = Operator(query), [], []
    for part in parts:
        began = time.perf_counter()
        found.append(operator.process(part).num_rows)
        spent.append(time.perf_counter() - began)
    return found, spent, operator


def _overload(factor: int, base: float, seconds: float) -> dict[str, Any]:
    parts = calls(factor * base, seconds)
    deadline = f"{TICK} s"
    harvested, spent, operator = _play(_query(deadline=deadline, shed="harvest"), parts)
    dropped, slow, _ = _play(_query(deadline=deadline, shed="drop"), parts)
    measured, after = operator.measure(), slice(min(WARM_UP, len(parts) // 2), None)
    return {
        "case": f"{factor}x",
        "rows/s a stream": factor * base,
        "slowest call : deadline": max(spent[after]) / TICK,
        "calls past 1.2 x deadline": sum(s > 1.2 * TICK for s in spent[after]),
        "throttle": measured.throttle,
        "recall": measured.recall,
        "harvested : dropped": sum(harvested[after]) / max(sum(dropped[after]), 1),
        "slowest when dropping : deadline": max(slow[after]) / TICK,
    }


def _idle(rate: float, seconds: float) -> dict[str, float]:
    """What an ample deadline costs against none; runs take turns, and the fastest of each counts."""
    parts = calls(rate, seconds)
    _, _, learned = _play(_query(deadline="1 hour"), parts)
    assert learned.plan is not None
    rows = round(3 * rate * TICK / QUANTA)
    alike: dict[str, Any] = {"evaluate": f"{rows} rows", "order": learned.plan.orders}
    queries = {
        "ample": _query(deadline="1 hour"),
        "none": _query(),
        "ample, alike": _query(deadline="1 hour", **alike),
        "none, alike": _query(**alike),
    }
    spent = dict.fromkeys(queries, math.inf)
    for _ in range(TURNS):
        for name, query in queries.items():
            spent[name] = min(spent[name], sum(_play(query, parts)[1]))
    return {
        "ample deadline : none, quanta and orders alike": spent["ample, alike"] / spent["none, alike"],
        "ample deadline : none, each left to itself": spent["ample"] / spent["none"],
    }
