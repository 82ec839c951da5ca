"""Chooses the harvest with the most output for a throttle fraction of the full cost (GrubJoin s. 4.2.2).

A method takes a model and a throttle fraction and returns the number of basic windows to probe, by direction
and hop. All methods stay within the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from types import MappingProxyType

import numpy as np

from windrow.errors import Option, QueryError, unknown
from windrow.harvest.model import HarvestModel
from windrow.kernels.harvest import greedy as steps
from windrow.kernels.harvest.exhaustive import exhaust, list_settings
from windrow.kernels.harvest.knapsack import solve_knapsack
from windrow.model.harvest import Harvest
from windrow.model.policies.time_policies import METHODS

Array = np.ndarray
Method = Callable[[HarvestModel, float], Array]
METRICS = {
    "BestOutput": steps.OUTPUT,
    "BestOutputPerCost": steps.OUTPUT_PER_COST,
    "BestDeltaOutputPerDeltaCost": steps.GAIN,
}
"""Measures of a step: its total output, its output per cost, or its additional output per additional cost."""
BEST = "BestDeltaOutputPerDeltaCost"
"""The paper's choice, by its Figure 7."""
MOST_CHOICES = 2000
"""Choices that the knapsack evaluates between the bound and the best choice, at most."""
MOST_COMBINATIONS = 10**10
"""Combinations that an exhaustive search tries, at most: about ten seconds of work."""


def greedy(model: HarvestModel, z: float, metric: str = BEST) -> Array:
    """Starts with no basic window and always adds the best one (s. 5.1, Fig. 5)."""
    chosen = np.zeros(model.counts.shape, dtype=np.int64)
    steps.greedy(model.budget(z), _number(metric), model.tables, chosen)
    return chosen


def reverse(model: HarvestModel, z: float, metric: str = BEST) -> Array:
    """Starts with all basic windows and always removes the least useful one (s. 6.1)."""
    chosen = model.counts.copy()
    steps.reverse(model.budget(z), _number(metric), model.tables, chosen)
    return chosen


def double_sided(model: HarvestModel, z: float) -> Array:
    """Greedy from the nearer side (s. 6.1)."""
    return (greedy if z <= switch(len(model)) else reverse)(model, z)


def switch(streams: int) -> float:
    """The throttle fraction up to which the search upward is shorter.

    The cost is roughly a product of m - 1 harvest fractions, dominated by the last. With half of each window
    it is between 1/2 and 1/2^(m-1); the paper takes the middle of the exponents.
    """
    return 0.5 ** ((streams - 1) / 2)


def knapsack(model: HarvestModel, z: float) -> Array:
    """Windrow's own search, as a multiple-choice knapsack.

    Directions share only the budget, and cost and output are sums over directions. So the search chooses one
    setting of each direction. The candidates are the settings on the direction's Pareto frontier of cost and
    output, built hop by hop. A price on cost and a search of the remaining gap choose among them.

    For two or three streams with up to about twenty basic windows nothing is approximated, and the result is
    optimal unless the search runs out of steps, whose number bounds the time. For more streams or basic
    windows the result is never below that of the double-sided greedy search.
    """
    chosen = np.zeros(model.counts.shape, dtype=np.int64)
    solve_knapsack(model.budget(z), z <= switch(len(model)), MOST_CHOICES, model.tables, chosen)
    return chosen


def exhaustive(model: HarvestModel, z: float) -> Array:
    """The best of all settings (s. 4.4): a reference, too slow for regular use."""
    sizes = np.array([1 + prod(map(int, counts)) for counts in model.counts], dtype=np.int64)
    combinations = prod(map(int, sizes))
    if combinations > MOST_COMBINATIONS:
        raise QueryError(
            f"'exhaustive' would try {combinations:.1e} settings, more than {MOST_COMBINATIONS:.0e}; use "
            "fewer or longer basic windows, or the method 'knapsack'",
            METHOD,
        )
    costs, outputs = (np.zeros((len(model), int(sizes.max()))) for _ in range(2))
    list_settings(model.tables, costs, outputs)
    best = np.zeros(len(model), dtype=np.int64)
    exhaust(model.budget(z), sizes, costs, outputs, best)
    chosen = np.zeros(model.counts.shape, dtype=np.int64)
    for i, setting in enumerate(best):
        if setting > 0:  # 0 is off; others are numbered as `list_settings` says
            chosen[i] = 1 + np.array(np.unravel_index(setting - 1, tuple(model.counts[i])))
    return chosen


def with_parts(model: HarvestModel, z: float, chosen: Array) -> Array:
    """Uses the whole budget by probing a fraction of one basic window.

    The better of two candidates: `chosen` with the rest of the budget spent on further steps, the last one in
    part; or the same from nothing. The second is better if the best step is too expensive as a whole, so that
    `chosen` omits it.
    """
    found = []
    for start in (chosen, np.zeros_like(chosen)):
        used = np.empty(chosen.shape)
        found.append((steps.climb(model.budget(z), model.tables, start.copy(), used), used))
    return max(found, key=lambda each: each[0])[1]


def _number(metric: str) -> int:
    """The number of a metric in the kernels."""
    if metric not in METRICS:
        raise QueryError(unknown("metric", metric, METRICS))
    return int(METRICS[metric])


_FUNCTIONS: tuple[Method, ...] = (
    knapsack,
    greedy,
    partial(greedy, metric="BestOutput"),
    partial(greedy, metric="BestOutputPerCost"),
    reverse,
    double_sided,
    exhaustive,
)
SOLVERS: Mapping[str, Method] = MappingProxyType(dict(zip(METHODS, _FUNCTIONS, strict=True)))
DEFAULT = METHODS[0]
METHOD = Option("method", policy="harvest")


def solve(model: HarvestModel, z: float, method: str = DEFAULT, parts: bool = False) -> Harvest:
    """The harvest for a throttle fraction.

    Parameters
    ----------
    z
        The fraction of the full cost that may be spent; with 1 everything is probed.
    method
        A name in `METHODS`.
    parts
        Whether a basic window may be probed in part, to use the whole budget. The paper's methods probe only
        complete ones, and find nothing if even the cheapest does not fit.
    """
    if method not in METHODS:
        raise QueryError(unknown("method", method, METHODS), METHOD)
    if z >= 1:
        return model.harvest(model.counts, z, "everything")
    chosen = SOLVERS[method](model, z)
    return model.harvest(with_parts(model, z, chosen) if parts else chosen, z, method)
