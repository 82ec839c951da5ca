"""Histograms of results and exposure of rows, by score bin (one per doubling) and age bin.

A score's position on the scale is its logarithm, linear between powers of two: that is what the bits of a
32-bit float are, read as an integer. Bin 0 holds only scores of 0. Times are in microseconds, `seconds` in
seconds; every row counts as `each`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

_DOUBLING = 2.0**-23
"""One doubling, in bits of a 32-bit float."""
_SOME = 256
"""Scores that a median is taken of."""
_BLOCK = 512


class Scale(NamedTuple):
    """The scale of score bins and age bins."""

    middle: int
    """The score in the middle of the scale, as bits; 0 before there is one."""
    reach: int
    """Score bins on either side of the middle. Without scores it is 0, and there is one bin."""
    span: float
    """Seconds of the window, which the age bins divide."""


@njit(cache=True, inline="always")
def _place(score: np.int32, scale: Any) -> float:
    """The position on the scale of bins, possibly between two; 0 before there is a middle. Without branches,
    so that loops vectorise: comparisons instead of min and max, which would check for NaN."""
    place, top = float(score - scale.middle) * _DOUBLING + scale.reach, 2.0 * scale.reach
    place = place if place > 1.0 else 1.0
    place = place if place < top else top
    return place if (scale.reach > 0 and scale.middle != 0) and score != 0 else 0.0


@njit(cache=True, nogil=True)
def median_score(scores: Any) -> float:
    """The median of the positive scores in a sample; 0 if there are none."""
    some, found = np.empty(_SOME), 0
    for row in range(0, len(scores), len(scores) // _SOME + 1):
        some[found] = scores[row]
        found += scores[row] > 0.0
    if found == 0:
        return 0.0
    ascending = np.sort(some[:found])
    return 0.5 * (ascending[(found - 1) // 2] + ascending[found // 2])


@njit(cache=True, nogil=True)
def count_arrivals(scores: Any, scale: Any, each: float, out: Any) -> None:
    """Rows by score bin."""
    for row in range(len(scores)):
        out[int(_place(scores[row], scale) + 0.5)] += each


@njit(cache=True, nogil=True)
def count_results(times: Any, stored: Any, ts: Any, scores: Any, scale: Any, each: float, out: Any) -> float:
    """Counts the results found at `times` by rows with these scores and event times, if the row was `stored`,
    by score bin and age bin; returns their number."""
    parts, total = out.shape[1], 0
    per_microsecond = parts / (1e6 * scale.span)
    for k in range(len(ts)):
        if stored[k]:
            part = int((times[k] - ts[k]) * per_microsecond)
            out[int(_place(scores[k], scale) + 0.5), min(max(part, 0), parts - 1)] += each
            total += 1
    return total * each


@njit(cache=True, nogil=True)
def add_exposure(ts: Any, scores: Any, now: int, seconds: float, scale: Any, each: float, out: Any) -> None:
    """Adds row-seconds by score bin and age bin: the last `seconds` up to each row's current age."""
    parts, span = out.shape[1], scale.span
    width, per_part = span / parts, parts / span
    for row in range(len(ts)):
        age = (now - ts[row]) * 1e-6
        upto = min(max(age, 0.0), span)
        at = min(max(age - seconds, 0.0), upto)
        step = int(_place(scores[row], scale) + 0.5)
        part = int(at * per_part)
        while part < parts and at < upto:
            end = min((part + 1) * width, upto)
            out[step, part] += each * (end - at)
            at = end
            part += 1


@njit(cache=True, nogil=True)
def score_priorities(
    ts: Any, scores: Any, now: int, scale: Any, start: Any, slope: Any, factor: Any, rise: Any, out: Any
) -> None:
    """The priority of each row. By score bin and age bin it begins at `start` and changes by `slope` across
    the age bin; it is multiplied by a linear function of the score's position, `factor` and `rise` by half
    bins. It is 0 beyond the window.

    Of equal rows without a score the oldest stay, so that all ages are observed and learned. Of other equal
    rows the youngest stay, which have the longest time left if their key becomes more frequent."""
    parts = start.shape[1]
    per_microsecond, last = parts / (1e6 * scale.span), float(parts)
    starts, slopes = start.ravel(), slope.ravel()
    cells, halves = np.empty(_BLOCK, np.uint32), np.empty(_BLOCK, np.uint32)
    within, places, times = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK)
    # First the cells of a whole block, without branches, so that the loop vectorises; then the lookups.
    for begin in range(0, len(ts), _BLOCK):
        rows = min(_BLOCK, len(ts) - begin)
        for k in range(rows):
            at = float(now - ts[begin + k]) * per_microsecond
            at = at if at > 0.0 else 0.0
            inside = at < last
            part = np.int32(at if inside else last - 1.0)
            place = _place(scores[begin + k], scale)
            half = np.int32(2.0 * place)
            cells[k], halves[k] = ((half + 1) >> 1) * np.int32(parts) + part, half
            within[k], places[k] = at - part, place
            tie = 1.0 + (1e-9 if place == 0.0 else -1e-9) * at
            times[k] = tie if inside else 0.0
        for k in range(rows):
            rank = starts[cells[k]] + within[k] * slopes[cells[k]]
            out[begin + k] = rank * (factor[halves[k]] + rise[halves[k]] * places[k]) * times[k]
