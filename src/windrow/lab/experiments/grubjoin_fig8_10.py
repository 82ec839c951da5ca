"""GrubJoin Fig. 8 to 10: how long it takes to set the harvest fractions; and how long ours takes.

Problems of `lab/harvest.py`. Times are the least of several on this machine, averaged over problems; for the
ways of being greedy also the settings evaluated, which do not depend on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from windrow.harvest.greedy import switch
from windrow.harvest.model import HarvestModel
from windrow.harvest.solve import SOLVERS
from windrow.kernels.harvest import tables
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.harvest import random_problem

PROBLEMS = {"full": 20, "quick": 4}
REPEATS = {"full": 7, "quick": 5}
COUNTS = {"full": (5, 10, 15, 20), "quick": (10, 20)}
THROTTLES = {
    "full": (0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 0.99),
    "quick": (0.1, 0.25, 0.5, 0.55, 0.8),
}
Z = 0.25
"""Of Figure 8."""
SIDES = ("greedy", "reverse", "double-sided")
TRIED = 3
"""Of problems on which every setting is tried."""

Task = tuple[str, int, int, float, str, int, int]


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "problems": PROBLEMS[size],
        "repeats": REPEATS[size],
        "basic windows": COUNTS[size],
        "z": THROTTLES[size],
        "z of Fig. 8": Z,
        "seeds": f"0 to {PROBLEMS[size] - 1}",
    }


def tasks(size: Size) -> Sequence[Task]:
    often = (PROBLEMS[size], REPEATS[size])
    methods = ("greedy", "knapsack")
    eight = [("8", m, n, Z, method, *often) for m in (3, 4, 5) for n in COUNTS[size] for method in methods]
    every = [("8", 3, n, Z, "exhaustive", TRIED, 1) for n in COUNTS[size]]
    nine = [("9", m, 10, z, method, *often) for m in (3, 4, 5) for z in THROTTLES[size] for method in methods]
    ten = [("10", m, 10, z, side, *often) for m in (3, 4, 5) for z in THROTTLES[size] for side in SIDES]
    return [*eight, *every, *nine, *ten]


def run(task: Task) -> list[Row]:
    figure, m, n, z, method, problems, repeats = task
    models = [random_problem(seed, m, n) for seed in range(problems)]
    SOLVERS[method](models[0], 0.01)  # compiled, or loaded, before it is timed
    taken = [_least(SOLVERS[method], model, z, repeats) for model in models]
    row: Row = {"figure": figure, "m": m, "n": n, "z": z, "method": method, "ms": fmean(taken)}
    if method in SIDES:
        row["evaluated"] = fmean(_evaluated(method, model, z) for model in models)
    return [row]


def assess(rows: Sequence[Row]) -> list[Claim]:
    every, up = ({r["n"]: r["ms"] for r in _of(rows, "8", method, 3)} for method in ("exhaustive", "greedy"))
    slower = {f"n={n}": round(every[n] / up[n]) for n in every}
    largest = {
        method: round(next(r["ms"] for r in _of(rows, "8", method, 5) if r["n"] == 20), 3)
        for method in ("greedy", "knapsack")
    }
    at_z = {f"z={r['z']:g}": round(r["ms"], 3) for r in _of(rows, "9", "greedy", 5)}
    sides = {m: _sides(rows, m) for m in (3, 4, 5)}
    above = {m: max(both / min(up, down) for up, down, both in sides[m].values()) for m in sides}
    right = all(
        both == (up if z <= switch(m) else down) for m in sides for z, (up, down, both) in sides[m].items()
    )
    return [
        Claim(
            "G4",
            "m=3: trying every setting takes orders of magnitude longer than greedy",
            slower,
            all(every[n] >= 100 * up[n] for n in every if n >= 10),
        ),
        Claim(
            "G4",
            "greedy sets the fractions within 10 ms for m=5, n=20 (ours within 1 ms)",
            largest,
            largest["greedy"] <= 1,
        ),
        Claim(
            "G4",
            "greedy takes longer the larger z is: settings evaluated rise with z, those of reverse fall",
            at_z,
            all(_rises(up for up, _, _ in sides[m].values()) for m in sides)
            and all(_rises(-down for _, down, _ in sides[m].values()) for m in sides),
        ),
        Claim(
            "G4",
            "double-sided takes the way up until 0.5^((m-1)/2) and the way down above",
            {f"m={m}": round(switch(m), 3) for m in sides},
            right,
        ),
        Claim(
            "G4",
            "m=3, as in Fig. 10: double-sided evaluates at most a twentieth more than the better at every z",
            {f"most, of the better, m={m}": round(each, 3) for m, each in above.items()},
            above[3] <= 1.05,
        ),
        Claim("B5", "ours takes at most 1 ms for m=5, n=20", largest["knapsack"], largest["knapsack"] <= 1),
    ]


def plot(rows: Sequence[Row], figure: Figure) -> None:
    left, middle, right = figure.subplots(1, 3)
    for method, m in (("exhaustive", 3), ("greedy", 3), ("greedy", 5), ("knapsack", 3), ("knapsack", 5)):
        kept = _of(rows, "8", method, m)
        left.plot([r["n"] for r in kept], [r["ms"] for r in kept], "o-", label=f"{method}, m={m}")
    left.set(yscale="log", xlabel="basic windows n", ylabel="ms", title="z = 0.25")
    for m in (3, 4, 5):
        kept = _of(rows, "9", "greedy", m)
        middle.plot([r["z"] for r in kept], [r["ms"] for r in kept], "o-", label=f"m={m}")
    middle.set(xlabel="throttle fraction z", ylabel="ms", title="greedy, n = 10")
    for side in SIDES:
        kept = _of(rows, "10", side, 3)
        style = "--" if side == "double-sided" else "-"
        right.plot([r["z"] for r in kept], [r["evaluated"] for r in kept], style, label=side)
    right.set(xlabel="throttle fraction z", ylabel="settings evaluated", title="m = 3, n = 10")
    for axes in figure.axes:
        axes.legend(fontsize=6)


def _of(rows: Sequence[Row], figure: str, method: str, m: int) -> list[Row]:
    return [r for r in rows if (r["figure"], r["method"], r["m"]) == (figure, method, m)]


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


def _evaluated(side: str, model: HarvestModel, z: float) -> int:
    _, work, fan = model.tables
    up = side == "greedy" or (side == "double-sided" and z <= switch(len(model)))
    if up:
        chosen = np.zeros(model.counts.shape, dtype=np.int64)
        return tables.greedy(model.budget(z), tables.GAIN, model.rates, model.counts, work, fan, chosen)
    return tables.reverse(model.budget(z), tables.GAIN, model.rates, work, fan, model.counts.copy())


def _sides(rows: Sequence[Row], m: int) -> dict[float, tuple[float, float, float]]:
    """By z the settings that the way up, the way down, and double-sided evaluate."""
    evaluated = {(r["method"], r["z"]): r["evaluated"] for r in rows if r["figure"] == "10" and r["m"] == m}
    return {
        z: (evaluated["greedy", z], evaluated["reverse", z], evaluated["double-sided", z])
        for _, z in evaluated
    }


def _rises(values: Any) -> bool:
    return all(later >= earlier for earlier, later in pairwise(values))


EXPERIMENT = Experiment(
    "grubjoin-fig8-10", "Time to set harvest fractions", ("G4", "B5"), parameters, tasks, run, assess, plot
)
