"""Memory that a harvest saves (GrubJoin s. 7): rows older than anything it looks at are let go.

The same streams, lagging by up to 4 s, with and without the admission rule. Shredding, which looks
everywhere, is left out of the first comparison (lags are learned while the machine is still ample), so that
what is found is the harvest's alone; in the second it is on.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from windrow.lab import grubjoin
from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.grubjoin import CAPACITY, DEVIATIONS, OURS, Process, epsilon_join, run_in_ticks

RATE, FILLED = 200.0, 20.0
LAGS = (0.0, 2.0, 4.0)
SHREDDING = (0.0, 0.1)
SEEDS = {"full": 4, "quick": 1}
SECONDS = {"full": 60.0, "quick": 40.0}
LOST, FREED = 0.01, 0.1


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        **grubjoin.described(),
        "comparisons per second": CAPACITY,
        "rate": RATE,
        "lags": LAGS,
        "ample until": FILLED,
        "shredding": SHREDDING,
        "seeds": SEEDS[size],
        "seconds": SECONDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[float, bool, float, int]]:
    return [
        (shredding, conserve, SECONDS[size], seed)
        for shredding in SHREDDING
        for conserve in (False, True)
        for seed in range(SEEDS[size])
    ]


def run(task: tuple[float, bool, float, int]) -> list[Row]:
    shredding, conserve, seconds, seed = task
    process = Process(((0.0, RATE),), LAGS, DEVIATIONS[:3], seconds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        # What was learned while there was time must last: without shredding nothing comes after it.
        policy = replace(OURS, shredding=shredding, conserve=conserve, half_life=100.0)
        query = epsilon_join(3, 1.0, shed=policy, seed=seed)
        ran = run_in_ticks(
            query, process.tables(seed), seconds, 1.0, lambda k: CAPACITY * (100 if k < FILLED else 1)
        )
    held = float(ran.held[round(FILLED) + 5 :].mean())
    return [
        {
            "shredding": shredding,
            "conserve": conserve,
            "seed": seed,
            "held": held,
            "output": ran.rate(FILLED + 5),
        }
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    means = average(rows, by=["shredding", "conserve"], of=["held", "output"])
    of = {(m["shredding"], m["conserve"]): m for m in means}
    freed = {w: 1 - of[w, True]["held"] / of[w, False]["held"] for w in SHREDDING}
    lost = {w: 1 - of[w, True]["output"] / of[w, False]["output"] for w in SHREDDING}
    return [
        Claim(
            "G11",
            "rows are freed without losing output that the harvest would have produced",
            {"rows freed": f"{freed[0.0]:.1%}", "output lost": f"{lost[0.0]:.2%}"},
            freed[0.0] >= FREED and lost[0.0] <= LOST,
        ),
        Claim(
            "G11",
            "with shredding on, less is lost than the share of rows that look everywhere",
            {"rows freed": f"{freed[0.1]:.1%}", "output lost": f"{lost[0.1]:.2%}"},
            freed[0.1] >= FREED and lost[0.1] <= 0.1,
        ),
    ]


def plot(rows: Sequence[Row], figure: Figure) -> None:
    means = average(rows, by=["shredding", "conserve"], of=["held", "output"])
    names = [f"shredding {m['shredding']:g}\n{'conserving' if m['conserve'] else 'plain'}" for m in means]
    for axes, column in zip(figure.subplots(1, 2), ("held", "output"), strict=True):
        axes.bar(names, [m[column] for m in means], color=["C0", "C1"] * 2)
        axes.set_ylabel({"held": "rows in the windows", "output": "results per second"}[column])


EXPERIMENT = Experiment(
    "grubjoin-memory", "Memory that a harvest saves", ("G11",), parameters, tasks, run, assess, plot
)
