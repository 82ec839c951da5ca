"""Similarity of pairs of lists: sets as sorted distinct numbers, vectors as doubles.

A list column is (starts, lengths, values): list i is values[starts[i] : starts[i] + lengths[i]].
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def distinct(
    starts: np.ndarray, lengths: np.ndarray, values: np.ndarray, keep: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each list sorted, without repeats and packed: (starts, lengths, values). `keep` is false for nulls."""
    count = len(starts)
    total = 0
    for i in range(count):
        total += lengths[i]
    packed = np.empty(total, np.int64)
    begins = np.empty(count, np.int64)
    sizes = np.empty(count, np.int64)
    end = 0
    for i in range(count):
        begin = end
        for k in range(starts[i], starts[i] + lengths[i]):
            if keep[k]:
                packed[end] = values[k]
                end += 1
        _sort(packed[begin:end])
        # Invariant: packed[begin:unique] is ascending without repeats and holds all elements before k.
        unique = begin
        for k in range(begin, end):
            if k == begin or packed[k] != packed[unique - 1]:
                packed[unique] = packed[k]
                unique += 1
        begins[i] = begin
        sizes[i] = unique - begin
        end = unique
    return begins, sizes, packed[:end]


@njit(cache=True)
def _sort(part: np.ndarray) -> None:
    """Insertion sort for short lists, which are the usual case, and numpy's sort for long ones."""
    if len(part) > 32:
        part.sort()
        return
    for i in range(1, len(part)):
        value = part[i]
        j = i - 1
        while j >= 0 and part[j] > value:
            part[j + 1] = part[j]
            j -= 1
        part[j + 1] = value


@njit(cache=True, nogil=True)
def common(
    starts_a: np.ndarray,
    sizes_a: np.ndarray,
    a: np.ndarray,
    starts_b: np.ndarray,
    sizes_b: np.ndarray,
    b: np.ndarray,
) -> np.ndarray:
    """The number of elements that the sets of each pair share. The sets must come from `distinct`."""
    out = np.empty(len(starts_a), np.int64)
    for i in range(len(starts_a)):
        x, y = starts_a[i], starts_b[i]
        end_x, end_y = x + sizes_a[i], y + sizes_b[i]
        shared = 0
        # Invariant: `shared` counts the common elements below both a[x] and b[y]. The processor cannot
        # predict which of the two is smaller, so the loop has no branch on it.
        while x < end_x and y < end_y:
            p, q = a[x], b[y]
            shared += int(p == q)
            x += int(p <= q)
            y += int(q <= p)
        out[i] = shared
    return out


@njit(cache=True, nogil=True)
def products(
    starts_a: np.ndarray,
    lengths_a: np.ndarray,
    a: np.ndarray,
    starts_b: np.ndarray,
    lengths_b: np.ndarray,
    b: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Per pair of vectors: (a.b, a.a, b.b, |a - b|^2, same length). Unequal lengths give zeros and false."""
    count = len(starts_a)
    dot, norm_a, norm_b, gap = np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count)
    same = np.zeros(count, np.bool_)
    for i in range(count):
        if lengths_a[i] != lengths_b[i]:
            continue
        same[i] = True
        ab = aa = bb = dd = 0.0
        for k in range(lengths_a[i]):
            x, y = a[starts_a[i] + k], b[starts_b[i] + k]
            ab += x * y
            aa += x * x
            bb += y * y
            dd += (x - y) * (x - y)
        dot[i], norm_a[i], norm_b[i], gap[i] = ab, aa, bb, dd
    return dot, norm_a, norm_b, gap, same
