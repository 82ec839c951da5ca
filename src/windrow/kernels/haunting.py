"""Adding up what ghosts take part in: rows that are here only to tell what was lost."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_MIX1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX2 = np.uint64(0xC4CEB9FE1A85EC53)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_R11, _R33 = np.uint64(11), np.uint64(33)


@njit(cache=True, nogil=True)
def places(words: Any, seed: int) -> Any:
    """The place in [0, 1) that each key has on the circle."""
    out = np.empty(len(words))
    for k in range(len(words)):
        h = np.uint64(words[k]) + _STEP * np.uint64(seed + 1)
        h ^= h >> _R33
        h *= _MIX1
        h ^= h >> _R33
        h *= _MIX2
        h ^= h >> _R33
        out[k] = float(h >> _R11) * 2.0**-53
    return out


@njit(cache=True, nogil=True)
def haunted(noted: Any, rows: Any) -> Any:
    """Which results have a ghost among these `rows`, and its slot; `noted` has a row's slot plus one, 0 for
    none."""
    which, slots, found = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64), 0
    for k in range(len(rows)):
        slot = np.int64(noted[rows[k]]) - 1
        if slot >= 0:
            which[found], slots[found] = k, slot
            found += 1
    return which[:found].copy(), slots[:found].copy()


@njit(cache=True, nogil=True)
def weigh(
    which: Any, slots: Any, alone: Any, begin: Any, end: Any, weights: Any, depth: Any, counts: Any
) -> None:
    """How many results each of the results `which` stands for, that have ghosts in these slots.

    A ghost was chosen with its key, by the key's place being between `begin` and `end`, and then with chance
    1 / `alone` by itself; a row that was chosen all by itself has end = inf. Ghosts of one result that were
    chosen with their key have one key, so their keys were all chosen where the spans overlap.

    Multiplies `weights`, and counts in `depth` how many choices a result hangs on: each ghost is one, but
    those chosen with their key are one together. `counts` marks the ghosts that were counted.
    """
    first, last = np.full(len(weights), -np.inf), np.full(len(weights), np.inf)
    for e in range(len(which)):
        k, slot = which[e], slots[e]
        weights[k] *= alone[slot]
        counts[e] = end[slot] == np.inf or last[k] == np.inf
        depth[k] += counts[e]
        if end[slot] < np.inf:
            first[k], last[k] = max(first[k], begin[slot]), min(last[k], end[slot])
    for e in range(len(which)):
        k = which[e]
        if counts[e] and end[slots[e]] < np.inf:
            weights[k] /= last[k] - first[k]


@njit(cache=True, nogil=True)
def account(
    which: Any,
    units: Any,
    odds: Any,
    depth: Any,
    counted: Any,
    seen: Any,
    variance: Any,
    largest: Any,
) -> None:
    """Results `which` hang on the choice of these units. By the number of choices a result hangs on, and by
    unit, adds what it is `counted` as to what was `seen`.

    With y what a unit chosen with chance 1 - `odds` takes part in, odds y^2 adds to the variance; it grows by
    the difference with every result. Place 0 is for results of any depth.
    """
    for k in range(len(which)):
        for level in (0, depth[which[k]]):
            before = seen[level, units[k]]
            after = before + counted[which[k]]
            seen[level, units[k]] = after
            variance[level] += odds[k] * (after * after - before * before)
            largest[level] = max(largest[level], odds[k] * after)
