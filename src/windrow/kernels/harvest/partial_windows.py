"""Using a budget to the last: harvests in which one basic window is looked at in part.

Tables and settings are those of `tables`. Rows lie evenly inside a basic window, so cost and output of a
setting are linear in the part of a window that is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.harvest.tables import direction


@njit(cache=True)
def climb(budget: float, rates: Any, counts: Any, work: Any, fan: Any, chosen: Any, used: Any) -> float:
    """From nothing, the step that gains most per cost each time; of the first that does not fit, what fits.

    A direction that is off is switched on with one basic window of each hop, of the first perhaps a part.
    `chosen` starts as zeros and ends as the whole steps, `used` with the last part. Returns the output.
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
                if started:
                    chosen[i, j] += 1
                else:
                    chosen[i] += 1
                c, o = direction(i, rates, work, fan, chosen)
                if started:
                    chosen[i, j] -= 1
                else:
                    chosen[i] -= 1
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
        if chosen[at, 0] > 0:
            chosen[at, on] += 1
        else:
            chosen[at] += 1
        cost += more
        output += gain
        costs[at] += more
        outputs[at] += gain
