"""Harvest fractions as a multiple-choice knapsack: one point from the frontier of each direction."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.harvest.greedy import GAIN, greedy, reverse
from windrow.kernels.harvest.multiple_choice import solve_multiple_choice
from windrow.kernels.harvest.pareto_frontier import ROOM, Frontier, backtrack, build_frontier
from windrow.kernels.harvest.tables import FITS, total


@njit(cache=True)
def solve_knapsack(budget: float, near: bool, steps: int, tables: Any, chosen: Any) -> bool:
    """Fills `chosen`, which starts as zeros; tables as in `tables`.

    The bands of large frontiers may leave some budget unspent, which the greedy search then spends. If the
    greedy search alone finds more, its result is taken; it starts from nothing if `near`, else from
    everything. Returns whether the choice among the points of the frontiers is known to be optimal.
    """
    m, hops = tables.counts.shape
    cost, output = np.empty((m, hops, ROOM)), np.empty((m, hops, ROOM))
    choice, parent = np.empty((m, hops, ROOM), np.int32), np.empty((m, hops, ROOM), np.int32)
    sizes, best = np.zeros(m, np.int64), np.full(m, -1)
    for i in range(m):
        own = (tables.rates[i], tables.counts[i], tables.work[i], tables.fan[i])
        sizes[i] = build_frontier(*own, budget * FITS, Frontier(cost[i], output[i], choice[i], parent[i]))
    certain = solve_multiple_choice(budget, steps, sizes, cost[:, 0], output[:, 0], best)
    for i in range(m):
        if best[i] >= 0:
            backtrack(best[i], Frontier(cost[i], output[i], choice[i], parent[i]), chosen[i])
    greedy(budget, GAIN, tables, chosen)
    if hops > 2 or not certain:
        other = np.zeros((m, hops), np.int64)
        if not near:
            other = tables.counts.copy()
            reverse(budget, GAIN, tables, other)
        greedy(budget, GAIN, tables, other)
        if total(tables, other)[1] > total(tables, chosen)[1]:
            for i in range(m):
                for j in range(hops):
                    chosen[i, j] = other[i, j]
    return certain
