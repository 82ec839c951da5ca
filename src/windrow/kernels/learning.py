"""Counting what rows find and how long they are held, by steps of a score (one a doubling) and parts of the
window.

A score has the step  log2(score / middle) + reach,  rounded and kept within 0 .. 2 reach; without scores
(reach 0) there is one step, and `scores` is not looked at. Times are in microseconds, `span` and `seconds` in
seconds; every row counts as `each`.
"""

from __future__ import annotations

from math import log2
from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, inline="always")
def _place(score: float, middle: float, reach: int) -> float:
    """On the scale of steps, between them too."""
    if middle <= 0.0:
        return 0.0
    ratio = score / middle
    if ratio <= 0.5**reach:
        return 0.0
    return min(log2(ratio) + reach, 2.0 * reach)


@njit(cache=True, inline="always")
def _step(scores: Any, row: int, middle: float, reach: int) -> int:
    if reach == 0:
        return 0
    return int(np.rint(_place(scores[row], middle, reach)))


@njit(cache=True, nogil=True)
def count_rows(scores: Any, middle: float, reach: int, each: float, out: Any) -> None:
    """Rows by step."""
    for row in range(len(scores)):
        out[_step(scores, row, middle, reach)] += each


@njit(cache=True, nogil=True)
def count_results(
    rows: Any,
    times: Any,
    stored: Any,
    ts: Any,
    scores: Any,
    middle: float,
    reach: int,
    span: float,
    each: float,
    out: Any,
) -> float:
    """Results of `rows` that came at `times`, where the row was `stored`, by step and by the part of the
    window in which they came; returns how many there are."""
    parts, total = out.shape[1], 0
    for k in range(len(rows)):
        if stored[k]:
            row = rows[k]
            part = int((times[k] - ts[row]) / 1e6 / span * parts)
            out[_step(scores, row, middle, reach), min(max(part, 0), parts - 1)] += each
            total += 1
    return total * each


@njit(cache=True, nogil=True)
def spend_time(
    ts: Any,
    scores: Any,
    weights: Any,
    now: int,
    seconds: float,
    middle: float,
    reach: int,
    span: float,
    out: Any,
) -> None:
    """Row-seconds by step and part: each row has come to its age while `seconds` passed, and stands for as
    many as its weight."""
    parts = out.shape[1]
    width = span / parts
    for row in range(len(ts)):
        age = (now - ts[row]) / 1e6
        upto = min(max(age, 0.0), span)
        at = min(max(age - seconds, 0.0), upto)
        step = _step(scores, row, middle, reach)
        part = int(at / width)
        while part < parts and at < upto:
            end = min((part + 1) * width, upto)
            out[step, part] += weights[row] * (end - at)
            at = end
            part += 1


@njit(cache=True, nogil=True)
def priority(
    ts: Any,
    scores: Any,
    now: int,
    middle: float,
    reach: int,
    span: float,
    start: Any,
    end: Any,
    by_step: Any,
    out: Any,
) -> None:
    """The rank of each row: by step and part it goes from `start` to `end` as the part passes, and between
    steps it follows `by_step`. Of rows that are worth the same the oldest stay: so all ages are seen, and
    their worth is learned. 0 beyond the window."""
    parts = start.shape[1]
    width = span / parts
    for row in range(len(ts)):
        age = (now - ts[row]) / 1e6
        if age >= span:
            out[row] = 0.0
            continue
        at = max(age, 0.0) / width
        part = min(int(at), parts - 1)
        place = _place(scores[row], middle, reach) if reach else 0.0
        step = int(np.rint(place))
        rank = start[step, part] + (at - part) * (end[step, part] - start[step, part])
        lower = int(place)
        if lower < place:
            between = by_step[lower] + (place - lower) * (by_step[lower + 1] - by_step[lower])
            rank *= between / by_step[step]
        out[row] = rank * (1 + 1e-9 * at)
