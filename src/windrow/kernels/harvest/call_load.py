"""Arithmetic of small plans that are made once a call, so that a plan costs less than what it saves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_SHORTEST = 1e-7


@njit(cache=True, nogil=True)
def fit(
    seen: Any, fade: float, fixed: float, slope: float, ridge: float, unusual: float
) -> tuple[float, float]:
    """(fixed, slope) of  seconds = fixed + slope * work,  from rows (seconds, work), the latest last.

    Each counts `fade` times what the next does, and less if it is off by more than `unusual` of what the
    coefficients before explain. Where work does not vary, what part of the seconds is fixed stays as it was:
    the slope of seconds over work, both by their means, is a ridge regression towards it.
    """
    weight, total, seconds, work = 1.0, 0.0, 0.0, 0.0
    weights = np.empty(len(seen))
    for k in range(len(seen) - 1, -1, -1):
        took, explained = max(seen[k, 0], _SHORTEST), max(fixed + slope * seen[k, 1], _SHORTEST)
        each = weights[k] = weight * min(1.0, unusual / max(abs(took / explained - 1.0), 1e-9))
        total, seconds, work = total + each, seconds + each * took, work + each * seen[k, 1]
        weight *= fade
    seconds, work = seconds / total, work / total
    if work <= 0.0:
        return seconds, slope
    known = 1.0 - fixed / max(fixed + slope * work, _SHORTEST)
    above, below = ridge * total * known, ridge * total
    for k in range(len(seen)):
        apart = seen[k, 1] / work - 1.0
        above += weights[k] * apart * (max(seen[k, 0], _SHORTEST) / seconds - 1.0)
        below += weights[k] * apart * apart
    # By noise alone it may seem that less work takes longer; half the slope is believed at once.
    part = min(1.0, max(above / below, 0.5 * known))
    return (1.0 - part) * seconds, part * seconds / work


@njit(cache=True, nogil=True)
def survey(
    new: Any, held: Any, order: Any, above: float, below: float, hot: Any, rows: Any, share: Any
) -> None:
    """By how many units are admitted, hot ones first: the rows that come in with them, and their share of the
    results. That is taken to be their share of all combinations of rows held, one of each stream, but for a
    tenth that goes by rows: some will match what is yet to come. A unit is hot that has `above` times the
    mean of combinations, or was and has `below`."""
    streams, units = new.shape
    combined = np.ones(units)
    came = np.zeros(units)
    for u in range(units):
        for i in range(streams):
            combined[u] *= held[i, u]
            came[u] += held[i, u]
    products, rows_held = combined.sum(), came.sum()
    for u in range(units):
        part = came[u] / rows_held if rows_held > 0.0 else 1.0 / units
        combined[u] = part if products == 0.0 else 0.9 * combined[u] / products + 0.1 * part
    mean = 1.0 / units
    rows[0] = share[0] = 0.0
    for u in range(units):
        hot[u] = combined[u] > above * mean or (hot[u] and combined[u] > below * mean)
        if hot[u]:
            share[0] += combined[u]
            for i in range(streams):
                rows[0] += new[i, u]
    for k in range(units):
        u = order[k]
        rows[k + 1], share[k + 1] = rows[k], share[k]
        if not hot[u]:
            share[k + 1] += combined[u]
            for i in range(streams):
                rows[k + 1] += new[i, u]


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
