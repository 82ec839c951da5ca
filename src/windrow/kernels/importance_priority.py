"""Priorities of rows by their age and by how often they matched recently (iJoin).

A row's matches are stored as of its last match, so that a row without a new match is not touched; since then
they have decayed by exp(-decay * time). Times are in microseconds, decay is per microsecond.
"""

from __future__ import annotations

from math import exp, factorial, log
from typing import Any

import numpy as np
from numba import njit

_PER_DOUBLING = 1 / log(2)
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""Their sum is ln 2. The first has few enough digits that its multiples are exact."""
_LEAST = -708.0
MOST = 1e100
"""The greatest importance: its products with counts stay below the priorities of immature rows."""
_SERIES = tuple(1 / factorial(k) for k in range(14))


@njit(cache=True)
def match(rows: Any, times: Any, decay: float, matches: Any, matched: Any) -> None:
    """Counts one match for each of `rows` at its time. Rows may repeat, and times may come in any order."""
    for k in range(len(rows)):
        row, time = rows[k], float(times[k])
        since = time - matched[row]
        if since >= 0:
            before = matches[row]
            matches[row] = 1.0 if before == 0.0 else before * exp(-decay * since) + 1.0
            matched[row] = time
        else:
            matches[row] += exp(decay * since)


@njit(cache=True, inline="always")
def _decayed(x: float) -> float:
    """exp(x) for x <= 0 without branches or calls, so that the loop over rows vectorises. It is a power of
    two times exp(r) with |r| < 0.35, computed by its series. Below -708 it is the least number."""
    x = x if x > _LEAST else _LEAST
    doublings = np.floor(x * _PER_DOUBLING + 0.5)
    r = (x - doublings * _LN2_HIGH) - doublings * _LN2_LOW
    e = _SERIES[13]
    e = e * r + _SERIES[12]
    e = e * r + _SERIES[11]
    e = e * r + _SERIES[10]
    e = e * r + _SERIES[9]
    e = e * r + _SERIES[8]
    e = e * r + _SERIES[7]
    e = e * r + _SERIES[6]
    e = e * r + _SERIES[5]
    e = e * r + _SERIES[4]
    e = e * r + _SERIES[3]
    e = e * r + 0.5
    e = e * r + 1.0
    e = e * r + 1.0
    # 2^doublings, by writing the exponent bits of a double.
    power = np.int64(np.int64(np.int32(doublings) + 1023) << 52).view(np.float64)
    return e * power


@njit(cache=True, inline="always")
def _spared(age: float, priority: float, maturity: float, per_maturity: float, top: float) -> float:
    old = priority if priority < top else top
    return top * (2.0 - age * per_maturity) if (age <= maturity) & (maturity != 0.0) else old


@njit(cache=True, nogil=True, fastmath={"contract"})
def spare_young(ts: Any, priority: Any, now: int, maturity: float, top: float, out: Any) -> None:
    """Leaves the priorities of rows older than `maturity` microseconds, capped at `top`. Younger rows get
    priorities above that, the youngest the highest."""
    per_maturity = 1.0 / max(maturity, 1.0)
    for row in range(len(ts)):
        out[row] = _spared(float(now - ts[row]), priority[row], maturity, per_maturity, top)


@njit(cache=True, nogil=True, fastmath={"contract"})
def residence_priorities(
    ts: Any,
    importance: Any,
    matches: Any,
    matched: Any,
    now: int,
    decay: float,
    idle: float,
    loss: float,
    tie: float,
    maturity: float,
    top: float,
    out: Any,
) -> None:
    """Importance times matches per second of age, at `now`; less `loss` per second since the last match, if
    that is at least `idle` microseconds ago; less `tie` per microsecond of age. Ages are at least a
    microsecond. Young rows are spared as in `spare_young`; none with a maturity of 0 and an infinite top."""
    mature, per_maturity = len(ts), 1.0 / max(maturity, 1.0)
    # The young rows at the end, which are most of the young ones, need no priority of their own.
    while mature > 0 and maturity > 0.0 and float(now - ts[mature - 1]) <= maturity:
        mature -= 1
        out[mature] = _spared(float(now - ts[mature]), top, maturity, per_maturity, top)
    # Without branches, because the processor could not predict them.
    for row in range(mature):
        age, since = float(now - ts[row]), now - matched[row]
        since = since if since > 0.0 else 0.0
        least = age if age > 1.0 else 1.0
        value = importance[row] * matches[row] * _decayed(-decay * since) * 1e6 / least - tie * least
        value -= loss * since * 1e-6 if since >= idle else 0.0
        out[row] = _spared(age, value, maturity, per_maturity, top)


@njit(cache=True, nogil=True)
def toward_goals(ages: Any, starts: Any, rise: Any, rate: Any, end: Any, goal: Any, out: Any) -> None:
    """Evaluates (rise + rate (end - age)) / (goal - age) for each age, by pieces that begin at `starts`.

    Neighbouring ages are mostly in one piece, so each search begins where the last one ended.
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
    """Adds one match to each of `rows`, which may repeat. Numpy's `add.at` takes many times as long."""
    for k in range(len(rows)):
        matches[rows[k]] += 1.0


@njit(cache=True, nogil=True)
def bound_importance(values: Any, new: int) -> int:
    """Replaces invalid importances (NaN, negative, or above `MOST`) by 0. Returns their number among the rows
    from `new` on."""
    missing = 0
    for row in range(len(values)):
        if not 0.0 <= values[row] <= MOST:
            values[row] = 0.0
            missing += row >= new
    return missing
