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
    next one does. Coefficients that the observations do not tell apart are drawn to the `prior`. Coordinate
    descent: the diagonal is positive, so each step goes down.
    """
    count, n = features.shape
    matrix, wanted = np.zeros((count, count)), np.zeros(count)
    weight = 1.0
    for k in range(n - 1, -1, -1):
        each = weight / max(seconds[k], _SHORTEST) ** 2
        for i in range(count):
            wanted[i] += each * features[i, k] * seconds[k]
            for j in range(count):
                matrix[i, j] += each * features[i, k] * features[j, k]
        weight *= fade
    found = prior.copy()
    for i in range(count):
        drawn = ridge * matrix[i, i] + 1e-30
        matrix[i, i] += drawn
        wanted[i] += drawn * prior[i]
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
    """Fits the coefficients of take, probe and build to sub-batches, by row as in `planning/costs.py`."""
    n = len(timed)
    features = np.ones((3, n))
    features[1] = timed[:, 3]
    fitted[:2] = fit(features[:2], timed[:, 0], fade, fitted[:2], ridge)
    features[2] = timed[:, 4]
    fitted[2:5] = fit(features, timed[:, 1], fade, fitted[2:5], ridge)
    features[0], features[1] = timed[:, 5], timed[:, 6]
    fitted[5:] = fit(features[:2], timed[:, 2], fade, fitted[5:], ridge)


@njit(cache=True, nogil=True)
def survey(new: Any, held: Any, order: Any, above: float, below: float, hot: Any, rows: Any, share: Any) -> None:
    """By how many units are admitted, hot ones first: the rows that come in with them, and their share of all
    combinations of a new row of one stream with rows held of all others. A unit is hot that has `above` times
    the mean of combinations, or was and has `below`."""
    streams, units = new.shape
    combined = np.zeros(units)
    for u in range(units):
        for i in range(streams):
            each = new[i, u]
            for j in range(streams):
                if j != i:
                    each *= held[j, u]
            combined[u] += each
    mean = combined.mean()
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
    for k in range(units + 1):
        share[k] = share[k] / (mean * units) if mean > 0.0 else k / units


@njit(cache=True, inline="always")
def _part(seconds: float, whole: float) -> float:
    """What part of work that takes `whole` there is time for."""
    return 1.0 if seconds >= whole else max(0.0, seconds) / whole if whole > 0.0 else 0.0


@njit(cache=True, nogil=True)
def promise(
    taking: Any,
    entering: Any,
    finding: Any,
    share: Any,
    seconds: float,
    work: Any,
    found: Any,
    dearer: float,
    recall: Any,
) -> None:
    """Writes what each number of units promises in so many seconds: by probes of a part of the rows, and by
    parts of windows (the curve `found` over `work`, if it has points), where finding costs `dearer` times as
    much."""
    for k in range(len(share)):
        left, whole = seconds - taking[k], entering[k] + finding[k]
        part = _part(left, whole)
        recall[0, k] = share[k] * part
        recall[1, k] = 0.0
        if len(work):
            left -= entering[k]
            part = _part(left, dearer * finding[k])
            recall[1, k] = share[k] * np.interp(part, work, found)
