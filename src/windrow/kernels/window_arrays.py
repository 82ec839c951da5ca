"""Small loops over the arrays of a window."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True)
def skip_below(ts: Any, first: int, end: int, horizon: int) -> int:
    """The first position from `first` on whose time is not below `horizon`."""
    while first < end and ts[first] < horizon:
        first += 1
    return first


@njit(cache=True, nogil=True)
def time_bounds(ts: Any) -> Any:
    """The least and the greatest time, and whether times ascend. Of no rows, bounds that exclude none."""
    if len(ts) == 0:
        return np.iinfo(np.int64).max, np.iinfo(np.int64).min, True
    least = most = ts[0]
    ascending = True
    for p in range(1, len(ts)):
        ascending &= ts[p] >= ts[p - 1]
        least, most = min(least, ts[p]), max(most, ts[p])
    return least, most, ascending


@njit(cache=True, nogil=True)
def span_of(ts: Any, positions: Any) -> Any:
    """The least and the greatest time at `positions`, which must not be empty."""
    least = most = ts[positions[0]]
    for k in range(len(positions)):
        time = ts[positions[k]]
        least, most = min(least, time), max(most, time)
    return least, most


@njit(cache=True, nogil=True)
def alive_positions(alive: Any, first: int) -> Any:
    """The positions of rows that are `alive`; row 0 is at position `first`."""
    # Without a branch: each position is written, and kept only if the row is alive. So `out` needs one more.
    out, kept = np.empty(len(alive) + 1, np.int32), 0
    for row in range(len(alive)):
        out[kept] = np.int32(first + row)
        kept += alive[row]
    return out[:kept]


@njit(cache=True, nogil=True)
def take_values(column: Any, positions: Any, out: Any) -> None:
    """The values at ascending `positions`, faster than numpy's indexing. `out` may be the column itself: as
    positions[k] >= k, each value is read before it is overwritten."""
    for k in range(len(positions)):
        out[k] = column[positions[k]]
