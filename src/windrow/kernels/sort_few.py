"""Order and median of a few values. Numpy's would take seconds to compile."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def order_of_few(values: Any) -> Any:
    """The places of the values in ascending order, of equal ones the first first."""
    order = np.arange(len(values))
    for k in range(1, len(values)):
        at = k
        while at > 0 and values[order[at - 1]] > values[k]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = k
    return order


@njit(cache=True, nogil=True)
def median_of_few(values: Any) -> float:
    order, half = order_of_few(values), len(values) // 2
    above = values[order[half]]
    return above if len(values) % 2 else 0.5 * (values[order[half - 1]] + above)
