"""Fits found to predicted results by score bin and age bin: a factor for each bin, and their interaction.

The tables are small, about a thousand cells, and are fitted every few sub-batches: in numpy the overhead of
calls would dominate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

PRIOR = 1.0
"""Pseudo-results at ratio 1 that every count starts with."""
ROUNDS = 6
FINE = 8
"""Powers of the score tried between 0 and 1."""


@njit(cache=True, nogil=True)
def _ratio(found: Any, expected: Any, known: int) -> Any:
    """found / expected, shrunk towards 1 by as much as chance explains. `known` degrees of freedom are used
    up by making the sums agree."""
    out = np.ones(len(found))
    agree = found.sum() / max(expected.sum(), 1e-300)
    chi2, seen = 0.0, 0
    for k in range(len(found)):
        wanted = expected[k] * agree
        if wanted > 0:
            out[k] = (found[k] + PRIOR) / (wanted + PRIOR)
            chi2 += (found[k] - wanted) ** 2 / max(wanted, 0.1)
            seen += 1
    # By chance alone chi2 is about the degrees of freedom. The excess is the fraction of the differences that
    # is real, as in James and Stein's estimator.
    real = max(0.0, 1.0 - max(seen - known, 0) / chi2) if chi2 > 0 else 0.0
    for k in range(len(found)):
        out[k] = 1 + real * (out[k] - 1)
    return out


@njit(cache=True, nogil=True)
def _trend(found: Any, expected: Any, steep: int) -> Any:
    """found / expected by score bin, as the most likely power of the score up to `steep`, with a prior at 0.
    Single bins have too few results: a ratio fitted to each would change the order of scores. Bin 0, without
    a score, is fitted separately."""
    score_bins = len(found)
    out, best = np.ones(score_bins), -np.inf
    out[0] = (found[0] + PRIOR) / (expected[0] + PRIOR)
    results = found[1:].sum()
    if expected[1:].sum() <= 0:
        return out
    for k in range(-FINE * steep, FINE * steep + 1):
        power = k / FINE
        wanted = exponent = 0.0
        for step in range(1, score_bins):
            wanted += expected[step] * 2.0 ** (power * (step - score_bins // 2))
            exponent += found[step] * power * (step - score_bins // 2)
        # For a given power the most likely level has a closed form.
        level = (results + PRIOR) / (wanted + PRIOR)
        likelihood = exponent * np.log(2.0) + results * np.log(level) - level * wanted - 2.0 * power**2
        if likelihood > best:
            best = likelihood
            for step in range(1, score_bins):
                out[step] = level * 2.0 ** (power * (step - score_bins // 2))
    return out


@njit(cache=True, nogil=True)
def fit_rates(found: Any, predicted: Any, steep: int) -> Any:
    """Found over predicted results: by age bin, by score bin (a power of the score up to `steep`), and by
    both. There must be some results."""
    score_bins, age_bins = found.shape
    results = found.sum()
    mean, by_part, by_step = results / predicted.sum(), np.ones(age_bins), np.ones(score_bins)
    found_by_part, found_by_step = found.sum(axis=0), found.sum(axis=1)
    for _ in range(ROUNDS if score_bins > 1 else 1):
        expected = np.zeros(age_bins)
        for step in range(score_bins):
            expected += mean * by_step[step] * predicted[step]
        by_part = _ratio(found_by_part, expected, 1)
        if score_bins > 1:
            expected = np.zeros(score_bins)
            for step in range(score_bins):
                expected[step] = mean * (predicted[step] * by_part).sum()
            by_step = _trend(found_by_step, expected, steep)
    whole = predicted * by_part * by_step.reshape(score_bins, 1)
    mean = results / whole.sum()
    both = np.ones(found.shape)
    if score_bins > 1:
        both = _ratio(found.ravel(), mean * whole.ravel(), score_bins + age_bins - 1).reshape(found.shape)
    return mean * by_part, by_step, both


@njit(cache=True, nogil=True)
def best_mean_rates(rates: Any) -> Any:
    """By score bin and age bin, the greatest mean rate from the start of the age bin to the end of any."""
    score_bins, age_bins = rates.shape
    out = np.empty(rates.shape)
    for step in range(score_bins):
        for part in range(age_bins):
            total, best = 0.0, 0.0
            for end in range(part, age_bins):
                total += rates[step, end]
                best = max(best, total / (end - part + 1))
            out[step, part] = best
    return out
