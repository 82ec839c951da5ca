"""A count-min sketch: counters of keys in bounded memory, three rows of `width` cells.

A key has one cell in each row; collisions only add. What other keys add to a cell is the same on average for
all cells of a row, so it can be taken off again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.hashing import avalanche

_STEP = np.uint64(0x9E3779B97F4A7C15)
_R32 = np.uint64(32)
_ODD = np.uint64(1)
_LOW = np.uint64(0xFFFFFFFF)
_NOTHING = np.float32(0.0)
"""Narrow, so that a count stays as narrow as its cells are."""


@njit(cache=True, inline="always")
def mixed_key(key: np.int64) -> np.uint64:
    return avalanche(np.uint64(key) + _STEP)


@njit(cache=True, inline="always")
def cell_of(mixed: np.uint64, row: int, width: int) -> int:
    """One half of the mixed key, moved on by the other row by row, as a fraction of the width: a
    multiplication, since a division takes much longer."""
    h = ((mixed >> _R32) + np.uint64(row) * (mixed | _ODD)) & _LOW
    return int((h * np.uint64(width)) >> _R32)


@njit(cache=True)
def add(cells: Any, keys: Any, amount: float) -> None:
    """Counts each key once, as `amount`."""
    depth, width = cells.shape
    for k in range(len(keys)):
        mixed = mixed_key(keys[k])
        for row in range(depth):
            cells[row, cell_of(mixed, row, width)] += amount


@njit(cache=True, inline="always")
def count_of(a: Any, b: Any, c: Any, kept: float, others: float) -> Any:
    """Of a key with these three cells: the middle of them less the share of others, but never more than the
    least of them nor less than 0. The share is (total - count) / (width - 1) with `total` what all keys add
    up to; so `kept` is 1 + 1 / (width - 1), and `others` total / (width - 1). To take it off keeps the order
    of the cells."""
    # Not min and max, which look for NaN first.
    low, up = (a, b) if a < b else (b, a)
    least = low if low < c else c
    middle = up if up < c else c
    count = kept * (middle if middle > low else low) - others
    count = count if count < least else least
    return count if count > _NOTHING else _NOTHING


@njit(cache=True)
def estimate(cells: Any, total: float, keys: Any, times: float, out: Any) -> None:
    """Multiplies `out` by `times` the count of each key. `total` is what all add up to."""
    width = cells.shape[1]
    kept, others = 1.0 + 1.0 / (width - 1), total / (width - 1)
    for k in range(len(keys)):
        mixed = mixed_key(keys[k])
        count = count_of(
            cells[0, cell_of(mixed, 0, width)],
            cells[1, cell_of(mixed, 1, width)],
            cells[2, cell_of(mixed, 2, width)],
            kept,
            others,
        )
        out[k] *= times * count
