"""Arithmetic of small plans that are made once a call, so that a plan costs less than what it saves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_ROUNDS = 60
_SHORTEST = 1e-7


@njit(cache=True, nogil=True)
def fit(features: Any, seconds: Any, fade: float, prior: Any, ridge: float) -> Any:
    """Non-negative coefficients that explain `seconds` by least squares of the relative error.

    `features` by coefficient and observation, the latest last; each observation counts `fade` times what the
    next one does. First the `prior` is scaled as a whole. Then each coefficient is drawn to it by its own
    size: what makes up little of the time, or never varies by itself, keeps its ratio to the others.
    Coordinate descent: the diagonal is positive, so each step goes down.
    """
    count, n = features.shape
    matrix, wanted = np.zeros((count, count)), np.zeros(count)
    weight, total, scale = 1.0, 0.0, 0.0
    for k in range(n - 1, -1, -1):
        usual = 0.0
        each = weight / max(seconds[k], _SHORTEST) ** 2
        for i in range(count):
            usual += features[i, k] * prior[i]
            wanted[i] += each * features[i, k] * seconds[k]
            for j in range(count):
                matrix[i, j] += each * features[i, k] * features[j, k]
        if usual > 0.0:
            scale += weight * seconds[k] / usual
            total += weight
        weight *= fade
    found = prior.copy()
    if total == 0.0:
        return found
    for i in range(count):
        found[i] *= scale / total
        drawn = ridge * total / max(found[i], 1e-12) ** 2
        matrix[i, i] += drawn
        wanted[i] += drawn * found[i]
    for _ in range(_ROUNDS):
        for i in range(count):
            rest = wanted[i]
            for j in range(count):
                if j != i:
                    rest -= matrix[i, j] * found[j]
            found[i] = max(0.0, rest / matrix[i, i])
    return found


@njit(cache=True, nogil=True)
def fit_all(timed: Any, fade: float, fitted: Any, ridge: float) -> None:
    """Fits the coefficients of take, probe and build to sub-batches, by row as in `harvest/call_costs.py`."""
    n = len(timed)
    features = np.ones((3, n))
    features[1] = timed[:, 3]
    fitted[:2] = fit(features[:2], timed[:, 0], fade, fitted[:2], ridge)
    features[2] = timed[:, 4]
    fitted[2:5] = fit(features, timed[:, 1], fade, fitted[2:5], ridge)
    features[0], features[1] = timed[:, 5], timed[:, 6]
    fitted[5:] = fit(features[:2], timed[:, 2], fade, fitted[5:], ridge)


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
def _part(seconds: float, whole: float) -> float:
    """What part of work that takes `whole` there is time for."""
    return 1.0 if seconds >= whole else max(0.0, seconds) / whole if whole > 0.0 else 0.0


@njit(cache=True)
def probed(seconds: float, whole: float, kept: float) -> float:
    """What part of the rows may probe, if all take `whole` and a few still so much as is `kept`."""
    return 1.0 if seconds >= whole else _part(seconds - kept, whole - kept)


@njit(cache=True, nogil=True)
def promise(
    taking: Any,
    entering: Any,
    finding: Any,
    share: Any,
    seconds: float,
    work: Any,
    found: Any,
    scattered: float,
    dearer: float,
    recall: Any,
) -> None:
    """Writes what each number of units promises in so many seconds: by probes of a part of the rows, and by
    parts of windows (the curve `found` over `work`, if it has points), where finding costs `dearer` times as
    much. When fewer rows probe, a `scattered` part of what all would take to find results is not saved."""
    for k in range(len(share)):
        left = seconds - taking[k]
        part = probed(left, entering[k] + finding[k], scattered * finding[k])
        recall[0, k] = share[k] * part
        recall[1, k] = 0.0
        if len(work):
            left -= entering[k]
            part = _part(left, dearer * finding[k])
            recall[1, k] = share[k] * np.interp(part, work, found)
