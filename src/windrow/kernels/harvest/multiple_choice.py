"""A multiple-choice knapsack: choose one point of each class, for most output within a budget.

With a price on cost, each class separately takes the point with the most output less price times cost. At the
price at which these just fit, `sum of (output - price * cost) + price * budget` is an upper bound, and

    output of a choice  =  bound  -  sum of what its points fall short of their class's best  -  price * slack

So a point whose shortfall exceeds the gap between the bound and the best choice so far cannot be in a better
choice. The other points are searched, least shortfall first, until the gap is closed or the steps run out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.harvest.tables import FITS
from windrow.kernels.sort_few import order_of_few

_HALVINGS = 100


@njit(cache=True)
def _hull(size: int, cost: Any, output: Any, hull: Any, slope: Any) -> int:
    """Finds the points that are best at some price, in ascending cost, and the price below which each is
    better than the one before it; prices descend. Returns their number."""
    # Invariant: hull[:kept] is the upper hull of the points before p.
    kept = 0
    for p in range(size):
        while True:
            before = hull[kept - 1] if kept > 0 else -1
            more = cost[p] - (cost[before] if before >= 0 else 0.0)
            gain = output[p] - (output[before] if before >= 0 else 0.0)
            price = gain / more if more > 0.0 else np.inf
            if kept == 0 or price < slope[kept - 1]:
                break
            kept -= 1
        hull[kept], slope[kept] = p, price
        kept += 1
    return kept


@njit(cache=True)
def _priced(price: float, kept: Any, hull: Any, slope: Any, cost: Any, output: Any, taken: Any) -> Any:
    """Fills `taken` with the point of each class at a price (-1: none); returns total cost and output."""
    spent, got = 0.0, 0.0
    for i in range(len(kept)):
        low, high = 0, kept[i]
        while low < high:
            middle = (low + high) // 2
            if slope[i, middle] > price:
                low = middle + 1
            else:
                high = middle
        taken[i] = hull[i, low - 1] if low > 0 else -1
        if low > 0:
            spent += cost[i, taken[i]]
            got += output[i, taken[i]]
    return spent, got


@njit(cache=True)
def _fitting(costs: Any, size: int, room: float) -> int:
    """The last point of an ascending list that fits; -1 if none does."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if costs[middle] <= room:
            low = middle + 1
        else:
            high = middle
    return low - 1


@njit(cache=True)
def _improve(limit: float, spent: float, sizes: Any, cost: Any, output: Any, taken: Any) -> float:
    """Spends the rest of the budget, always in the class where it gains most; returns the gain."""
    gained = 0.0
    while True:
        most, at, point = 0.0, -1, -1
        for i in range(len(sizes)):
            own = cost[i, taken[i]] if taken[i] >= 0 else 0.0
            has = output[i, taken[i]] if taken[i] >= 0 else 0.0
            p = _fitting(cost[i], sizes[i], limit - spent + own)
            if p >= 0 and output[i, p] - has > most:
                most, at, point = output[i, p] - has, i, p
        if at < 0:
            return gained
        spent += cost[at, point] - (cost[at, taken[at]] if taken[at] >= 0 else 0.0)
        taken[at] = point
        gained += most


@njit(cache=True)
def solve_multiple_choice(budget: float, steps: int, sizes: Any, cost: Any, output: Any, best: Any) -> bool:
    """Fills `best` with the point of each class (-1: none). Each class ascends in cost and in output.

    Returns whether the choice is known to be optimal: False if the search ran out of `steps`.
    """
    m, limit = len(sizes), budget * FITS
    kept = np.zeros(m, np.int64)
    hull, slope = np.empty(cost.shape, np.int64), np.empty(cost.shape)
    low, high = 0.0, 1.0
    for i in range(m):
        kept[i] = _hull(sizes[i], cost[i], output[i], hull[i], slope[i])
    spent, got = _priced(0.0, kept, hull, slope, cost, output, best)
    if spent <= limit:
        return True
    while _priced(high, kept, hull, slope, cost, output, best)[0] > limit:
        if high == np.inf:  # even the empty choice does not fit
            return False
        high *= 16.0
    for _ in range(_HALVINGS):
        price = 0.5 * (low + high)
        if _priced(price, kept, hull, slope, cost, output, best)[0] > limit:
            low = price
        else:
            high = price
        if high - low <= 1e-12 * high:
            break
    spent, got = _priced(high, kept, hull, slope, cost, output, best)
    bound = got + high * (budget - spent)
    known = got + _improve(limit, spent, sizes, cost, output, best)
    return _search(limit, steps, high, bound, known, sizes, cost, output, best)


@njit(cache=True)
def _search(
    limit: float,
    steps: int,
    price: float,
    bound: float,
    known: float,
    sizes: Any,
    cost: Any,
    output: Any,
    best: Any,
) -> bool:
    """Improves `best` by a depth-first search over points whose total shortfall allows more than `known`.

    Invariant: at `depth`, points of the first `depth` classes of `order` are fixed; `spent`, `got` and
    `lacking` at that depth are their sums. The last class needs no search: it takes the largest point that
    fits.
    """
    m = len(sizes)
    same = 1e-9 * bound
    if bound - known <= same:
        return True
    room = cost.shape[1] + 1
    point, short = np.empty((m, room), np.int64), np.empty((m, room))
    left = np.zeros(m, np.int64)
    value = np.empty(room)
    for i in range(m):
        top = 0.0
        for p in range(sizes[i]):
            value[p] = output[i, p] - price * cost[i, p]
            top = max(top, value[p])
        for p in range(-1, sizes[i]):
            lacks = top - value[p] if p >= 0 else top
            if bound - lacks > known:
                at = left[i]
                while at > 0 and short[i, at - 1] > lacks:
                    short[i, at], point[i, at] = short[i, at - 1], point[i, at - 1]
                    at -= 1
                short[i, at], point[i, at] = lacks, p
                left[i] += 1
    order = order_of_few(left)
    last = order[m - 1]
    place, spent, got, lacking = np.zeros(m, np.int64), np.zeros(m), np.zeros(m), np.zeros(m)
    depth, done = 0, 0
    while depth >= 0:
        if depth == m - 1:
            done += 1
            p = _fitting(cost[last], sizes[last], limit - spent[depth])
            reached = got[depth] + (output[last, p] if p >= 0 else 0.0)
            if reached > known:
                known = reached
                for d in range(m - 1):
                    best[order[d]] = point[order[d], place[d] - 1]
                best[last] = p
                if bound - known <= same:
                    return True
            if done >= steps:
                return False
            depth -= 1
            continue
        i, at = order[depth], place[depth]
        if at == left[i] or bound - lacking[depth] - short[i, at] <= known:
            place[depth] = 0
            depth -= 1
            continue
        place[depth] += 1
        p = point[i, at]
        total = spent[depth] + (cost[i, p] if p >= 0 else 0.0)
        if total > limit:
            continue
        spent[depth + 1] = total
        got[depth + 1] = got[depth] + (output[i, p] if p >= 0 else 0.0)
        lacking[depth + 1] = lacking[depth] + short[i, at]
        depth += 1
    return True
