"""Arithmetic of small plans that are made once a call, so that a plan costs less than what it saves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.sort_few import median_of_few, order_of_few

USUALLY_FIXED = 0.05
"""Base as a fraction of the lightest work, until calls have shown it. Too small is safer than too large: with
too large a base, shedding seems to save nothing, so no call sheds and shows otherwise."""
VARIED = 1.3
"""Factor by which work must vary to tell base and pace apart."""
AGREEING, ALIKE = 4, 1.05
"""Number of calls that take about equally long, and the multiple of the deadline that all of them must
exceed. The longest takes less than its square times the shortest."""
FEW = 4
"""With fewer calls the fastest counts, not the median: the others may have waited for compilation."""


@njit(cache=True, nogil=True)
def cost_line(seen: Any, learned: float, recent: int, most_fixed: float) -> tuple[float, float, float]:
    """(learned, base, pace) of  seconds = pace * (base + work),  from rows (seconds, work), the latest last.
    `learned` is the base that calls have shown, negative if none have. The fixed cost, pace * base, is at
    most `most_fixed` for the recent calls."""
    count = len(seen)
    seconds, work = seen[:, 0].copy(), seen[:, 1].copy()
    for k in range(count):
        work[k] = max(work[k], 1e-12)
    third = count // 3
    if third >= 2:
        order = order_of_few(work)
        light, heavy = order[:third], order[count - third :]
        least, most = median_of_few(work[light]), median_of_few(work[heavy])
        risen = median_of_few(seconds[heavy]) - median_of_few(seconds[light])
        if most > VARIED * least:
            # If less work took longer, nearly all is fixed, as far as can be seen.
            learned = max(learned, most)
            if risen > 0.0:
                learned = max(0.0, median_of_few(seconds[light]) * (most - least) / risen - least)
    base = learned if learned >= 0.0 else USUALLY_FIXED * min(work)
    took, done = median_of_few(seconds[-recent:]), median_of_few(work[-recent:])
    if took > most_fixed:
        base = min(base, done * most_fixed / (took - most_fixed))
    paces = seconds[-recent:] / (base + work[-recent:])
    return learned, base, median_of_few(paces) if count >= FEW else min(paces)


@njit(cache=True, nogil=True)
def mostly_exceed(
    seen: Any, fixed: float, pace: float, predicted: float, seconds: float, evidence: Any, most: float
) -> bool:
    """Whether more than half of the last calls exceed a multiple of `seconds`, for any of the rows (calls,
    multiple) of `evidence`. `seen` has rows (seconds, work), the latest last. Durations are scaled to the
    work of a call that is predicted to take `predicted`. Calls that would be scaled by more than `most` are
    left out. A few calls of equal duration are no accident: they need to exceed `seconds` only slightly."""
    took, count = np.empty(len(seen)), 0
    for k in range(len(seen)):
        scale = predicted / max(fixed + pace * seen[k, 1], 1e-12)
        if scale <= most:
            took[count] = seen[k, 0] * scale
            count += 1
    for i in range(len(evidence)):
        calls, exceeding = int(evidence[i, 0]), 0
        for k in range(max(count - calls, 0), count):
            exceeding += took[k] > evidence[i, 1] * seconds
        if count >= calls and 2 * exceeding > calls:
            return True
    if count < AGREEING:
        return False
    last = took[count - AGREEING : count]
    least, longest = min(last), max(last)
    return least > ALIKE * seconds and longest < ALIKE**2 * least


@njit(cache=True, nogil=True)
def tally(held: Any, units: Any, weight: float, decay: float) -> None:
    """Count rows by unit, each as `weight` rows, after earlier counts decay."""
    held *= decay
    for k in range(len(units)):
        held[units[k]] += weight


@njit(cache=True, nogil=True)
def shares(held: Any, order: Any, above: float, below: float, hot: Any, rows: Any, share: Any) -> None:
    """Write, by number of units admitted, hot ones first, their fraction of the rows and of the results.

    A unit becomes hot if on average over the streams (geometrically) it has `above` times the mean number of
    rows, and stays hot down to `below` times. Hot units have their share of all combinations of rows held,
    one of each stream. The others have many keys or few rows, and share the rest in proportion to rows.
    """
    streams, units = held.shape
    combined, own = np.ones(units), np.zeros(units)
    typical = 1.0
    for i in range(streams):
        total = 0.0
        for u in range(units):
            combined[u] *= held[i, u]
            own[u] += held[i, u]
            total += held[i, u]
        typical *= max(total, 1e-300) / units
    own /= max(own.sum(), 1e-300)
    rows[0] = share[0] = 0.0
    for u in range(units):
        hot[u] = combined[u] > typical * (below if hot[u] else above) ** streams
        if hot[u]:
            share[0] += combined[u]
            rows[0] += own[u]
    share[0] /= max(combined.sum(), 1e-300)
    rest = (1.0 - share[0]) / max(1.0 - rows[0], 1e-300)
    for k in range(units):
        more = 0.0 if hot[order[k]] else own[order[k]]
        rows[k + 1] = rows[k] + more
        share[k + 1] = share[k] + rest * more


@njit(cache=True, inline="always")
def affordable(seconds: float, whole: float) -> float:
    """The fraction of work taking `whole` seconds that fits into `seconds`."""
    return 1.0 if seconds >= whole else max(0.0, seconds) / whole if whole > 0.0 else 0.0


@njit(cache=True, nogil=True)
def promise(
    taking: Any, finding: Any, share: Any, seconds: float, work: Any, found: Any, recall: Any
) -> None:
    """Write the expected recall in `seconds`, by number of units admitted. Admission takes `taking`, a full
    search `finding`. A fraction `work` of the search finds a fraction `found` of the results."""
    for k in range(len(share)):
        part, i = affordable(seconds - taking[k], finding[k]), 1
        while i < len(work) - 1 and work[i] < part:
            i += 1
        slope = (found[i] - found[i - 1]) / (work[i] - work[i - 1])
        recall[k] = share[k] * (found[i - 1] + slope * (part - work[i - 1]))
