"""The final mixing of 64-bit hashes: every bit of the input moves every bit of the output."""

from __future__ import annotations

import numpy as np
from numba import njit

_MIX1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX2 = np.uint64(0xC4CEB9FE1A85EC53)
_R33 = np.uint64(33)


@njit(cache=True, inline="always")
def avalanche(h: np.uint64) -> np.uint64:
    h ^= h >> _R33
    h *= _MIX1
    h ^= h >> _R33
    h *= _MIX2
    h ^= h >> _R33
    return h
