"""What rows are worth by their age and by how much they were matched lately.

A row's matches are kept as of its last match, so that a row which finds nothing is not touched: they have
faded by exp(-decay * time) since. Times are in microseconds, decay per microsecond.
"""

from __future__ import annotations

from math import exp
from typing import Any

from numba import njit


@njit(cache=True)
def match(rows: Any, times: Any, decay: float, matches: Any, matched: Any) -> None:
    """Counts one match for each of `rows`, at its time; a row may occur often, and times in any order."""
    for k in range(len(rows)):
        row, time = rows[k], float(times[k])
        since = time - matched[row]
        if since >= 0:
            before = matches[row]
            matches[row] = 1.0 if before == 0.0 else before * exp(-decay * since) + 1.0
            matched[row] = time
        else:
            matches[row] += exp(decay * since)


@njit(cache=True)
def per_second(
    ts: Any,
    importance: Any,
    matches: Any,
    matched: Any,
    now: int,
    decay: float,
    idle: float,
    loss: float,
    tie: float,
    out: Any,
) -> None:
    """Importance times matches per second of age, at `now`; of rows without a match for at least `idle`
    microseconds, less `loss` for each second of it; and less `tie` for each microsecond of age. A row of this
    very moment has the age of a microsecond."""
    for row in range(len(ts)):
        since = max(0.0, now - matched[row])
        age = max(1.0, float(now - ts[row]))
        value = -tie * age
        if matches[row] > 0.0:  # most rows have none, and exp takes long
            value += importance[row] * matches[row] * exp(-decay * since) * 1e6 / age
        if since >= idle:
            value -= loss * since / 1e6
        out[row] = value


@njit(cache=True)
def spare_young(ts: Any, priority: Any, now: int, maturity: float, top: float, out: Any) -> None:
    """Priorities of rows older than `maturity` microseconds as they are, at most `top`; the others are above,
    the youngest highest."""
    for row in range(len(ts)):
        age = float(now - ts[row])
        if age > maturity or maturity == 0.0:
            out[row] = min(priority[row], top)
        else:
            out[row] = top * (2.0 - age / maturity)


@njit(cache=True, nogil=True)
def toward_goals(ages: Any, starts: Any, rise: Any, rate: Any, end: Any, goal: Any, out: Any) -> None:
    """By pieces of age that begin at `starts`, ascending from 0: (rise + rate (end - age)) / (goal - age).

    Ages next to each other are mostly in one piece, so the search begins where the last one ended.
    """
    piece = 0
    for row in range(len(ages)):
        age = max(ages[row], 0.0)
        while age < starts[piece]:
            piece -= 1
        while piece + 1 < len(starts) and age >= starts[piece + 1]:
            piece += 1
        out[row] = (rise[piece] + rate[piece] * (end[piece] - age)) / (goal[piece] - age)


@njit(cache=True, nogil=True)
def count_matches(rows: Any, matches: Any) -> None:
    """One match more for each of `rows`; a row may occur often."""
    for k in range(len(rows)):
        matches[rows[k]] += 1.0
