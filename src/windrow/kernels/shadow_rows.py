"""Sums over the results of shadow rows, which are kept only to estimate missed results."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def shadow_matches(
    noted: Any, rows: Any, fresh: int, ghost: Any, weight: Any, weights: Any, depth: Any, met: Any, sums: Any
) -> Any:
    """Which results have a shadow row among these `rows`, and its slot; `noted` has a row's slot plus one, 0
    for none. Their `weights` are multiplied by the shadow row's, and they are deeper by one.

    All results of monitored rows are counted in `met`, by slot, but for those of rows from `fresh` on, which
    nobody could have given up yet; their number, and that of all squares of such counts, are kept in `sums`.
    """
    which, slots, found = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64), 0
    results = squares = 0.0
    for k in range(len(rows)):
        slot = np.int64(noted[rows[k]]) - 1
        if slot < 0:
            continue
        if rows[k] < fresh:
            results += 1.0
            squares += 2.0 * met[slot] + 1.0
            met[slot] += 1.0
        if ghost[slot]:
            which[found], slots[found] = k, slot
            weights[k] *= weight[slot]
            depth[k] += 1
            found += 1
    sums[0] += results
    sums[1] += squares
    return which[:found].copy(), slots[:found].copy()


@njit(cache=True, nogil=True)
def weighted_sums(values: Any, counted: Any, depth: Any, missed: Any) -> Any:
    """The sum of the values and of what they are `counted` as; adds the difference to what was `missed`, by
    the number of a result's shadow rows."""
    found = true = 0.0
    for k in range(len(values)):
        found += values[k]
        true += counted[k]
        if depth[k] > 0:
            missed[depth[k] - 1] += counted[k] - values[k]
    return found, true


@njit(cache=True, nogil=True)
def add_shadow_variance(
    which: Any,
    slots: Any,
    depth: Any,
    counted: Any,
    weight: Any,
    seen: Any,
    variance: Any,
    largest: Any,
    bringing: Any,
) -> None:
    """Results `which` have a shadow row in these slots. By the number of a result's shadow rows, and by slot,
    adds what it is `counted` as to what was `seen`, and tells how many shadow rows are `bringing` any.

    With y what a shadow row of weight w takes part in, (1 - 1/w) y^2 adds to the variance; it grows by the
    difference with every result.
    """
    for k in range(len(which)):
        level, slot = depth[which[k]] - 1, slots[k]
        chance = 1.0 - 1.0 / weight[slot]
        before = seen[level, slot]
        after = before + counted[which[k]]
        seen[level, slot] = after
        variance[level] += chance * (after * after - before * before)
        largest[level] = max(largest[level], chance * after)
        bringing[level] += before == 0.0
