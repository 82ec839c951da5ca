"""Sums over sampled results, by kind. Sampled rows add to them, and so do shadow rows, which are kept only to
estimate missed results."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

FOUND, ESTIMATED, VARIANCE, LARGEST, CONTRIBUTING = range(5)
"""Columns: results found; all results, estimated without bias; the variance of that estimate; the largest
part of the estimate that depends on one sampled row; and the number of sampled rows with results."""


@njit(cache=True, inline="always")
def add_row_results(sums: Any, kind: int, weight: float, before: float, after: float) -> None:
    """The results of a row that represents `weight` rows grow from `before` to `after`. A total of y adds
    (1 - 1/weight) y^2 to the variance, so this adds the difference."""
    chance = 1.0 - 1.0 / weight
    sums[kind, VARIANCE] += chance * (after * after - before * before)
    sums[kind, LARGEST] = max(sums[kind, LARGEST], chance * after)
    sums[kind, CONTRIBUTING] += before == 0.0 and chance > 0.0


@njit(cache=True, nogil=True)
def shadow_matches(
    slots: Any, rows: Any, first_new: int, shadow: Any, weight: Any, weights: Any, depth: Any, counts: Any,
    moments: Any,
) -> Any:  # fmt: skip
    """The results that have a shadow row among these `rows`, and its slot. `slots` has each row's slot plus
    one, 0 for none. Multiplies the `weights` of these results by the shadow row's, and adds one to their
    `depth`.

    Counts the results of monitored rows in `counts`, by slot, except those of rows from `first_new` on, which
    could not have been evicted yet; `moments` has the number of rows with any, and the sums of these
    counts and of their squares.
    """
    which, at, found = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64), 0
    with_results = results = squares = 0.0
    for k in range(len(rows)):
        slot = np.int64(slots[rows[k]]) - 1
        if slot < 0:
            continue
        if rows[k] < first_new:
            with_results += counts[slot] == 0.0
            results += 1.0
            squares += 2.0 * counts[slot] + 1.0  # (n + 1)^2 - n^2
            counts[slot] += 1.0
        if shadow[slot]:
            which[found], at[found] = k, slot
            weights[k] *= weight[slot]
            depth[k] += 1
            found += 1
    moments[0] += with_results
    moments[1] += results
    moments[2] += squares
    return which[:found].copy(), at[:found].copy()


@njit(cache=True, nogil=True)
def add_results(values: Any, counted: Any, depth: Any, sums: Any) -> None:
    """Adds results to the sums of their depth: `values` as found, `counted` with their weights."""
    for k in range(len(values)):
        sums[depth[k], FOUND] += values[k]
        sums[depth[k], ESTIMATED] += counted[k]


@njit(cache=True, nogil=True)
def add_shadow_results(
    which: Any, slots: Any, depth: Any, counted: Any, weight: Any, seen: Any, sums: Any
) -> None:
    """Adds the `counted` values of the results `which` to the totals `seen` of their shadow rows, by depth
    and slot; and to the variance."""
    for k in range(len(which)):
        level, slot = depth[which[k]], slots[k]
        before = seen[level, slot]
        seen[level, slot] = before + counted[which[k]]
        add_row_results(sums, level, weight[slot], before, seen[level, slot])
