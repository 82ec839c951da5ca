"""GrubJoin Fig. 11: output against input rates, aligned streams and streams that lag (0, 5 and 15 s).

The machine is just fast enough for aligned streams of 100 rows/s. Run are RandomDrop, our harvest (throttled
by quanta, optimal fractions, lags by pair) and the paper's (throttled every 5 s, buffers of 10 rows,
double-sided greedy, lags by stream), each as the operator has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from windrow.lab import grubjoin
from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.grubjoin import CAPACITY, POLICIES, Process, epsilon_run

RATES = {"full": (50.0, 100.0, 150.0, 200.0, 250.0), "quick": (50.0, 200.0)}
SEEDS = {"full": 2, "quick": 1}
SECONDS = {"full": 60.0, "quick": 32.0}
LAGS = {"aligned": grubjoin.ALIGNED, "lagging": grubjoin.LAGGING}
PAPER = {"aligned": 0.65, "lagging": 1.5}
AMPLE = 75.0
"""Up to this rate nothing needs shedding, in any second."""


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        **grubjoin.described(),
        "comparisons per second": CAPACITY,
        "rates": RATES[size],
        "seeds": SEEDS[size],
        "seconds": SECONDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[str, str, float, float, int]]:
    return [
        (streams, policy, rate, SECONDS[size], seed)
        for streams in LAGS
        for policy in POLICIES
        for rate in RATES[size]
        for seed in range(SEEDS[size])
    ]


def run(task: tuple[str, str, float, float, int]) -> list[Row]:
    streams, policy, rate, seconds, seed = task
    process = Process.steady(rate, LAGS[streams], seconds=seconds)
    ran = epsilon_run(process, POLICIES[policy], seed=seed)
    return [{"streams": streams, "policy": policy, "rate": rate, "seed": seed, **ran.row(CAPACITY)}]


def assess(rows: Sequence[Row]) -> list[Claim]:
    means = average(rows, by=["streams", "policy", "rate"], of=["output"])
    output = {(m["streams"], m["policy"], m["rate"]): m["output"] for m in means}
    rates = sorted({m["rate"] for m in means})
    claims = []
    for streams in LAGS:
        gains = {
            policy: {r: output[streams, policy, r] / output[streams, "drop", r] - 1 for r in rates}
            for policy in POLICIES
            if policy != "drop"
        }
        for policy, gain in gains.items():
            equal = all(abs(gain[r]) < 1e-9 for r in rates if r <= AMPLE)
            loaded = [gain[r] for r in rates if r >= 150]
            claims.append(
                Claim(
                    "G5",
                    f"{streams}, {policy}: equal to RandomDrop while nothing needs shedding, then ahead, by "
                    f"{PAPER[streams]:.0%} or more at the highest rates",
                    {f"{r:g} rows/s": f"{each:+.0%}" for r, each in gain.items()},
                    equal and min(loaded) > 0 and max(loaded) >= PAPER[streams],
                )
            )
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    means = average(rows, by=["streams", "policy", "rate"], of=["output"])
    for axes, streams in zip(figure.subplots(1, 2, sharey=True), LAGS, strict=True):
        for policy in POLICIES:
            kept = [m for m in means if (m["streams"], m["policy"]) == (streams, policy)]
            axes.plot([m["rate"] for m in kept], [m["output"] for m in kept], "o-", label=policy)
        axes.set(xlabel="rows per second, each stream", title=streams)
    figure.axes[0].set_ylabel("results per second")
    figure.axes[0].legend()


EXPERIMENT = Experiment(
    "grubjoin-fig11", "Harvests and RandomDrop as rates rise", ("G5",), parameters, tasks, run, assess, plot
)
