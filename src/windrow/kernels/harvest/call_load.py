"""Arithmetic of small plans that are made once a call, so that a plan costs less than what it saves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

USUALLY_FIXED = 0.05
"""Base as a fraction of the lightest work, before calls have shown it. Rather too little: if it is too much,
nothing seems to be saved by doing less, and no call ever shows that it is."""
MOST_FIXED = 4.0
"""Maximum base as a multiple of the heaviest work."""
VARIED = 1.3
"""Factor by which work must vary to tell base and pace apart."""
FEW = 4
"""With fewer calls the fastest counts, not the median: the others may have waited for compilation."""


@njit(cache=True, nogil=True)
def cost_line(seen: Any, learned: float, recent: int) -> tuple[float, float, float]:
    """(learned, base, pace) of  seconds = pace * (base + work),  from rows (seconds, work), the latest last.
    `learned` is the base that calls have shown, negative if none have."""
    count = len(seen)
    seconds, work = seen[:, 0], np.maximum(seen[:, 1], 1e-12)
    third = count // 3
    if third >= 2:
        order = np.argsort(work)
        light, heavy = order[:third], order[count - third :]
        least, most = np.median(work[light]), np.median(work[heavy])
        risen = np.median(seconds[heavy]) - np.median(seconds[light])
        if most > VARIED * least and risen > 0.0:
            learned = np.median(seconds[light]) * (most - least) / risen - least
            learned = min(max(learned, 0.0), MOST_FIXED * most)
    base = learned if learned >= 0.0 else USUALLY_FIXED * work.min()
    paces = seconds[-recent:] / (base + work[-recent:])
    return learned, base, np.median(paces) if count >= FEW else paces.min()


@njit(cache=True, nogil=True)
def tally(held: Any, units: Any, weight: float, fade: float) -> None:
    """Count rows by unit, each as `weight` rows, after earlier counts have faded."""
    held *= fade
    for k in range(len(units)):
        held[units[k]] += weight


@njit(cache=True, nogil=True)
def shares(held: Any, order: Any, above: float, below: float, hot: Any, rows: Any, share: Any) -> None:
    """Write, by number of units admitted, hot ones first, their fraction of the rows and of the results.

    The latter is their fraction of all combinations of rows held, one of each stream; a tenth goes by rows,
    since some match only what is yet to come. A unit becomes hot at `above` times the mean number of
    combinations, and stays hot down to `below` times.
    """
    streams, units = held.shape
    combined = np.ones(units)
    own = np.zeros(units)
    for u in range(units):
        for i in range(streams):
            combined[u] *= held[i, u]
            own[u] += held[i, u]
    products, all_rows = combined.sum(), max(own.sum(), 1e-300)
    for u in range(units):
        own[u] /= all_rows
        combined[u] = own[u] if products == 0.0 else 0.9 * combined[u] / products + 0.1 * own[u]
    mean = 1.0 / units
    rows[0] = share[0] = 0.0
    for u in range(units):
        hot[u] = combined[u] > above * mean or (hot[u] and combined[u] > below * mean)
        if hot[u]:
            share[0] += combined[u]
            rows[0] += own[u]
    for k in range(units):
        u = order[k]
        cold = not hot[u]
        share[k + 1] = share[k] + cold * combined[u]
        rows[k + 1] = rows[k] + cold * own[u]


@njit(cache=True, inline="always")
def affordable(seconds: float, whole: float) -> float:
    """What part of work that takes `whole` there is time for."""
    return 1.0 if seconds >= whole else max(0.0, seconds) / whole if whole > 0.0 else 0.0


@njit(cache=True, nogil=True)
def promise(
    taking: Any, finding: Any, share: Any, seconds: float, work: Any, found: Any, recall: Any
) -> None:
    """Writes what each number of units promises in so many seconds, if a part `work` of what finding takes
    gives a part `found` of the results."""
    for k in range(len(share)):
        part, i = affordable(seconds - taking[k], finding[k]), 1
        while i < len(work) - 1 and work[i] < part:
            i += 1
        slope = (found[i] - found[i - 1]) / (work[i] - work[i - 1])
        recall[k] = share[k] * (found[i - 1] + slope * (part - work[i - 1]))
