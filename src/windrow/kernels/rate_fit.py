"""Fits found to predicted results by score bin and age bin: a factor for each bin, and their interaction.

The tables are small, about a thousand cells, and are fitted every few sub-batches: in numpy the overhead of
calls would dominate. Here arithmetic of whole arrays would take several times as long to compile as loops.
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
    all_found, all_expected = 0.0, 0.0
    for k in range(len(found)):
        all_found += found[k]
        all_expected += expected[k]
    agree = all_found / max(all_expected, 1e-300)
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
    results, total = 0.0, 0.0
    for step in range(1, score_bins):
        results += found[step]
        total += expected[step]
    if total <= 0:
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
    found_by_part, found_by_step = np.zeros(age_bins), np.zeros(score_bins)
    results, total = 0.0, 0.0
    for step in range(score_bins):
        for part in range(age_bins):
            found_by_part[part] += found[step, part]
            found_by_step[step] += found[step, part]
            results += found[step, part]
            total += predicted[step, part]
    mean, by_part, by_step = results / total, np.ones(age_bins), np.ones(score_bins)
    for _ in range(ROUNDS if score_bins > 1 else 1):
        expected = np.zeros(age_bins)
        for step in range(score_bins):
            for part in range(age_bins):
                expected[part] += mean * by_step[step] * predicted[step, part]
        by_part = _ratio(found_by_part, expected, np.int64(1))
        if score_bins > 1:
            expected = np.zeros(score_bins)
            for step in range(score_bins):
                for part in range(age_bins):
                    expected[step] += predicted[step, part] * by_part[part]
                expected[step] *= mean
            by_step = _trend(found_by_step, expected, steep)
    seen, whole, total = np.empty(found.size), np.empty(found.size), 0.0
    for step in range(score_bins):
        for part in range(age_bins):
            cell = step * age_bins + part
            seen[cell] = found[step, part]
            whole[cell] = predicted[step, part] * by_part[part] * by_step[step]
            total += whole[cell]
    mean = results / total
    both = np.ones(found.size)
    if score_bins > 1:
        whole *= mean
        both = _ratio(seen, whole, score_bins + age_bins - 1)
    by_part *= mean
    return by_part, by_step, both.reshape(found.shape)


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
