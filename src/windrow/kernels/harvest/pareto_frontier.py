"""The Pareto frontier of a direction: its best settings for every budget.

For each partial match that enters hop j, a setting of hop j and those after it costs and yields

    cost = work[j, c] + fan[j, c] * (cost of the rest)        output = fan[j, c] * (output of the rest)

where the rest is the hops after j. A rest that is dominated (costs no less, yields no more) makes a dominated
setting and can be dropped, so frontiers are built from the last hop backwards. A frontier is a list of points
in ascending cost and ascending output. Each point records the number of basic windows at its own hop and the
point of the rest.

If there are too many points, only the one with most output is kept in each of many narrow bands of cost. This
loses no output; it raises the cost by at most the width of a band.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

ROOM = 512
"""Most points of a frontier. Up to this many candidates are compared with each other; more are banded."""


class Frontier(NamedTuple):
    """Points by hop and number: row j is the frontier of hops j and after."""

    cost: np.ndarray
    output: np.ndarray
    choice: np.ndarray
    """Basic windows at hop j."""
    parent: np.ndarray
    """The point of row j + 1 that the rest is."""


@njit(cache=True)
def build_frontier(rate: float, counts: Any, work: Any, fan: Any, budget: float, frontier: Any) -> int:
    """Fills the frontier of a direction within the budget; row 0 is per second. Returns the number of its
    points. Tables are those of the direction."""
    hops = len(counts)
    reach = np.empty(hops)
    entering = rate
    for j in range(hops):
        # At least `entering` partial matches per second enter hop j, so a rest may cost at most this.
        reach[j] = budget / entering if entering > 0.0 else np.inf
        entering *= fan[j, 1]
    if entering <= 0.0:
        return 0
    size: Any = np.int64(1)  # plain 1 is a type of its own, for which numba would compile `_extend` again
    for j in range(hops - 1, -1, -1):
        size = _extend(j, hops, counts[j], work[j], fan[j], size, reach[j], frontier)
        if size == 0:
            return 0
    for p in range(size):
        frontier.cost[0, p] *= rate
        frontier.output[0, p] *= rate
    return size


@njit(cache=True)
def _extend(j: int, hops: int, n: int, work: Any, fan: Any, size: int, most: float, frontier: Any) -> int:
    """Extends the frontier of the hops after j by hop j; returns its number of points."""
    cost, output, choice, parent = frontier
    last = j == hops - 1
    if n * size <= ROOM and (last or hops <= 2):
        found_cost, found_output = np.empty(n * size), np.empty(n * size)
        found_choice, found_parent = np.empty(n * size, np.int32), np.empty(n * size, np.int32)
        found = 0
        for c in range(1, n + 1):
            for p in range(size):
                rest = 0.0 if last else cost[j + 1, p]
                spent = work[c] + fan[c] * rest
                if spent > most:
                    break
                found_cost[found] = spent
                found_output[found] = fan[c] if last else fan[c] * output[j + 1, p]
                found_choice[found], found_parent[found] = c, p
                found += 1
        order = np.argsort(found_cost[:found])
        # Invariant: the points kept are the frontier of the candidates so far, and `best` is its top output.
        kept, best = 0, 0.0
        for at in order:
            if found_output[at] <= best:
                continue
            best = found_output[at]
            if kept > 0 and cost[j, kept - 1] == found_cost[at]:
                kept -= 1
            cost[j, kept], output[j, kept] = found_cost[at], best
            choice[j, kept], parent[j, kept] = found_choice[at], found_parent[at]
            kept += 1
        return kept
    return _banded(j, n, work, fan, size, most, frontier)


@njit(cache=True)
def _banded(j: int, n: int, work: Any, fan: Any, size: int, most: float, frontier: Any) -> int:
    """As `_extend`, for many candidates: keeps the one with most output in each band of cost.

    Invariant: for each c the rests come in ascending cost, so the band only moves up.
    """
    cost, output, choice, parent = frontier
    bands = cost.shape[1] if j == 0 else cost.shape[1] // 2
    low = work[1] + fan[1] * cost[j + 1, 0]
    high = min(most, work[n] + fan[n] * cost[j + 1, size - 1])
    if low > high:
        return 0
    # The cost of a rest is multiplied by what enters it, so its bands have equal ratios. The bands of the
    # direction are fractions of the budget.
    edges = np.empty(bands)
    ratio, edge = (high / low) ** (1.0 / bands) if low > 0.0 else 2.0, low
    for b in range(bands):
        part = (b + 1) / bands
        edge *= ratio
        edges[b] = edge if j > 0 else low + (high - low) * part * part
    edges[bands - 1] = high
    rest_cost, rest_output = cost[j + 1], output[j + 1]
    top, spent_at, made_of = np.zeros(bands), np.empty(bands), np.empty(bands, np.int32)
    for c in range(1, n + 1):
        own, out = work[c], fan[c]
        b = 0
        for p in range(size):
            spent = own + out * rest_cost[p]
            if spent > high:
                break
            while spent > edges[b]:
                b += 1
            got = out * rest_output[p]
            if got > top[b]:
                top[b], spent_at[b], made_of[b] = got, spent, c * size + p
    kept, best = 0, 0.0
    for b in range(bands):
        if top[b] > best:
            best = top[b]
            cost[j, kept], output[j, kept] = spent_at[b], best
            choice[j, kept], parent[j, kept] = made_of[b] // size, made_of[b] % size
            kept += 1
    return kept


@njit(cache=True)
def backtrack(point: int, frontier: Any, chosen: Any) -> None:
    """The number of basic windows at each hop of a point of row 0."""
    for j in range(len(chosen)):
        chosen[j] = frontier.choice[j, point]
        point = frontier.parent[j, point]
