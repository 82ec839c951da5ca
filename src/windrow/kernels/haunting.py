"""Adding up what ghosts take part in: rows that are here only to tell what was lost."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def haunted(
    noted: Any, rows: Any, fresh: int, ghost: Any, weight: Any, weights: Any, depth: Any, met: Any, sums: Any
) -> Any:
    """Which results have a ghost among these `rows`, and its slot; `noted` has a row's slot plus one, 0 for
    none. Their `weights` are multiplied by the ghost's, and they are deeper by one.

    All results of watched rows are counted in `met`, by slot, but for those of rows from `fresh` on, which
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
def add_up(values: Any, counted: Any, depth: Any, missed: Any) -> Any:
    """The sum of the values and of what they are `counted` as; adds the difference to what was `missed`, by
    the number of a result's ghosts."""
    found = true = 0.0
    for k in range(len(values)):
        found += values[k]
        true += counted[k]
        if depth[k] > 0:
            missed[depth[k] - 1] += counted[k] - values[k]
    return found, true


@njit(cache=True, nogil=True)
def account(
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
    """Results `which` have a ghost in these slots. By the number of a result's ghosts, and by slot, adds what
    it is `counted` as to what was `seen`, and tells how many ghosts are `bringing` any.

    With y what a ghost of weight w takes part in, (1 - 1/w) y^2 adds to the variance; it grows by the
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
