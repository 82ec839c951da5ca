"""GrubJoin Fig. 14: output against the adaptation interval while the rates change.

Rates go from 100 to 150 to 50 rows/s and again, every 8 s; throttle and harvest are chosen anew every
interval, buffers hold 10 rows. An adaptation is charged 1 ms, twice what it takes here for five streams (Fig.
8 to 10); the paper's took 10 ms. The paper does not say whether the streams lag, so both are run.

This is at the paper's own rates: at a quarter of them some forty rows come in half a second, whose chance
work moves the throttle more than the rates do. And the machine is such that the three streams just need no
shedding at 100 rows/s, in the paper's words; on one made for aligned streams, lagging ones would never
shed, and no interval could be better than another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from windrow.lab import grubjoin
from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.grubjoin import ALIGNED, CAPACITY, DEVIATIONS, LAGGING, PAPERS, SCALE, Process, epsilon_run

STEP, RATES = 8.0, (100.0, 150.0, 50.0)
LAGS = {"aligned": ALIGNED, "lagging": LAGGING}
CAPACITIES = {"aligned": CAPACITY * SCALE**2, "lagging": 0.7 * CAPACITY * SCALE**2}
"""Comparisons per second: a little more than three such streams need at 100 rows/s."""
CHARGED = 0.001
INTERVALS = {"full": (0.5, 1.0, 3.0, 5.0, 8.0), "quick": (0.5, 8.0)}
STREAMS = {"full": (3, 4, 5), "quick": (3,)}
KINDS = {"full": ("aligned", "lagging"), "quick": ("aligned",)}
SEEDS = {"full": 2, "quick": 1}
SECONDS = {"full": 72.0, "quick": 40.0}
TICK, WARM = 0.5, 16.0
"""The first 16 s do not count."""


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        **grubjoin.described(scale=1.0),
        "comparisons per second": CAPACITIES,
        "rates": RATES,
        "each for": STEP,
        "intervals": INTERVALS[size],
        "charged for an adaptation": CHARGED,
        "seeds": SEEDS[size],
        "seconds": SECONDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[str, int, float, float, int]]:
    return [
        (kind, m, interval, SECONDS[size], seed)
        for kind in KINDS[size]
        for m in STREAMS[size]
        for interval in INTERVALS[size]
        for seed in range(SEEDS[size])
    ]


def run(task: tuple[str, int, float, float, int]) -> list[Row]:
    kind, m, interval, seconds, seed = task
    steps = tuple((k * STEP, RATES[k % len(RATES)]) for k in range(round(seconds / STEP)))
    process = Process(steps, LAGS[kind][:m], DEVIATIONS[:m], seconds, scale=1.0)
    policy = replace(PAPERS, interval=f"{interval} s", correlations="pairwise", method="knapsack")
    capacity = CAPACITIES[kind] * (1 - CHARGED / interval)
    ran = epsilon_run(process, policy, capacity, seed, TICK)
    return [{"lags": kind, "m": m, "interval": interval, "seed": seed, **ran.row(capacity, WARM)}]


def assess(rows: Sequence[Row]) -> list[Claim]:
    means = average(rows, by=["lags", "m", "interval"], of=["output"])
    claims = []
    for kind, m in sorted({(mean["lags"], mean["m"]) for mean in means}):
        output = {
            mean["interval"]: mean["output"] for mean in means if (mean["lags"], mean["m"]) == (kind, m)
        }
        best = max(output, key=lambda interval: output[interval])
        claims.append(
            Claim(
                "G8",
                f"{m} {kind} streams: a short interval (up to 1 s) is best",
                {f"{interval:g} s": round(each) for interval, each in output.items()},
                best <= 1.0,
            )
        )
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    means = average(rows, by=["lags", "m", "interval"], of=["output"])
    kinds = sorted({mean["lags"] for mean in means})
    for axes, kind in zip(figure.subplots(1, len(kinds), squeeze=False)[0], kinds, strict=True):
        for m in sorted({mean["m"] for mean in means}):
            kept = [mean for mean in means if (mean["lags"], mean["m"]) == (kind, m)]
            axes.plot([k["interval"] for k in kept], [k["output"] for k in kept], "o-", label=f"{m} streams")
        axes.set(
            xlabel="adaptation interval, seconds", ylabel="results per second", title=kind, ylim=(0, None)
        )
        axes.legend()


EXPERIMENT = Experiment("grubjoin-fig14", "How often to adapt", ("G8",), parameters, tasks, run, assess, plot)
