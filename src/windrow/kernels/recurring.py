"""Levels of rows by their matches lately: 0 for a row without any, then one a doubling.

Matches are kept as of a row's last match, and have faded by exp(-decay * time) since; times are in
microseconds, decay per microsecond.
"""

from __future__ import annotations

from math import exp, log2
from typing import Any

from numba import njit

TOP = 3
"""The highest level begins at two to the power of so many matches just now."""


@njit(cache=True, inline="always")
def _level(matches: float, since: float, decay: float, levels: int) -> int:
    if matches == 0.0:
        return 0
    lately = matches * exp(-decay * max(0.0, since))
    level = int(log2(max(lately, 1e-9)) + 1000.0) - 1000 + levels - TOP - 1
    return min(max(level, 1), levels - 1)


@njit(cache=True, nogil=True)
def count(
    rows: Any, times: Any, stored: Any, each: float, decay: float, matches: Any, matched: Any, out: Any
) -> None:
    """Results of stored rows by the level each had before, which it then leaves, as `each`; a row may occur
    often, and times in any order."""
    for k in range(len(rows)):
        if not stored[k]:
            continue
        row, time = rows[k], float(times[k])
        since = time - matched[row]
        out[_level(matches[row], since, decay, len(out))] += each
        if since >= 0.0:
            before = matches[row]
            matches[row] = 1.0 if before == 0.0 else before * exp(-decay * since) + 1.0
            matched[row] = time
        else:
            matches[row] += exp(decay * since)


@njit(cache=True, nogil=True)
def expect(rates: Any, now: int, seconds: float, decay: float, matches: Any, matched: Any, out: Any) -> None:
    """What rows were to find in the last `seconds`, by level."""
    for row in range(len(rates)):
        out[_level(matches[row], now - matched[row], decay, len(out))] += rates[row] * seconds


@njit(cache=True, nogil=True)
def look_up(factors: Any, now: int, decay: float, matches: Any, matched: Any, out: Any) -> None:
    """The factor of each row's level."""
    for row in range(len(out)):
        out[row] = factors[_level(matches[row], now - matched[row], decay, len(factors))]
