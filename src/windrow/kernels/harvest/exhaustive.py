"""Exhaustive search over all settings of harvest fractions (GrubJoin s. 4.4). Tables as in `tables`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.harvest.tables import FITS, direction


@njit(cache=True)
def list_settings(tables: Any, costs: Any, outputs: Any) -> None:
    """Cost and output of every setting of each direction: setting 0 is off, the others have 1..n at each hop.

    The settings s > 0 count like digits: hop j has digit j of s - 1, plus 1, and the last hop varies fastest.
    """
    m, hops = tables.counts.shape
    chosen = np.ones((m, hops), np.int64)
    for i in range(m):
        settings = 1
        for j in range(hops):
            settings *= tables.counts[i, j]
        costs[i, 0] = outputs[i, 0] = 0.0
        for s in range(1, settings + 1):
            costs[i, s], outputs[i, s] = direction(i, tables, chosen)
            for j in range(hops - 1, -1, -1):
                chosen[i, j] += 1
                if chosen[i, j] <= tables.counts[i, j]:
                    break
                chosen[i, j] = 1


@njit(cache=True)
def exhaust(budget: float, sizes: Any, costs: Any, outputs: Any, best: Any) -> float:
    """Fills `best` with the setting of each direction in the best combination that fits; returns its
    output."""
    m = len(sizes)
    at = np.zeros(m, np.int64)
    limit, most, last = budget * FITS, 0.0, m - 1
    best[:] = 0
    # Invariant: `best` is optimal among the combinations before `at`, which counts through all directions but
    # the last; the last one is tried completely in each turn.
    while True:
        cost, output = 0.0, 0.0
        for i in range(last):
            cost += costs[i, at[i]]
            output += outputs[i, at[i]]
        for s in range(sizes[last]):
            if output + outputs[last, s] > most and cost + costs[last, s] <= limit:
                most = output + outputs[last, s]
                for i in range(last):
                    best[i] = at[i]
                best[last] = s
        turn = last - 1
        while turn >= 0:
            at[turn] += 1
            if at[turn] < sizes[turn]:
                break
            at[turn] = 0
            turn -= 1
        if turn < 0:
            return most
