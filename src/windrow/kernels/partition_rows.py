"""Partitions of rows: places on a dimension, places on several, and rows ordered by partition.

Rows with several places have them in one list: those of row i are values[starts[i]:starts[i + 1]].
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.spark_hash import SEED, hash_long

FURTHEST_CELL = 4e18
"""Cells further away are one cell: their numbers must fit an int64."""


@njit(cache=True, inline="always")
def _cell(number: float, width: float) -> np.int64:
    return np.int64(math.floor(max(min(number / width, FURTHEST_CELL), -FURTHEST_CELL)))


@njit(cache=True, inline="always")
def _place(cell: np.int64, parts: int) -> np.int64:
    return np.int64(hash_long(cell, SEED)) % parts


@njit(cache=True, nogil=True)
def cell_places(numbers: Any, width: float, parts: int, out: Any) -> None:
    """The place of each number's cell; rows without a number keep what `out` holds."""
    for i in range(len(numbers)):
        if not math.isnan(numbers[i]):
            out[i] = _place(_cell(numbers[i], width), parts)


@njit(cache=True, nogil=True)
def near_places(
    numbers: Any,
    first: int,
    width: float,
    reach: float,
    rounding: float,
    lost: Any,
    starts: Any,
    values: Any,
    parts: int,
) -> int:
    """The places of all cells within `reach` of each number, its own first; `lost` for rows without one.

    Begins with row `first`, and returns the row for which `values` has too little room, or the number of
    rows. `starts[first]` says where the row's places begin, and the next starts are set.
    """
    seen = np.full(parts, -1, np.int64)
    at = starts[first]
    for i in range(first, len(numbers)):
        if at + parts > len(values):
            return i
        number = numbers[i]
        values[at] = lost[i] if math.isnan(number) else _place(_cell(number, width), parts)
        seen[values[at]] = i
        at += 1
        if not math.isnan(number):
            far = reach + abs(number) * rounding
            low, high = _cell(number - far, width), _cell(number + far, width)
            # More cells than that would reach no further place, except through hash collisions.
            few = high - low < 16 * parts
            for k in range(high - low + 1 if few else parts):
                place = _place(low + k, parts) if few else k
                if seen[place] != i:
                    seen[place] = i
                    values[at] = place
                    at += 1
        starts[i + 1] = at
    return len(numbers)


@njit(cache=True, nogil=True)
def cross_places(
    left_starts: Any, left: Any, right_starts: Any, right: Any, parts: int, starts: Any, values: Any
) -> None:
    """Every place on the dimensions so far with every place on the next."""
    at = 0
    for i in range(len(starts) - 1):
        starts[i] = at
        for x in range(left_starts[i], left_starts[i + 1]):
            for y in range(right_starts[i], right_starts[i + 1]):
                values[at] = left[x] * parts + right[y]
                at += 1
    starts[len(starts) - 1] = at


@njit(cache=True, nogil=True)
def order_by_partition(partitions: Any, ends: Any, order: Any) -> None:
    """The stable order of rows by partition. `ends` starts as zeros and receives where each one ends."""
    for p in partitions:
        ends[p] += 1
    total = 0
    for p in range(len(ends)):
        total += ends[p]
        ends[p] = total - ends[p]
    for i in range(len(partitions)):
        order[ends[partitions[i]]] = i
        ends[partitions[i]] += 1
