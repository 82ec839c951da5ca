"""MultiJoin Fig. 2: the eager multi-way join against the naive one as windows are added.

Streams of rate 1, windows of 100 and 50 distinct values; every row is processed as it comes. Comparisons
per unit of time come from the cost model and from the operator, which counts those it makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.multijoin import Streams, count_work
from windrow.planning.cost import arrival_first, plan_cost

MOST = {"full": 6, "quick": 4}
UNITS = {"full": 200, "quick": 30}
SEEDS = {"full": 5, "quick": 1}
TOLERANCE = {"full": 0.1, "quick": 0.25}


def parameters(size: Size) -> Mapping[str, Any]:
    return {"rate": 1, "window": 100, "values": 50, "units measured": UNITS[size], "seeds": SEEDS[size]}


def tasks(size: Size) -> Sequence[tuple[str, int, int, int]]:
    return [
        (algorithm, windows, UNITS[size], seed)
        for windows in range(MOST[size], 1, -1)
        for algorithm in ("eager", "naive")
        for seed in range(SEEDS[size])
    ]


def run(task: tuple[str, int, int, int]) -> list[Row]:
    algorithm, windows, units, seed = task
    streams = Streams((1,) * windows, (100,) * windows, (50,) * windows)
    orders = {
        s: arrival_first(s, range(windows)) if algorithm == "eager" else tuple(range(windows)) for s in range(windows)
    }
    counted = count_work(streams, orders, units, seed)
    return [
        {
            "algorithm": algorithm,
            "windows": windows,
            "seed": seed,
            "model": plan_cost(streams.statistics(), orders),
            "counted": counted.comparisons_per_unit,
            "results": counted.results,
        }
    ]
