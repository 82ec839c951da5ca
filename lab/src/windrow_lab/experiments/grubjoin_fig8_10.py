"""GrubJoin Fig. 8 to 10: how long it takes to set the harvest fractions; and how long ours takes.

Problems of `lab/harvest.py`. Times are the least of several on this machine, averaged over problems. For the
ways of being greedy the settings that the product's own functions evaluate are counted as well: they do not
depend on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any
from unittest.mock import patch

from windrow.harvest.model import HarvestModel
from windrow.harvest.solve import SOLVERS, switch
from windrow.kernels.harvest import greedy
from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.harvest import random_problem
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

Z = 0.25
"""Of Figure 8."""
SIDES = ("greedy", "reverse", "double-sided")
TRIED = 3
"""Problems on which every setting is tried."""


def measure(figure: str, m: int, n: int, z: float, method: str, problems: int, repeats: int) -> Row:
    tries = TRIED if method == "exhaustive" else problems
    models = [random_problem(seed, m, n) for seed in range(tries)]
    SOLVERS[method](models[0], 0.01)  # compiled, or loaded, before it is timed
    row: Row = {"ms": fmean(_least(SOLVERS[method], model, z, repeats) for model in models)}
    if method in SIDES:
        ways, counts = zip(*(evaluated(method, model, z) for model in models), strict=True)
        row |= {"evaluated": fmean(counts), "way": ways[0] if len(set(ways)) == 1 else "both"}
    return row


def evaluated(method: str, model: HarvestModel, z: float) -> tuple[str, int]:
    """Which way the product's function goes, and how many settings it evaluates on it."""
    calls: list[tuple[str, int]] = []

    def counted(way: str, kernel: Callable[..., int]) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            calls.append((way, kernel(*arguments)))
            return calls[-1][1]

        return call

    up, down = counted("up", greedy.greedy), counted("down", greedy.reverse)
    with patch.multiple(greedy, greedy=up, reverse=down):
        SOLVERS[method](model, z)
    (call,) = calls
    return call


def assess(rows: Sequence[Row]) -> list[Claim]:
    eight = pivot([r for r in rows if r["figure"] == "8"], "method", "m", "n", of="ms")
    ten = [r for r in rows if r["figure"] == "10"]
    counts = pivot(ten, "m", "z", "method", of="evaluated")
    more = {
        m: max(each["double-sided"] / min(each["greedy"], each["reverse"]) for each in by_z.values())
        for m, by_z in counts.items()
    }
    ways = {(r["m"], r["z"]): r["way"] for r in ten if r["method"] == "double-sided"}
    last_up = {m: max(z for (k, z), way in ways.items() if k == m and way == "up") for m in counts}
    first_down = {m: min(z for (k, z), way in ways.items() if k == m and way == "down") for m in counts}
    slower = {n: eight["exhaustive"][3][n] / ms for n, ms in eight["greedy"][3].items()}
    return [
        Claim(
            "G4",
            "m=3: trying every setting takes orders of magnitude longer than greedy (100 times)",
            {f"n={n}": round(each) for n, each in slower.items()},
            all(each >= 100 for each in slower.values()),
        ),
        Claim(
            "G4",
            "greedy sets the fractions within 1 ms for m=5, n=20",
            round(eight["greedy"][5][20], 3),
            eight["greedy"][5][20] <= 1,
        ),
        Claim(
            "G4",
            "double-sided never evaluates more settings than the better of forward and reverse; most, of it",
            {f"m={m}": round(each, 3) for m, each in more.items()},
            all(each <= 1 for each in more.values()),
        ),
        Claim(
            "G4",
            "double-sided goes up until 0.5^((m-1)/2) and down above; last z up, switch, first z down",
            {f"m={m}": [last_up[m], round(switch(m), 3), first_down[m]] for m in counts},
            all(last_up[m] <= 0.5 ** ((m - 1) / 2) < first_down[m] for m in counts),
        ),
        Claim(
            "B5",
            "ours takes at most 1 ms for m=5, n=20",
            round(eight["knapsack"][5][20], 3),
            eight["knapsack"][5][20] <= 1,
        ),
    ]


def _run(point: Row) -> bool:
    """Figure 8 is at one z and several n, with every setting tried for m = 3; Figure 10 is at n = 10."""
    if point["figure"] == "8":
        methods = ("greedy", "knapsack", "exhaustive") if point["m"] == 3 else ("greedy", "knapsack")
        return point["z"] == Z and point["method"] in methods
    return point["n"] == 10 and point["method"] in SIDES


def _least(
    method: Callable[[HarvestModel, float], Any], model: HarvestModel, z: float, repeats: int
) -> float:
    """Milliseconds of the fastest of several times."""
    model.budget(z)  # the tables are not part of it
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        method(model, z)
        best = min(best, time.perf_counter() - began)
    return 1000 * best


EXPERIMENT = swept(
    "grubjoin-fig8-10",
    "Time to set harvest fractions",
    ("G4", "B5"),
    measure,
    full={
        "figure": ("8", "10"),
        "m": (3, 4, 5),
        "n": (5, 10, 15, 20),
        "z": (0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 0.99),
        "method": (*SIDES, "knapsack", "exhaustive"),
        "problems": 20,
        "repeats": 7,
    },
    quick={"n": (10, 20), "problems": 4, "repeats": 5},
    where=_run,
    assess=assess,
    plot=Lines(
        "z",
        "evaluated",
        "method",
        "m",
        "throttle fraction z",
        "settings evaluated",
        where={"figure": ("10",)},
    ),
)
