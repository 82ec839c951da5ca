"""A count-min sketch: counters of keys in bounded memory, three rows of `width` cells.

A key has one cell in each row, and collisions only add to it. The expected contribution of other keys is the
same for all cells of a row, so it is subtracted again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.hashing import GOLDEN, avalanche

_R32 = np.uint64(32)
_ODD = np.uint64(1)
_LOW = np.uint64(0xFFFFFFFF)
_NOTHING = np.float32(0.0)
"""A 32-bit float, so that counts of 32-bit cells are not widened."""


@njit(cache=True, inline="always")
def mixed_key(key: np.int64) -> np.uint64:
    return avalanche(np.uint64(key) + GOLDEN)


@njit(cache=True, inline="always")
def cell_of(mixed: np.uint64, row: int, width: int) -> int:
    """Double hashing: one half of the mixed key plus `row` times the other, scaled to the width. The scaling
    is a multiplication, because a division takes much longer."""
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
    """The count of a key with these three cells: their median less the expected contribution of other keys,
    at most the least cell and at least 0. The contribution is (total - count) / (width - 1), where `total` is
    the sum over all keys. So `kept` is 1 + 1 / (width - 1), and `others` is total / (width - 1)."""
    # Comparisons instead of min and max, which would check for NaN.
    low, up = (a, b) if a < b else (b, a)
    least = low if low < c else c
    middle = up if up < c else c
    count = kept * (middle if middle > low else low) - others
    count = count if count < least else least
    return count if count > _NOTHING else _NOTHING


@njit(cache=True)
def estimate(cells: Any, total: float, keys: Any, times: float, out: Any) -> None:
    """Multiplies `out` by `times` the count of each key. `total` is the sum over all keys."""
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
