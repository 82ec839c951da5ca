"""GrubJoin Fig. 12: output against the amount of correlation, lagging streams of 200 rows/s.

The deviation of the third stream is swept, as in the paper; and that of all three at once, since the first
two stay correlated however random the third is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from windrow.lab import grubjoin
from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.grubjoin import CAPACITY, LAGGING, POLICIES, Process, epsilon_run

RATE = 200.0
DEVIATIONS = {"full": (10.0, 25.0, 50.0, 75.0, 100.0, 200.0, 400.0), "quick": (25.0, 75.0, 400.0)}
SWEPT = {"third": (2.0, 2.0), "all": ()}
"""What stays as it is while the rest is swept."""
SEEDS = {"full": 2, "quick": 1}
SECONDS = {"full": 60.0, "quick": 30.0}
PAPER = {25.0: 2.5, 50.0: 1.5, 75.0: 0.25}
MEET = 0.2


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        **grubjoin.described(),
        "comparisons per second": CAPACITY,
        "rate": RATE,
        "kappa swept": DEVIATIONS[size],
        "seeds": SEEDS[size],
        "seconds": SECONDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[str, str, float, float, int]]:
    return [
        (swept, policy, kappa, SECONDS[size], seed)
        for swept in SWEPT
        for policy in POLICIES
        if size == "full" or policy != "the paper's"
        for kappa in DEVIATIONS[size]
        if swept == "third" or kappa >= 100
        for seed in range(SEEDS[size])
    ]


def run(task: tuple[str, str, float, float, int]) -> list[Row]:
    swept, policy, kappa, seconds, seed = task
    fixed = SWEPT[swept]
    process = Process(((0.0, RATE),), LAGGING[:3], fixed + (kappa,) * (3 - len(fixed)), seconds)
    ran = epsilon_run(process, POLICIES[policy], seed=seed)
    return [{"swept": swept, "policy": policy, "kappa": kappa, "seed": seed, **ran.row(CAPACITY)}]


def assess(rows: Sequence[Row]) -> list[Claim]:
    gains = _gains(rows)
    claims = []
    for policy in sorted({policy for _, policy, _ in gains}):
        third = {k: gains["third", policy, k] for s, p, k in gains if (s, p) == ("third", policy)}
        claims.append(
            Claim(
                "G6",
                f"{policy}: ahead of RandomDrop by +250 % or more at kappa3 = 25, +150 % at 50, +25 % at 75, "
                "the less the larger it is",
                {f"kappa3 {k:g}": f"{gain:+.0%}" for k, gain in third.items()},
                all(third[k] >= least for k, least in PAPER.items() if k in third)
                and third[25.0] > third[75.0] > third[max(third)],
            )
        )
    last = max(k for _, _, k in gains)
    measured = {f"{s} stream(s), {p}": gains[s, p, last] for s, p, k in gains if k == last}
    claims.append(
        Claim(
            "G6",
            "the two meet as correlation vanishes, from all three streams (with the third alone they do not)",
            {name: f"{gain:+.0%}" for name, gain in measured.items()},
            abs(gains["all", "harvest", last]) <= MEET,
        )
    )
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    means = average(rows, by=["swept", "policy", "kappa"], of=["output"])
    for axes, swept in zip(figure.subplots(1, 2), SWEPT, strict=True):
        for policy in POLICIES:
            kept = [m for m in means if (m["swept"], m["policy"]) == (swept, policy)]
            axes.plot([m["kappa"] for m in kept], [m["output"] for m in kept], "o-", label=policy)
        axes.set(xlabel=f"kappa of {swept}", ylim=(0, None))
    figure.axes[0].set_ylabel("results per second")
    figure.axes[0].legend()


def _gains(rows: Sequence[Row]) -> dict[tuple[str, str, float], float]:
    means = average(rows, by=["swept", "policy", "kappa"], of=["output"])
    output = {(m["swept"], m["policy"], m["kappa"]): m["output"] for m in means}
    return {
        (swept, policy, kappa): each / output[swept, "drop", kappa] - 1
        for (swept, policy, kappa), each in output.items()
        if policy != "drop"
    }


EXPERIMENT = Experiment(
    "grubjoin-fig12", "Harvests as correlation vanishes", ("G6",), parameters, tasks, run, assess, plot
)
