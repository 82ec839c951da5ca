"""Our search for harvest fractions: directions are independent but for the budget they share.

Cost and output are sums over directions, so this is a multiple-choice knapsack: one setting of each. The
settings worth choosing, those on its frontier of cost and output, are built hop by hop (`pareto_frontier`),
and one of each is chosen by a price on cost and a search of the gap that leaves (`multiple_choice`).

For two or three streams with up to some twenty basic windows nothing is approximated, and the result is the
optimum unless the search runs out of steps; the number of these keeps the time bounded. For more, the result
is never below that of the double-sided greedy search.
"""

from __future__ import annotations

import numpy as np

from windrow.harvest.greedy import switch
from windrow.harvest.model import HarvestModel
from windrow.kernels.harvest.knapsack import solve_knapsack

Array = np.ndarray

STEPS = 2000
"""Choices looked at in the search of the gap."""


def knapsack(model: HarvestModel, z: float, steps: int = STEPS) -> Array:
    """Basic windows looked at, by direction and hop."""
    _, work, fan = model.tables
    chosen = np.zeros(model.counts.shape, dtype=np.int64)
    near = z <= switch(len(model))
    solve_knapsack(model.budget(z), near, steps, model.rates, model.counts, work, fan, chosen)
    return chosen
