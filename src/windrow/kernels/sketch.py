"""A count-min sketch: counters of keys in bounded memory, four rows of `width` cells.

A key has one cell in each row; collisions only add. What other keys add to a cell is the same on average for
all cells of a row, so it can be taken off again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.mixing import avalanche

_STEP = np.uint64(0x9E3779B97F4A7C15)
_R32 = np.uint64(32)
_ODD = np.uint64(1)
_LOW = np.uint64(0xFFFFFFFF)


@njit(cache=True, inline="always")
def _mix(key: np.int64) -> np.uint64:
    return avalanche(np.uint64(key) + _STEP)


@njit(cache=True, inline="always")
def _cell(mixed: np.uint64, row: int, width: int) -> int:
    """One half of the mixed key, moved on by the other row by row, as a fraction of the width: a
    multiplication, since a division takes much longer."""
    h = ((mixed >> _R32) + np.uint64(row) * (mixed | _ODD)) & _LOW
    return int((h * np.uint64(width)) >> _R32)


@njit(cache=True)
def add(cells: Any, keys: Any, amount: float) -> None:
    """Counts each key once, as `amount`."""
    depth, width = cells.shape
    for k in range(len(keys)):
        mixed = _mix(keys[k])
        for row in range(depth):
            cells[row, _cell(mixed, row, width)] += amount


@njit(cache=True)
def estimate(cells: Any, total: float, keys: Any, times: float, out: Any) -> None:
    """Multiplies `out` by `times` the count of each key. That is the middle of its four cells less the
    share of others, but never more than the least of them nor less than 0. `total` is what all add up to."""
    width = cells.shape[1]
    for k in range(len(keys)):
        least, most, together = np.inf, -np.inf, 0.0
        mixed = _mix(keys[k])
        for row in range(4):
            count = cells[row, _cell(mixed, row, width)]
            least = min(least, count)
            most = max(most, count)
            together += count
        # Taking off the others' share, (total - count) / (width - 1), keeps the order of the cells.
        middle = (together - least - most) / 2
        middle -= (total - middle) / (width - 1)
        out[k] *= times * max(0.0, min(least, middle))
