"""Small loops over the front of a window."""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True)
def skip_below(ts: Any, first: int, end: int, horizon: int) -> int:
    """The first position from `first` on whose time is not below `horizon`."""
    while first < end and ts[first] < horizon:
        first += 1
    return first


@njit(cache=True, nogil=True)
def move_down(column: Any, positions: Any) -> None:
    """Brings the rows at `positions`, which ascend, to the front: none is written over before it is read."""
    for k in range(len(positions)):
        column[k] = column[positions[k]]
