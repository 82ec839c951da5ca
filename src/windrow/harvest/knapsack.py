"""Windrow's own search for harvest fractions, as a multiple-choice knapsack.

Directions share only the budget, and cost and output are sums over directions. So the search chooses one
setting of each direction. The candidates are the settings on the direction's Pareto frontier of cost and
output, built hop by hop (`pareto_frontier`). A price on cost and a search of the remaining gap choose among
them (`multiple_choice`).

For two or three streams with up to about twenty basic windows nothing is approximated, and the result is
optimal unless the search runs out of steps, whose number bounds the time. For more streams or basic windows
the result is never below that of the double-sided greedy search.
"""

from __future__ import annotations

import numpy as np

from windrow.harvest.greedy import switch
from windrow.harvest.model import HarvestModel
from windrow.kernels.harvest.knapsack import solve_knapsack

Array = np.ndarray

STEPS = 2000
"""Most choices evaluated in the search of the gap."""


def knapsack(model: HarvestModel, z: float) -> Array:
    """Basic windows to probe, by direction and hop."""
    _, work, fan = model.tables
    chosen = np.zeros(model.counts.shape, dtype=np.int64)
    near = z <= switch(len(model))
    solve_knapsack(model.budget(z), near, STEPS, model.rates, model.counts, work, fan, chosen)
    return chosen
