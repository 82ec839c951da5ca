"""Marks the rows of lowest priority without sorting all of them.

A sample of the rows gives two priorities between which the border probably lies. One pass collects the rows
in between, and the search continues among them (Floyd and Rivest's selection, with weights).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_SORTED = 64
"""Up to this number, rows are sorted."""
_SAMPLE = 512
_WIDE = 3.0
"""Half the width of the range that is searched, in standard deviations of the border's rank in the sample."""


@njit(cache=True, nogil=True)
def nonzero_rows(values: Any) -> Any:
    """The rows whose value is not 0. As these are few, this is ten times as fast as numpy's `flatnonzero`."""
    out, found = np.empty(len(values), np.int64), 0
    for row in range(len(values)):
        if values[row] != 0.0:
            out[found] = row
            found += 1
    return out[:found].copy()


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _freed(rank: Any, frees: Any, low: float, high: float) -> Any:
    """Memory freed by the rows of priorities below `low`, and by those up to `high`."""
    below = within = 0.0
    for k in range(len(rank)):
        below += frees[k] if rank[k] < low else 0.0
        within += frees[k] if rank[k] <= high else 0.0
    return below, within


@njit(cache=True, nogil=True)
def _between(rank: Any, frees: Any, low: float, high: float, at: Any, ranks: Any, freeing: Any) -> int:
    """Copies the rows of priorities from `low` to `high`; returns their number. Works in place too. As these
    rows are few, it is faster to collect their positions in `at` first and then to copy them."""
    kept = 0
    for k in range(len(rank)):
        at[kept] = k
        kept += (rank[k] >= low) & (rank[k] <= high)
    for k in range(kept):
        ranks[k], freeing[k] = rank[at[k]], frees[at[k]]
    return kept


@njit(cache=True, nogil=True)
def _border(rank: Any, frees: Any, needed: float) -> Any:
    """The border priority up to which rows are evicted, and how much the rows of exactly that priority must
    free.

    Invariant: the border is among `ranks`, and `left` is the memory that these must free.
    """
    most = np.finfo(np.float64).max
    freed, left = _freed(rank, frees, np.inf, most)[1], needed
    if freed <= needed:
        return np.inf, 0.0
    ranks, freeing = rank, frees
    out, outs, at = np.empty(len(rank)), np.empty(len(rank)), np.empty(len(rank) + 1, np.int32)
    while len(ranks) > _SORTED:
        sample = np.sort(ranks[:: len(ranks) // _SAMPLE + 1])
        mid = min(int(left / freed * len(sample)), len(sample) - 1)
        wide = int(_WIDE * np.sqrt((mid + 1) * (len(sample) - mid) / len(sample))) + 1
        low, high = sample[max(0, mid - wide)], min(most, sample[min(len(sample) - 1, mid + wide)])
        if low == sample[0] and high == sample[-1]:
            # The range is no narrower than before: split at one priority, so that the search always advances.
            low = high = sample[mid]
        below, within = _freed(ranks, freeing, low, high)
        if below >= left:  # the border is below the range
            low, high, freed = -np.inf, np.nextafter(low, -np.inf), below
        elif within < left:  # the border is above the range
            low, high, freed, left = np.nextafter(high, np.inf), most, freed - within, left - within
        else:
            freed, left = within - below, left - below
            if low == high:
                return low, left
        kept = _between(ranks, freeing, low, high, at, out, outs)
        ranks, freeing = out[:kept], outs[:kept]
    for border in np.sort(ranks):
        below, within = _freed(ranks, freeing, border, border)
        if within >= left:
            return border, left - below
    return np.inf, 0.0


@njit(cache=True, nogil=True)
def mark_lowest(rank: Any, frees: Any, needed: float, out: Any) -> None:
    """Marks the fewest rows of lowest priority that together free what is `needed`; of equal priorities the
    first. Rows of infinite priority are never marked."""
    border, left = _border(rank, frees, needed)
    for k in range(len(rank)):
        out[k] = rank[k] < border
    k = 0
    while left > 0.0 and k < len(rank):
        if rank[k] == border:
            out[k] = True
            left -= frees[k]
        k += 1


@njit(cache=True, nogil=True)
def exclude_rows(
    gone: Any, monitored: Any, shadow: Any, leaving: Any, cost: float, rank: Any, frees: Any
) -> None:
    """Prepares `mark_lowest`: rows that are evicted anyway, and shadow rows, get an infinite priority.
    Monitored rows free nothing, all others a row's cost. `gone` is a mask over the rows, `shadow` over the
    `monitored` ones."""
    frees[:] = cost
    for row in range(len(rank)):
        rank[row] = np.inf if gone[row] else rank[row]
    for k in range(len(monitored)):
        frees[monitored[k]] = 0.0
        if shadow[k]:
            rank[monitored[k]] = np.inf
    for k in range(len(leaving)):
        rank[leaving[k]] = np.inf


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def age_moments(low: Any, ts: Any, now: int) -> Any:
    """Number of the rows that are marked as `low`, the sum of their ages in seconds, and that of the
    squares."""
    count, total, squares = 0, 0.0, 0.0
    for row in range(len(ts)):
        age = (now - ts[row]) * 1e-6 if low[row] else 0.0
        count += low[row]
        total += age
        squares += age * age
    return count, total, squares
