"""Tables of what a hop costs and finds, and the greedy searches for harvest fractions (GrubJoin s. 4, 5.1).

The searches read two tables, `work[i, j, c]` and `fan[i, j, c]`. They hold, for each partial match that
enters hop j of direction i, its cost and the partial matches that leave the hop, if the c best of its
`counts[i, j]` basic windows are probed. Per second

    cost of direction i    rates[i] * (work[0] + fan[0] * (work[1] + fan[1] * (work[2] + ...)))
    its results            rates[i] * fan[0] * fan[1] * ...

and cost and output of the join are the sums over its directions. A setting is an array `chosen[i, j]` of
numbers c. A direction with a 0 at any hop finds nothing, so the searches set all its hops to 0: it is off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

SCAN, SORTED, HASH = 0, 1, 2
OUTPUT, OUTPUT_PER_COST, GAIN = 0, 1, 2
"""Metrics of the greedy searches: most output, most output per cost, most additional output per additional
cost."""
FITS = 1 + 1e-12
"""A cost up to this factor above the budget fits: sums differ by rounding."""


@njit(cache=True)
def rank(scores: Any, counts: Any, ranking: Any) -> None:
    """The basic windows of each hop, best first; equal scores youngest first."""
    m, hops, _ = scores.shape
    for i in range(m):
        for j in range(hops):
            for k in range(counts[i, j]):
                at = k
                while at > 0 and scores[i, j, ranking[i, j, at - 1]] < scores[i, j, k]:
                    ranking[i, j, at] = ranking[i, j, at - 1]
                    at -= 1
                ranking[i, j, at] = k


@njit(cache=True)
def tabulate(
    scores: Any,
    counts: Any,
    shares: Any,
    rows: Any,
    selectivity: Any,
    driver: Any,
    access: Any,
    lookup: float,
    match: float,
    ranking: Any,
    found: Any,
    work: Any,
    fan: Any,
) -> None:
    """Fills `found` (yield factors P), `work` and `fan` for c = 0 to counts; later entries are never read.

    `shares[i, j, k]` is the fraction of the window's rows in its k-th basic window, `driver` the fraction of
    rows that an index finds. `lookup` and `match` are the costs of one index lookup and of building one
    match.
    """
    m, hops, _ = scores.shape
    for i in range(m):
        for j in range(hops):
            n = counts[i, j]
            total = 0.0
            for k in range(n):
                total += scores[i, j, k]
            # Invariant: these are the sums over the c best basic windows.
            looked, yielded, entered = 0.0, 0.0, 0.0
            found[i, j, 0] = work[i, j, 0] = fan[i, j, 0] = 0.0
            for c in range(1, n + 1):
                k = ranking[i, j, c - 1]
                here = rows[i, j] * shares[i, j, k]
                looked += here
                # Without scores matches lie evenly, so a basic window yields its share of the rows.
                yielded += scores[i, j, k] / total if total > 0.0 else shares[i, j, k]
                yielded = min(yielded, 1.0) if c < n else 1.0
                matches = yielded * selectivity[i, j] * rows[i, j]
                compared = looked
                if access[i, j] == SORTED:
                    entered += lookup * np.log2(1.0 + here)
                    compared = min(looked, entered + yielded * driver[i, j] * rows[i, j])
                elif access[i, j] == HASH:
                    entered += lookup
                    compared = min(looked, entered + yielded * driver[i, j] * rows[i, j])
                found[i, j, c] = yielded
                work[i, j, c] = max(compared + match * matches, work[i, j, c - 1])
                fan[i, j, c] = matches


@njit(cache=True)
def direction(i: int, rates: Any, work: Any, fan: Any, chosen: Any) -> Any:
    """Cost and results of a direction per second."""
    cost, partial = 0.0, rates[i]
    for j in range(work.shape[1]):
        c = chosen[i, j]
        cost += partial * work[i, j, c]
        partial *= fan[i, j, c]
    return cost, partial


@njit(cache=True)
def raised(i: int, hop: int, rates: Any, work: Any, fan: Any, chosen: Any) -> Any:
    """Cost and results of direction i after `raise_hop`."""
    cost, partial = 0.0, rates[i]
    for j in range(work.shape[1]):
        c = chosen[i, j] + int(j == hop or chosen[i, 0] == 0)
        cost += partial * work[i, j, c]
        partial *= fan[i, j, c]
    return cost, partial


@njit(cache=True)
def raise_hop(i: int, hop: int, chosen: Any) -> None:
    """Adds a basic window at the hop, or at every hop if the direction is off: fewer would find nothing."""
    if chosen[i, 0] > 0:
        chosen[i, hop] += 1
    else:
        chosen[i] += 1


@njit(cache=True)
def total(rates: Any, work: Any, fan: Any, chosen: Any) -> Any:
    """Cost and results of the join per second."""
    cost, output = 0.0, 0.0
    for i in range(len(rates)):
        c, o = direction(i, rates, work, fan, chosen)
        cost += c
        output += o
    return cost, output


@njit(cache=True, inline="always")
def _value(metric: int, cost: float, output: float, more_cost: float, more_output: float) -> float:
    if metric == OUTPUT:
        return output
    if metric == OUTPUT_PER_COST:
        return output / cost if cost > 0.0 else np.inf
    if more_cost > 0.0:
        return more_output / more_cost
    return np.inf if more_output > 0.0 else 0.0


@njit(cache=True)
def greedy(budget: float, metric: int, rates: Any, counts: Any, work: Any, fan: Any, chosen: Any) -> int:
    """Repeatedly raises the fraction with the best metric, while the cost fits (Fig. 5).

    A step that does not fit is not tried again: costs only grow. `chosen` may start as any setting that fits.
    Returns the number of settings evaluated.
    """
    m, hops = chosen.shape
    frozen = np.zeros((m, hops), np.bool_)
    costs, outputs = np.zeros(m), np.zeros(m)
    cost, output, evaluated = 0.0, 0.0, 0
    for i in range(m):
        costs[i], outputs[i] = direction(i, rates, work, fan, chosen)
        cost += costs[i]
        output += outputs[i]
    while True:
        best, at, on = 0.0, -1, -1
        for i in range(m):
            started = chosen[i, 0] > 0
            for j in range(hops if started else 1):
                if frozen[i, j] or (started and chosen[i, j] == counts[i, j]):
                    continue
                c, o = raised(i, j, rates, work, fan, chosen)
                evaluated += 1
                more, gain = c - costs[i], o - outputs[i]
                if cost + more > budget * FITS:
                    frozen[i, j] = True
                    continue
                value = _value(metric, cost + more, output + gain, more, gain)
                if value > best:
                    best, at, on = value, i, j
        if at < 0:
            return evaluated
        raise_hop(at, on, chosen)
        cost -= costs[at]
        output -= outputs[at]
        costs[at], outputs[at] = direction(at, rates, work, fan, chosen)
        cost += costs[at]
        output += outputs[at]


@njit(cache=True)
def reverse(budget: float, metric: int, rates: Any, work: Any, fan: Any, chosen: Any) -> int:
    """Repeatedly lowers the fraction whose loss is least by the metric, until the cost fits.

    Without a hop's last basic window the direction is off. `chosen` starts with all basic windows. Returns
    the number of settings evaluated.
    """
    m, hops = chosen.shape
    costs, outputs = np.zeros(m), np.zeros(m)
    cost, output, evaluated = 0.0, 0.0, 0
    for i in range(m):
        costs[i], outputs[i] = direction(i, rates, work, fan, chosen)
        cost += costs[i]
        output += outputs[i]
    while cost > budget * FITS:
        best, at, on = -np.inf, -1, -1
        for i in range(m):
            if chosen[i, 0] == 0:
                continue
            for j in range(hops):
                c, o = 0.0, 0.0
                if chosen[i, j] > 1:
                    chosen[i, j] -= 1
                    c, o = direction(i, rates, work, fan, chosen)
                    chosen[i, j] += 1
                evaluated += 1
                less, loss = costs[i] - c, outputs[i] - o
                value = _value(metric, cost - less, output - loss, less, loss)
                if metric == GAIN:  # the least output for the cost saved
                    value = -value if less > 0.0 else -np.inf
                if value > best:
                    best, at, on = value, i, j
        if at < 0:  # no single step saves anything
            chosen[:] = 0
            return evaluated
        chosen[at, on] -= 1
        if chosen[at, on] == 0:
            chosen[at] = 0
        cost -= costs[at]
        output -= outputs[at]
        costs[at], outputs[at] = direction(at, rates, work, fan, chosen)
        cost += costs[at]
        output += outputs[at]
    return evaluated


@njit(cache=True)
def fill(budget: float, rates: Any, counts: Any, work: Any, fan: Any, chosen: Any, used: Any) -> None:
    """Sets `used` to `chosen` plus a fraction of one more basic window: the one for which the rest of the
    budget gives most. Rows lie evenly inside a basic window, so cost and output are linear in the fraction.

    A direction that is off can be switched on with a fraction at its first hop and one basic window at the
    others.
    """
    m, hops = chosen.shape
    spent, _ = total(rates, work, fan, chosen)
    most, at, on, part = 0.0, -1, -1, 0.0
    for i in range(m):
        cost, output = direction(i, rates, work, fan, chosen)
        started = chosen[i, 0] > 0
        for j in range(hops):
            used[i, j] = chosen[i, j]
        for j in range(hops if started else 1):
            if chosen[i, j] == counts[i, j]:
                continue
            c, o = raised(i, j, rates, work, fan, chosen)
            fits = min(1.0, max(0.0, (budget - spent) / (c - cost))) if c > cost else 1.0
            if fits * (o - output) > most:
                most, at, on, part = fits * (o - output), i, j, fits
    if at >= 0:
        if chosen[at, 0] == 0:
            used[at] = 1.0
            used[at, 0] = part
        else:
            used[at, on] += part
