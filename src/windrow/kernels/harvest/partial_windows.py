"""Harvests that use their whole budget by probing a fraction of one basic window.

Tables and settings are those of `tables`. Rows lie evenly inside a basic window, so cost and output are
linear in the fraction that is probed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.harvest.tables import raise_hop, raised


@njit(cache=True)
def climb(budget: float, rates: Any, counts: Any, work: Any, fan: Any, chosen: Any, used: Any) -> float:
    """Starts with no basic window and repeatedly takes the step that gains most per cost. Of the first step
    that does not fit, takes the fraction that fits.

    A direction that is off is switched on with one basic window at each hop, or a fraction at the first.
    `chosen` starts as zeros and ends with the complete steps; `used` adds the last fraction. Returns the
    output.
    """
    m, hops = chosen.shape
    costs, outputs = np.zeros(m), np.zeros(m)
    cost, output = 0.0, 0.0
    while True:
        best, at, on, more, gain = 0.0, -1, -1, 0.0, 0.0
        for i in range(m):
            started = chosen[i, 0] > 0
            for j in range(hops if started else 1):
                if started and chosen[i, j] == counts[i, j]:
                    continue
                c, o = raised(i, j, rates, work, fan, chosen)
                value = (o - outputs[i]) / max(c - costs[i], 1e-300)
                if value > best:
                    best, at, on, more, gain = value, i, j, c - costs[i], o - outputs[i]
        part = 0.0
        if at >= 0:
            part = min(1.0, max(0.0, (budget - cost) / more)) if more > 0.0 else 1.0
        if part < 1.0:
            for i in range(m):
                for j in range(hops):
                    used[i, j] = chosen[i, j]
            if part > 0.0:
                if chosen[at, 0] > 0:
                    used[at, on] += part
                else:
                    used[at] = 1.0
                    used[at, 0] = part
            return output + part * gain
        raise_hop(at, on, chosen)
        cost += more
        output += gain
        costs[at] += more
        outputs[at] += gain
