"""How long an adaptation takes, and how near each way of choosing a harvest comes to the best.

Five streams with 20 basic windows each. An adaptation is all of it: scores from learned lags, tables, the
choice, and the harvest as a value. Outputs are set against the best that any method found on the problem,
and for three streams with 10 basic windows against trying every setting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console

from windrow.harvest.lags import StreamLags
from windrow.harvest.model import HarvestModel
from windrow.harvest.solve import SOLVERS, solve
from windrow_lab.harvest import random_problem

PROBLEMS = 15
REPEATS = 5
THROTTLES = (0.05, 0.25, 0.6)
SLOW = "exhaustive"


def run(rows: int, console: Console) -> list[dict[str, Any]]:
    """A line for each method; the number of rows plays no part."""
    large = [random_problem(seed, 5, 20) for seed in range(PROBLEMS)]
    small = [random_problem(seed, 3, 10) for seed in range(PROBLEMS)]
    quick = [name for name in SOLVERS if name != SLOW]
    found: dict[str, list[list[float]]] = {}
    for name in quick:
        with console.status(name):
            solve(large[0], 0.5, name)  # compiled, or loaded, before it is timed
            found[name] = [[_output(model, z, name) for z in THROTTLES] for model in large]
    best = np.max([found[name] for name in quick], axis=0)
    with console.status(SLOW):
        optimum = np.array([[_output(model, z, SLOW) for z in THROTTLES] for model in small])
    timed = [(model, z) for model in large for z in THROTTLES]
    figures = []
    for name in quick:
        with console.status(name):
            ratios = np.array([[_output(model, z, name) for z in THROTTLES] for model in small]) / optimum
            figures.append(
                {
                    "method": name,
                    "choice, ms (m=5, n=20)": median(_choice(model, z, name) for model, z in timed),
                    "adaptation, ms (m=5, n=20)": median(_adaptation(model, z, name) for model, z in timed),
                    "of the best found, mean": float((np.array(found[name]) / best).mean()),
                    "worst": float((np.array(found[name]) / best).min()),
                    "of the optimum (m=3, n=10), mean": float(ratios.mean()),
                    "worst there": float(ratios.min()),
                }
            )
    return figures


def _output(model: HarvestModel, z: float, method: str) -> float:
    return model.at(SOLVERS[method](model, z))[1]


def _choice(model: HarvestModel, z: float, method: str) -> float:
    return _least(lambda: SOLVERS[method](model, z))


def _adaptation(model: HarvestModel, z: float, method: str) -> float:
    random = np.random.default_rng(0)
    lags = StreamLags.empty(model.windows.sizes).add(random.normal(0, 2, (1000, len(model))))

    def adapt() -> None:
        faded = lags.decayed(0.9)
        solve(replace(model, scores=faded.scores(model.windows, model.orders)), z, method, parts=True)

    return _least(adapt)


def _least(work: Callable[[], object]) -> float:
    """Milliseconds of the fastest of several times."""
    best = float("inf")
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return 1000 * best
