"""Why harvests gain more over RandomDrop here than in GrubJoin's Fig. 11: there, building results took time.

Comparisons alone cost time in the paper's model and in the runs of Fig. 11. A harvest builds several times as
many results as are left after dropping rows; on a machine where that takes time it has less left for looking.
So the points of Fig. 11 at 200 rows/s are run again while a result costs as much as so many comparisons. The
machine is faster by what the results of aligned streams of 100 rows/s cost, so that it is still just fast
enough for these. Policies are not informed: the throttle notices that calls take longer. Nothing is claimed
in the ledger: this shows a cause.

Costs are stated at the paper's rates. At a quarter of them a row is compared with a quarter of the rows and
finds as many results, so there a quarter is charged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from windrow.lab import grubjoin
from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.grubjoin import CAPACITY, POLICIES, SCALE, Process, epsilon_run

COSTS = {"full": (0.0, 30.0, 100.0, 300.0, 1000.0), "quick": (0.0, 300.0)}
"""Of a result, in comparisons at the paper's rates."""
RATE = 200.0
LAGS = {"aligned": grubjoin.ALIGNED, "lagging": grubjoin.LAGGING}
SEEDS = {"full": 2, "quick": 1}
SECONDS = {"full": 60.0, "quick": 30.0}
NEEDED, FOUND = 221_000.0, 1_930.0
"""Comparisons and results per second of the exact join of aligned streams of 100 rows/s, at our scale."""
PAPER = {"aligned": 65.0, "lagging": 150.0}


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        **grubjoin.described(),
        "a result costs, in comparisons at the paper's rates": COSTS[size],
        "comparisons per second": {f"{cost:g}": round(_capacity(cost)) for cost in COSTS[size]},
        "rate": RATE,
        "seeds": SEEDS[size],
        "seconds": SECONDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[str, str, float, float, int]]:
    return [
        (streams, policy, cost, SECONDS[size], seed)
        for streams in LAGS
        if size == "full" or streams == "lagging"
        for policy in POLICIES
        if size == "full" or policy != "the paper's"
        for cost in COSTS[size]
        for seed in range(SEEDS[size])
    ]


def run(task: tuple[str, str, float, float, int]) -> list[Row]:
    streams, policy, cost, seconds, seed = task
    process, capacity = Process.steady(RATE, LAGS[streams], seconds=seconds), _capacity(cost)
    ran = epsilon_run(process, POLICIES[policy], capacity, seed, result=cost / SCALE)
    point = {"streams": streams, "policy": policy, "cost": cost, "seed": seed}
    return [point | {"building": ran.rate() * cost / SCALE / capacity} | ran.row(capacity)]


def assess(rows: Sequence[Row]) -> list[Claim]:
    return []


def plot(rows: Sequence[Row], figure: Figure) -> None:
    means = average(rows, by=["streams", "policy", "cost"], of=["output"])
    output = {(m["streams"], m["policy"], m["cost"]): m["output"] for m in means}
    costs = sorted({m["cost"] for m in means})
    for axes, streams in zip(figure.subplots(1, 2, sharey=True), LAGS, strict=True):
        for policy in POLICIES:
            if policy == "drop" or (streams, policy, costs[0]) not in output:
                continue
            gains = [100 * (output[streams, policy, c] / output[streams, "drop", c] - 1) for c in costs]
            axes.plot(range(len(costs)), gains, "o-", label=policy)
        axes.axhline(PAPER[streams], color="grey", lw=1, label="the paper, at most")
        axes.set_xticks(range(len(costs)), [f"{c:g}" for c in costs])
        axes.set(xlabel="a result costs, in comparisons", title=streams)
    figure.axes[0].set_ylabel("gain over RandomDrop, %")
    figure.axes[0].set_ylim(0, None)
    figure.axes[0].legend(fontsize=8)


def _capacity(cost: float) -> float:
    """Comparisons per second of a machine just fast enough for aligned streams of 100 rows/s."""
    return CAPACITY * (1 + cost / SCALE * FOUND / NEEDED)


EXPERIMENT = Experiment(
    "grubjoin-result-cost",
    "What harvests gain where results cost time",
    (),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
