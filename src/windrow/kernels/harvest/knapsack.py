"""Harvest fractions as a multiple-choice knapsack: one point from the frontier of each direction."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.harvest.multiple_choice import solve_multiple_choice
from windrow.kernels.harvest.pareto_frontier import ROOM, backtrack, build_frontier
from windrow.kernels.harvest.tables import FITS, GAIN, greedy, reverse, total


@njit(cache=True)
def solve_knapsack(
    budget: float, near: bool, steps: int, rates: Any, counts: Any, work: Any, fan: Any, chosen: Any
) -> bool:
    """Fills `chosen`, which starts as zeros; tables as in `tables`.

    The bands of large frontiers may leave some budget unspent, which the greedy search then spends. If the
    greedy search alone finds more, its result is taken; it starts from nothing if `near`, else from
    everything. Returns whether the choice among the points of the frontiers is known to be optimal.
    """
    m, hops = counts.shape
    cost, output = np.empty((m, hops, ROOM)), np.empty((m, hops, ROOM))
    choice, parent = np.empty((m, hops, ROOM), np.int32), np.empty((m, hops, ROOM), np.int32)
    sizes, best = np.zeros(m, np.int64), np.full(m, -1)
    for i in range(m):
        sizes[i] = build_frontier(
            rates[i], counts[i], work[i], fan[i], budget * FITS, cost[i], output[i], choice[i], parent[i]
        )
    certain = solve_multiple_choice(budget, steps, sizes, cost[:, 0], output[:, 0], best)
    for i in range(m):
        if best[i] >= 0:
            backtrack(best[i], choice[i], parent[i], chosen[i])
    greedy(budget, GAIN, rates, counts, work, fan, chosen)
    if hops > 2 or not certain:
        other = np.zeros((m, hops), np.int64)
        if near:
            greedy(budget, GAIN, rates, counts, work, fan, other)
        else:
            other[:] = counts
            reverse(budget, GAIN, rates, work, fan, other)
            greedy(budget, GAIN, rates, counts, work, fan, other)
        if total(rates, work, fan, other)[1] > total(rates, work, fan, chosen)[1]:
            chosen[:] = other
    return certain
