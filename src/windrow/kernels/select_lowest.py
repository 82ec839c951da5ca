"""Marks the rows of lowest priority without sorting all of them.

A sample of the rows gives two priorities between which the border must lie; one pass over the rows collects
those between, and the search goes on among them (Floyd and Rivest's selection, with weights).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_FEW = 64
"""Rows that may as well be sorted."""
_SAMPLE = 512
_WIDE = 3.0
"""How far on either side of where the border should be it is looked for, in standard deviations of its place
in the sample."""


@njit(cache=True, nogil=True)
def nonzero_rows(notes: Any) -> Any:
    """The rows whose value is not 0. Few are: numpy's `flatnonzero` takes ten times as long."""
    out, found = np.empty(len(notes), np.int64), 0
    for row in range(len(notes)):
        if notes[row] != 0.0:
            out[found] = row
            found += 1
    return out[:found].copy()


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _freed(rank: Any, frees: Any, low: float, high: float) -> Any:
    """What rows of ranks below `low` free, and what those up to `high` do."""
    below = within = 0.0
    for k in range(len(rank)):
        below += frees[k] if rank[k] < low else 0.0
        within += frees[k] if rank[k] <= high else 0.0
    return below, within


@njit(cache=True, nogil=True)
def _between(rank: Any, frees: Any, low: float, high: float, at: Any, ranks: Any, worths: Any) -> int:
    """Puts the rows of ranks from `low` to `high` aside; returns how many they are. May be done in place. As
    they are few it takes less time to note in `at` where they are, and then to copy them."""
    kept = 0
    for k in range(len(rank)):
        at[kept] = k
        kept += (rank[k] >= low) & (rank[k] <= high)
    for k in range(kept):
        ranks[k], worths[k] = rank[at[k]], frees[at[k]]
    return kept


@njit(cache=True, nogil=True)
def _border(rank: Any, frees: Any, needed: float) -> Any:
    """The rank up to which rows go, and how much those of this very rank must free.

    Invariant: the border is among `ranks`, and `left` is what these must free.
    """
    most = np.finfo(np.float64).max
    freed, left = _freed(rank, frees, np.inf, most)[1], needed
    if freed <= needed:
        return np.inf, 0.0
    ranks, worths = rank, frees
    out, outs, at = np.empty(len(rank)), np.empty(len(rank)), np.empty(len(rank) + 1, np.int32)
    while len(ranks) > _FEW:
        sample = np.sort(ranks[:: len(ranks) // _SAMPLE + 1])
        mid = min(int(left / freed * len(sample)), len(sample) - 1)
        wide = int(_WIDE * np.sqrt((mid + 1) * (len(sample) - mid) / len(sample))) + 1
        low, high = sample[max(0, mid - wide)], min(most, sample[min(len(sample) - 1, mid + wide)])
        if low == sample[0] and high == sample[-1]:
            low = high = sample[mid]
        below, within = _freed(ranks, worths, low, high)
        if below >= left:
            low, high, freed = -np.inf, np.nextafter(low, -np.inf), below
        elif within < left:
            low, high, freed, left = np.nextafter(high, np.inf), most, freed - within, left - within
        else:
            freed, left = within - below, left - below
            if low == high:
                return low, left
        kept = _between(ranks, worths, low, high, at, out, outs)
        ranks, worths = out[:kept], outs[:kept]
    for border in np.sort(ranks):
        below, within = _freed(ranks, worths, border, border)
        if within >= left:
            return border, left - below
    return np.inf, 0.0


@njit(cache=True, nogil=True)
def mark_lowest(rank: Any, frees: Any, needed: float, out: Any) -> None:
    """Marks the rows that rank lowest, as few as together free what is `needed`; of rows of the same rank the
    first. Rows of infinite rank are never marked."""
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
    gone: Any, watched: Any, ghost: Any, leaving: Any, cost: float, rank: Any, frees: Any
) -> None:
    """Before `mark_lowest`: rows that go in any case, and shadow rows, get an infinite priority and take no
    part. Monitored rows free nothing, all others a row's cost. `gone` is a mask over the rows, `ghost` over
    the `watched`."""
    frees[:] = cost
    for row in range(len(rank)):
        rank[row] = np.inf if gone[row] else rank[row]
    for k in range(len(watched)):
        frees[watched[k]] = 0.0
        if ghost[k]:
            rank[watched[k]] = np.inf
    for k in range(len(leaving)):
        rank[leaving[k]] = np.inf


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def age_moments(low: Any, ts: Any, now: int) -> Any:
    """Of the rows that are marked as `low`: how many there are, the sum of their ages in seconds, and that of
    the ages' squares."""
    count, total, squares = 0, 0.0, 0.0
    for row in range(len(ts)):
        age = (now - ts[row]) * 1e-6 if low[row] else 0.0
        count += low[row]
        total += age
        squares += age * age
    return count, total, squares
