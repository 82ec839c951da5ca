"""GrubJoin Fig. 15: rows dropped at the input buffers while the throttle finds its place, by buffer size.

The machine is ample while the windows fill, so the throttle is open; then it has just the time for 100 rows/s
of each stream, and over 20 s it is counted what part of the rows finds its buffer full. The throttle is
adapted every 5 s, as in the paper.

A variant, which no claim is judged by, is 200 rows/s on a faster machine: one on which without a buffer about
15 % of the rows are dropped, of which what a buffer of 1 s holds, 5 % of the rows of 20 s, is about a third.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
from matplotlib.figure import Figure

from windrow.engine.operator import Operator
from windrow.lab import grubjoin
from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.grubjoin import CAPACITY, LAGGING, PAPERS, SCALE, Process, epsilon_join, run_in_ticks

RATES = {"full": (125.0, 150.0, 200.0), "quick": (200.0,)}
BUFFERS = {"full": (0.1, 0.5, 1.0, 1.5, 2.0), "quick": (0.1, 1.0, 2.0)}
"""Seconds of input."""
SEEDS = {"full": 8, "quick": 2}
FILLED, SECONDS, TICK, INTERVAL = 20.0, 40.0, 0.5, 5.0
AMPLE = 100 * CAPACITY
JUDGED, FASTER = 1.0, 1.65
"""Machines: of the claim, and of the variant."""
PAPER = {1.0: 0.3, 2.0: 0.5}


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        **grubjoin.described(),
        "comparisons per second": CAPACITY,
        "a variant at 200 rows/s, times as fast": FASTER,
        "rates": RATES[size],
        "buffers, seconds": BUFFERS[size],
        "adaptation interval": f"{INTERVAL:g} s",
        "seeds": SEEDS[size],
        "measured": (FILLED, SECONDS),
    }


def tasks(size: Size) -> Sequence[tuple[float, float, float, int]]:
    points = [(JUDGED, rate) for rate in RATES[size]] + [(FASTER, 200.0)] * (size == "full")
    return [(*point, b, seed) for point in points for b in BUFFERS[size] for seed in range(SEEDS[size])]


def run(task: tuple[float, float, float, int]) -> list[Row]:
    faster, rate, seconds, seed = task
    policy = replace(PAPERS, buffer=round(seconds * rate / SCALE))
    query = epsilon_join(3, TICK, shed=policy, seed=seed)
    tables = Process.steady(rate, LAGGING, seconds=SECONDS).tables(seed)
    speed = faster * CAPACITY
    dropped: list[int] = []
    """Up to the end of each tick."""

    def count(tick: int, operator: Operator, output: pa.Table) -> None:
        dropped.append(operator.metrics().rows_dropped)

    ran = run_in_ticks(query, tables, SECONDS, TICK, lambda k: AMPLE if k * TICK < FILLED else speed, count)
    came = rate / SCALE * 3
    adapted = round((FILLED + INTERVAL) / TICK)
    point = {"faster": faster, "rate": rate, "buffer": seconds, "seed": seed}
    return [
        point
        | {
            "dropped": dropped[-1] / came / (SECONDS - FILLED),
            "dropped before it adapts": dropped[adapted - 1] / came / INTERVAL,
            "dropped after": (dropped[-1] - dropped[adapted - 1]) / came / (SECONDS - FILLED - INTERVAL),
            "held after": float(ran.held[adapted:].mean()),
            "output": ran.rate(FILLED),
        }
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    lost = _lost(rows, JUDGED)
    buffers = sorted({b for _, b in lost})
    falls = all(
        lost[rate, b] < lost[rate, a]
        for rate in {rate for rate, _ in lost}
        for a, b in pairwise(buffers)
        if lost[rate, a] > 0
    )
    claims = [
        Claim(
            "G9",
            "drops at the input buffers fall with buffer size",
            {f"{rate:g} rows/s, {b:g} s": f"{each:.1%}" for (rate, b), each in lost.items()},
            falls,
        )
    ]
    if len(buffers) > len(BUFFERS["quick"]):  # A few runs are too few to tell by how much.
        variant = _lost(rows, FASTER)
        dropped = f"variant, {variant[200.0, buffers[0]]:.1%} dropped without a buffer"
        claims.append(
            Claim(
                "G9",
                "at 200 rows/s about 30 % fewer (20 or more) with buffers of 1 s, 50 % (40 or more) with 2 s",
                {f"{b:g} s": f"{each:.0%} fewer" for b, each in _fewer(lost).items()}
                | {f"{dropped}: {b:g} s": f"{each:.0%} fewer" for b, each in _fewer(variant).items()},
                all(_fewer(lost)[b] >= about - 0.1 for b, about in PAPER.items()),
            )
        )
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    for faster in sorted({row["faster"] for row in rows}):
        lost = _lost(rows, faster)
        for rate in sorted({rate for rate, _ in lost}):
            kept = {b: each for (r, b), each in lost.items() if r == rate}
            name = f"{rate:g} rows/s" + ("" if faster == JUDGED else f", machine {faster:g} times as fast")
            axes.plot(list(kept), list(kept.values()), "o-" if faster == JUDGED else "o--", label=name)
    axes.set(xlabel="buffer, seconds of input", ylabel="part of the rows dropped", ylim=(0, None))
    axes.legend()


def _lost(rows: Sequence[Row], faster: float) -> dict[tuple[float, float], float]:
    """By rate and buffer the part of the rows that was dropped, on one of the machines."""
    kept = [row for row in rows if row["faster"] == faster]
    return {
        (m["rate"], m["buffer"]): m["dropped"] for m in average(kept, by=["rate", "buffer"], of=["dropped"])
    }


def _fewer(lost: Mapping[tuple[float, float], float]) -> dict[float, float]:
    """What buffers save of the drops at 200 rows/s."""
    least = min(b for _, b in lost)
    return {b: 1 - lost[200.0, b] / lost[200.0, least] for b in PAPER}


EXPERIMENT = Experiment(
    "grubjoin-fig15", "Drops while the throttle adapts", ("G9",), parameters, tasks, run, assess, plot
)
