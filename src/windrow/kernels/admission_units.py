"""Which of a fixed number of units a row belongs to: by the hash of its key, of its cell, or of its time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.hashing import GOLDEN, avalanche

UNITS = 1024
_SHIFT = np.uint64(54)


@njit(cache=True, nogil=True)
def units_of(keys: Any) -> Any:
    """The unit of each key. Keys are mixed differently from the hash tables' own hash: otherwise the admitted
    keys would crowd into a few long chains."""
    out = np.empty(len(keys), np.int64)
    for k in range(len(keys)):
        out[k] = np.int64(avalanche(np.uint64(keys[k]) + GOLDEN) >> _SHIFT)
    return out


@njit(cache=True, nogil=True)
def cells_of(values: Any, width: float) -> Any:
    """The unit of the cell of this width that each value lies in."""
    out = np.empty(len(values), np.int64)
    for k in range(len(values)):
        out[k] = np.int64(avalanche(np.uint64(np.int64(np.floor(values[k] / width))) + GOLDEN) >> _SHIFT)
    return out


@njit(cache=True, nogil=True)
def rows_of_units(units: Any, kept: Any) -> Any:
    """Positions of the rows whose unit is kept."""
    out = np.empty(len(units), np.int64)
    count = 0
    for k in range(len(units)):
        out[count] = k
        count += kept[units[k]]
    return out[:count]


@njit(cache=True, nogil=True)
def probabilities(units: Any, ts: Any, since: Any, probability: Any, certain: Any, out: Any) -> None:
    """Write the probability of each result's units, by stream. If several rows of a result share a unit, the
    first of them gets the smallest of their probabilities, and the others get 1.

    The probability of a row depends on its time. From each time in `since` on it is the entry of
    `probability`, or 1 if the unit is `certain`. Before the first such time it is 1.
    """
    streams, count = ts.shape
    for k in range(count):
        for i in range(streams):
            u, at = units[i, k], ts[i, k]
            step = np.searchsorted(since, at, side="right")
            own = 1.0 if step == 0 or certain[step - 1, u] else probability[step - 1]
            for j in range(i):
                if units[j, k] == u:
                    out[j, k] = min(out[j, k], own)
                    own = 1.0
                    break
            out[i, k] = own


@njit(cache=True, nogil=True)
def weigh(units: Any, probability: Any, weight: float, totals: Any) -> tuple[float, float]:
    """The total weight of results with these probabilities, and its variance. Each result represents `weight`
    results. A unit of probability p whose results weigh y in total adds (1 - p) y^2 to the variance. If the
    results are a sample, the spread of their weights is added too. Weights are added to the unit `totals`."""
    streams, count = probability.shape
    estimated = squares = variance = 0.0
    for k in range(count):
        each = weight
        for i in range(streams):
            each /= probability[i, k]
        estimated += each
        squares += each * each
        for i in range(streams):
            if probability[i, k] < 1.0:
                before = totals[units[i, k]]
                totals[units[i, k]] = before + each
                variance += (1.0 - probability[i, k]) * ((before + each) ** 2 - before**2)
    if weight > 1.0:
        variance += max(0.0, squares - estimated * estimated / count)
    return estimated, variance


@njit(cache=True, nogil=True)
def finders(rows: Any) -> tuple[int, float]:
    """The number of rows that have results, and the sum of the squares of their result counts."""
    if len(rows) == 0:
        return 0, 0.0
    first = last = rows[0]
    for k in range(len(rows)):
        first, last = min(first, rows[k]), max(last, rows[k])
    each = np.zeros(last - first + 1)
    for k in range(len(rows)):
        each[rows[k] - first] += 1.0
    found, squares = 0, 0.0
    for k in range(len(each)):
        found += each[k] > 0.0
        squares += each[k] * each[k]
    return found, squares
