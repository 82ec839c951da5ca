"""Fits found against predicted results by score bin and age bin: a factor for each, and what they leave out.

The tables are small, a thousand cells, and are fitted every few sub-batches: numpy would spend its time on
calls.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

PRIOR = 1.0
"""Results at ratio 1 that every count starts with."""
ROUNDS = 6
FINE = 8
"""Powers of the score tried between 0 and 1."""


@njit(cache=True, nogil=True)
def _ratio(found: Any, expected: Any, known: int) -> Any:
    """found / expected, drawn towards 1 by as much as chance explains; `known` degrees of freedom are used to
    make the sums agree."""
    out = np.ones(len(found))
    agree = found.sum() / max(expected.sum(), 1e-300)
    chi2, seen = 0.0, 0
    for k in range(len(found)):
        wanted = expected[k] * agree
        if wanted > 0:
            out[k] = (found[k] + PRIOR) / (wanted + PRIOR)
            chi2 += (found[k] - wanted) ** 2 / max(wanted, 0.1)
            seen += 1
    real = max(0.0, 1.0 - max(seen - known, 0) / chi2) if chi2 > 0 else 0.0
    for k in range(len(found)):
        out[k] = 1 + real * (out[k] - 1)
    return out


@njit(cache=True, nogil=True)
def _trend(found: Any, expected: Any, steep: int) -> Any:
    """found / expected by score bin, as a power of the score up to `steep`: the likeliest, with a prior at 0.
    Single bins have too few results, and a ratio that goes up and down with them would change the order of
    scores. Bin 0, without a score, is fitted by itself."""
    steps = len(found)
    out, best = np.ones(steps), -np.inf
    out[0] = (found[0] + PRIOR) / (expected[0] + PRIOR)
    results = found[1:].sum()
    if expected[1:].sum() <= 0:
        return out
    for k in range(-FINE * steep, FINE * steep + 1):
        power = k / FINE
        wanted = told = 0.0
        for step in range(1, steps):
            wanted += expected[step] * 2.0 ** (power * (step - steps // 2))
            told += found[step] * power * (step - steps // 2)
        level = (results + PRIOR) / (wanted + PRIOR)
        likelihood = told * np.log(2.0) + results * np.log(level) - level * wanted - 2.0 * power**2
        if likelihood > best:
            best = likelihood
            for step in range(1, steps):
                out[step] = level * 2.0 ** (power * (step - steps // 2))
    return out


@njit(cache=True, nogil=True)
def fit_rates(found: Any, foretold: Any, steep: int) -> Any:
    """Found over predicted results: by age bin, factors on that by score bin (a power of the score up to
    `steep`), and by both. There must be some results."""
    steps, parts = found.shape
    results = found.sum()
    mean, by_part, by_step = results / foretold.sum(), np.ones(parts), np.ones(steps)
    found_by_part, found_by_step = found.sum(axis=0), found.sum(axis=1)
    for _ in range(ROUNDS if steps > 1 else 1):
        expected = np.zeros(parts)
        for step in range(steps):
            expected += mean * by_step[step] * foretold[step]
        by_part = _ratio(found_by_part, expected, 1)
        if steps > 1:
            expected = np.zeros(steps)
            for step in range(steps):
                expected[step] = mean * (foretold[step] * by_part).sum()
            by_step = _trend(found_by_step, expected, steep)
    whole = foretold * by_part * by_step.reshape(steps, 1)
    mean = results / whole.sum()
    both = np.ones(found.shape)
    if steps > 1:
        both = _ratio(found.ravel(), mean * whole.ravel(), steps + parts - 1).reshape(found.shape)
    return mean * by_part, by_step, both


@njit(cache=True, nogil=True)
def best_mean_rates(rates: Any) -> Any:
    """By score bin and age bin, the greatest mean rate from the start of the age bin to the end of any."""
    steps, parts = rates.shape
    out = np.empty(rates.shape)
    for step in range(steps):
        for part in range(parts):
            total, best = 0.0, 0.0
            for end in range(part, parts):
                total += rates[step, end]
                best = max(best, total / (end - part + 1))
            out[step, part] = best
    return out
