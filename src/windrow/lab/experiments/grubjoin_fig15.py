"""GrubJoin Fig. 15: rows dropped at the input buffers while the throttle finds its place, by buffer size.

The machine is ample while the windows fill, so the throttle is open; then it has just the time for 100 rows/s
of each stream, and over 20 s it is counted what part of the rows finds its buffer full. The throttle is
adapted every 5 s, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from matplotlib.figure import Figure

from windrow.lab import grubjoin
from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.grubjoin import CAPACITY, LAGGING, PAPERS, SCALE, Process, epsilon_join, run_in_ticks

RATES = {"full": (125.0, 150.0, 200.0), "quick": (200.0,)}
BUFFERS = {"full": (0.1, 0.5, 1.0, 1.5, 2.0), "quick": (0.1, 1.0, 2.0)}
"""Seconds of input."""
SEEDS = {"full": 4, "quick": 2}
FILLED, SECONDS, TICK = 20.0, 40.0, 0.5
AMPLE = 100 * CAPACITY
PAPER = {1.0: 0.3, 2.0: 0.5}


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        **grubjoin.described(),
        "comparisons per second": CAPACITY,
        "rates": RATES[size],
        "buffers, seconds": BUFFERS[size],
        "adaptation interval": "5 s",
        "seeds": SEEDS[size],
        "measured": (FILLED, SECONDS),
    }


def tasks(size: Size) -> Sequence[tuple[float, float, int]]:
    return [(rate, b, seed) for rate in RATES[size] for b in BUFFERS[size] for seed in range(SEEDS[size])]


def run(task: tuple[float, float, int]) -> list[Row]:
    rate, seconds, seed = task
    policy = replace(PAPERS, buffer=round(seconds * rate / SCALE))
    query = epsilon_join(3, TICK, shed=policy, seed=seed)
    tables = Process.steady(rate, LAGGING, seconds=SECONDS).tables(seed)
    ran = run_in_ticks(query, tables, SECONDS, TICK, lambda k: AMPLE if k * TICK < FILLED else CAPACITY)
    came = rate / SCALE * 3 * (SECONDS - FILLED)
    dropped = ran.measured.rows_dropped / came
    return [{"rate": rate, "buffer": seconds, "seed": seed, "dropped": dropped, "output": ran.rate(FILLED)}]


def assess(rows: Sequence[Row]) -> list[Claim]:
    means = average(rows, by=["rate", "buffer"], of=["dropped"])
    lost = {(m["rate"], m["buffer"]): m["dropped"] for m in means}
    buffers = sorted({b for _, b in lost})
    falls = all(
        lost[rate, b] < lost[rate, a]
        for rate in {rate for rate, _ in lost}
        for a, b in pairwise(buffers)
        if lost[rate, a] > 0
    )
    fewer = {b: 1 - lost[200.0, b] / lost[200.0, buffers[0]] for b in PAPER}
    claims = [
        Claim(
            "G9",
            "drops at the input buffers fall with buffer size",
            {f"{rate:g} rows/s, {b:g} s": f"{each:.1%}" for (rate, b), each in lost.items()},
            falls,
        )
    ]
    if len(buffers) > len(BUFFERS["quick"]):  # A few runs are too few to tell by how much.
        claims.append(
            Claim(
                "G9",
                "at 200 rows/s about 30 % fewer (20 or more) with buffers of 1 s, 50 % (40 or more) with 2 s",
                {f"{b:g} s": f"{each:.0%} fewer" for b, each in fewer.items()},
                all(fewer[b] >= about - 0.1 for b, about in PAPER.items()),
            )
        )
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    means = average(rows, by=["rate", "buffer"], of=["dropped"])
    axes = figure.subplots()
    for rate in sorted({m["rate"] for m in means}):
        kept = [m for m in means if m["rate"] == rate]
        axes.plot([m["buffer"] for m in kept], [m["dropped"] for m in kept], "o-", label=f"{rate:g} rows/s")
    axes.set(xlabel="buffer, seconds of input", ylabel="part of the rows dropped", ylim=(0, None))
    axes.legend()


EXPERIMENT = Experiment(
    "grubjoin-fig15", "Drops while the throttle adapts", ("G9",), parameters, tasks, run, assess, plot
)
