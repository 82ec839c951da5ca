"""Edit distance of pairs of texts."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def levenshtein(
    left_ends: np.ndarray, left: np.ndarray, right_ends: np.ndarray, right: np.ndarray, out: np.ndarray
) -> None:
    """Number of characters to insert, remove or replace. Text i is the bytes from ends[i] to ends[i + 1]."""
    for pair in range(len(out)):
        x = _code_points(left[left_ends[pair] : left_ends[pair + 1]])
        y = _code_points(right[right_ends[pair] : right_ends[pair + 1]])
        # One row of the matrix of distances between prefixes; `diagonal` is the value up and to the left.
        row = np.arange(len(y) + 1)
        for i in range(len(x)):
            diagonal = row[0]
            row[0] = i + 1
            for j in range(len(y)):
                replaced = diagonal + (x[i] != y[j])
                diagonal = row[j + 1]
                row[j + 1] = min(replaced, min(diagonal, row[j]) + 1)
        out[pair] = row[len(y)]


@njit(cache=True, nogil=True)
def _code_points(text: np.ndarray) -> np.ndarray:
    """Code points of UTF-8. A byte 10xxxxxx continues one; the first byte's leading ones count its bytes."""
    points = np.empty(len(text), np.int32)
    count = 0
    for byte in text:
        if byte < 0x80:
            points[count] = byte
        elif byte < 0xC0:
            points[count - 1] = (points[count - 1] << 6) | (byte & 0x3F)
            continue
        else:
            points[count] = byte & (0x1F if byte < 0xE0 else 0x0F if byte < 0xF0 else 0x07)
        count += 1
    return points[:count]
