"""Chance by row: numbers that look random, yet depend only on a key, a row's identity and a draw's number.

So a row meets the same chances however the rows are cut into quanta, and after a restart. Draws of one row
are told apart by their number; numbers below 0 are for single decisions, from 0 on for a row's results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_MIX1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX2 = np.uint64(0xC4CEB9FE1A85EC53)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_ONE, _R11, _R33 = np.uint64(1), np.uint64(11), np.uint64(33)
_UNIT = 2.0**-53
_FAR = 2.0**53


@njit(cache=True, inline="always")
def _mix(h: np.uint64) -> np.uint64:
    h ^= h >> _R33
    h *= _MIX1
    h ^= h >> _R33
    h *= _MIX2
    h ^= h >> _R33
    return h


@njit(cache=True, inline="always")
def _uniform(identity: np.uint64, draw: int) -> float:
    """In (0, 1), both ends excluded."""
    h = _mix(identity + _STEP * np.uint64(draw + 16))
    return (float(h >> _R11) + 0.5) * _UNIT


@njit(cache=True, inline="always")
def _geometric(u: float, p: float, fails: float) -> float:
    """How many coins of chance p it takes to the first success, itself included; `fails` is log(1 - p)."""
    if p >= 1.0:
        return 1.0
    return min(1.0 + np.floor(np.log(u) / fails), _FAR)


@njit(cache=True)
def identify(key: int, numbers: Any, ts: Any, words: Any) -> Any:
    """Who each row is: its number in its stream, its time and a word of it, so that rows of different
    partitions differ too."""
    out = np.empty(len(numbers), np.uint64)
    for r in range(len(numbers)):
        h = _mix(np.uint64(key) + _STEP * np.uint64(np.int64(numbers[r])))
        h = _mix(h ^ np.uint64(ts[r]))
        out[r] = _mix(h + _STEP * np.uint64(words[r]))
    return out


@njit(cache=True)
def uniforms(identities: Any, draw: int) -> Any:
    """A number in (0, 1) for each row."""
    out = np.empty(len(identities))
    for r in range(len(identities)):
        out[r] = _uniform(identities[r], draw)
    return out


@njit(cache=True)
def skips(identities: Any, p: float) -> Any:
    """The number of each new row's first chosen result, each result being chosen with chance p."""
    out = np.empty(len(identities))
    fails = np.log1p(-min(p, 1.0))
    for r in range(len(identities)):
        out[r] = _geometric(_uniform(identities[r], 0), p, fails)
    return out


@njit(cache=True)
def follow(
    rows: Any, identities: Any, p: float, num: Any, nexts: Any, bound: Any, chance: Any, extra: Any, thin: Any
) -> Any:
    """Counts the results of stored rows and chooses among them (Memory, Fig. 4).

    `rows` are the stored rows of the results, in the order in which the results came. `num` is how many
    results a row has had, `nexts` the number of its next chosen one (0: none), `bound` how many are followed,
    `chance` the chance its next one is chosen with. Rows with `extra` > 0 are followed beyond their bound,
    and stand for so many there; rows stand for 1 / `thin` of those that had to go.

    Returns weight (0: not chosen) and cluster of each result. Invariant: nexts[r] is 0 or above num[r].
    """
    weights = np.zeros(len(rows))
    clusters = np.full(len(rows), -1, np.int64)
    fails = np.log1p(-min(p, 1.0))
    for k in range(len(rows)):
        r = rows[k]
        num[r] += 1.0
        if num[r] != nexts[r]:
            continue
        beyond = num[r] > bound[r]
        weight = 1.0 / (chance[r] * thin[r])
        if beyond:
            weight *= extra[r]
        weights[k] = weight
        if thin[r] < 1.0 or (beyond and extra[r] > 1.0):
            clusters[k] = np.int64(identities[k] >> _ONE)
        elif weight > 1.0:
            clusters[k] = np.int64(_mix(identities[k] + _STEP * np.uint64(num[r])) >> _ONE)
        chance[r] = p
        nexts[r] = num[r] + _geometric(_uniform(identities[k], np.int64(num[r])), p, fails)
        if nexts[r] > bound[r] and extra[r] == 0.0:
            nexts[r] = 0.0
    return weights, clusters


@njit(cache=True, nogil=True)
def spread(rows: Any, weights: Any, stands: Any, seen: Any) -> float:
    """What results of these weights add to the variance of their sum: of a row that `stands` for w rows and
    has `seen` y, (1 - 1/w) y^2 in all. A row may occur often."""
    total = 0.0
    for k in range(len(rows)):
        row = rows[k]
        before = seen[row]
        seen[row] = before + weights[k]
        total += (1.0 - 1.0 / stands[row]) * (seen[row] * seen[row] - before * before)
    return total
