"""Greedy searches for harvest fractions (GrubJoin s. 5.1): upward, downward, and upward to the last fraction.

Tables and settings are those of `tables`. Settings are copied in loops: assigning one array to another takes
seconds to compile, for the message when their shapes differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.harvest.tables import FITS, direction

OUTPUT, OUTPUT_PER_COST, GAIN = np.arange(3)
"""Metrics of a step: most output, most output per cost, most additional output per additional cost."""
_NONE: Any = np.int64(-1)
"""No direction or hop. Of numpy's type, as the metrics are: a plain number is a type of its own to numba,
which compiles what is called with it once more."""


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
def _raised(i: int, hop: int, tables: Any, chosen: Any) -> Any:
    """Cost and results of direction i after `_raise_hop`."""
    cost, partial = 0.0, tables.rates[i]
    for j in range(chosen.shape[1]):
        c = chosen[i, j] + int(j == hop or chosen[i, 0] == 0)
        cost += partial * tables.work[i, j, c]
        partial *= tables.fan[i, j, c]
    return cost, partial


@njit(cache=True)
def _raise_hop(i: int, hop: int, chosen: Any) -> None:
    """Adds a basic window at the hop, or at every hop if the direction is off: fewer would find nothing."""
    if chosen[i, 0] > 0:
        chosen[i, hop] += 1
    else:
        for j in range(chosen.shape[1]):
            chosen[i, j] += 1


@njit(cache=True)
def _switch_off(i: int, chosen: Any) -> None:
    for j in range(chosen.shape[1]):
        chosen[i, j] = 0


@njit(cache=True)
def _best_step(
    metric: int, room: float, tables: Any, chosen: Any, costs: Any, outputs: Any, over: Any
) -> Any:
    """(direction, hop, cost, output, settings evaluated) of the step with the best metric among those that
    cost no more than `room`; direction -1 if there is none. Steps that cost more are marked in `over` and not
    tried again: costs only grow."""
    m, hops = chosen.shape
    cost, output, evaluated = costs.sum(), outputs.sum(), 0
    best, at, on, at_cost, at_output = 0.0, _NONE, _NONE, 0.0, 0.0
    for i in range(m):
        started = chosen[i, 0] > 0
        for j in range(hops if started else 1):
            if over[i, j] or (started and chosen[i, j] == tables.counts[i, j]):
                continue
            c, o = _raised(i, j, tables, chosen)
            evaluated += 1
            more, gain = c - costs[i], o - outputs[i]
            if more > room:
                over[i, j] = True
                continue
            value = _value(metric, cost + more, output + gain, more, gain)
            if value > best:
                best, at, on, at_cost, at_output = value, i, j, more, gain
    return at, on, at_cost, at_output, evaluated


@njit(cache=True)
def _each_direction(tables: Any, chosen: Any) -> Any:
    """Costs and outputs by direction."""
    m = len(chosen)
    costs, outputs = np.zeros(m), np.zeros(m)
    for i in range(m):
        costs[i], outputs[i] = direction(i, tables, chosen)
    return costs, outputs


@njit(cache=True)
def greedy(budget: float, metric: int, tables: Any, chosen: Any) -> int:
    """Repeatedly raises the fraction with the best metric, while the cost fits (Fig. 5).

    `chosen` may start as any setting that fits. Returns the number of settings evaluated.
    """
    costs, outputs = _each_direction(tables, chosen)
    over = np.zeros(chosen.shape, np.bool_)
    total = 0
    while True:
        room = budget * FITS - costs.sum()
        i, hop, _, _, evaluated = _best_step(metric, room, tables, chosen, costs, outputs, over)
        total += evaluated
        if i < 0:
            return total
        _raise_hop(i, hop, chosen)
        costs[i], outputs[i] = direction(i, tables, chosen)


@njit(cache=True)
def reverse(budget: float, metric: int, tables: Any, chosen: Any) -> int:
    """Repeatedly lowers the fraction whose loss is least by the metric, until the cost fits.

    Without a hop's last basic window the direction is off. `chosen` starts with all basic windows. Returns
    the number of settings evaluated.
    """
    m, hops = chosen.shape
    costs, outputs = _each_direction(tables, chosen)
    evaluated = 0
    while costs.sum() > budget * FITS:
        cost, output = costs.sum(), outputs.sum()
        best, at, on = -np.inf, _NONE, _NONE
        for i in range(m):
            if chosen[i, 0] == 0:
                continue
            for j in range(hops):
                c, o = 0.0, 0.0
                if chosen[i, j] > 1:
                    chosen[i, j] -= 1
                    c, o = direction(i, tables, chosen)
                    chosen[i, j] += 1
                evaluated += 1
                less, loss = costs[i] - c, outputs[i] - o
                value = _value(metric, cost - less, output - loss, less, loss)
                if metric == GAIN:  # the least output for the cost saved
                    value = -value if less > 0.0 else -np.inf
                if value > best:
                    best, at, on = value, i, j
        if at < 0:  # no single step saves anything
            for i in range(m):
                _switch_off(i, chosen)
            return evaluated
        chosen[at, on] -= 1
        if chosen[at, on] == 0:
            _switch_off(at, chosen)
        costs[at], outputs[at] = direction(at, tables, chosen)
    return evaluated


@njit(cache=True)
def climb(budget: float, tables: Any, chosen: Any, used: Any) -> float:
    """Repeatedly takes the step that gains most per cost. Of the first step that does not fit, takes the
    fraction that fits. Rows lie evenly inside a basic window, so cost and output are linear in the fraction.

    A direction that is off is switched on with one basic window at each hop, or a fraction at the first.
    `chosen` starts as any setting that fits and ends with the complete steps; `used` adds the last fraction.
    Returns the output.
    """
    costs, outputs = _each_direction(tables, chosen)
    over = np.zeros(chosen.shape, np.bool_)
    while True:
        i, hop, more, gain, _ = _best_step(GAIN, np.inf, tables, chosen, costs, outputs, over)
        part = 0.0
        if i >= 0:
            part = min(1.0, max(0.0, (budget - costs.sum()) / more)) if more > 0.0 else 1.0
        if part < 1.0:
            for d in range(chosen.shape[0]):
                for j in range(chosen.shape[1]):
                    used[d, j] = chosen[d, j]
            if part > 0.0 and chosen[i, 0] > 0:
                used[i, hop] += part
            elif part > 0.0:
                used[i, 0] = part
                for j in range(1, chosen.shape[1]):
                    used[i, j] = 1.0
            return outputs.sum() + part * gain
        _raise_hop(i, hop, chosen)
        costs[i], outputs[i] = direction(i, tables, chosen)
