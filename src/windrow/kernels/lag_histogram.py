"""Histograms of lags between streams, and the probability that a lag lies in a basic window."""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(cache=True)
def add_lags(lags: Any, weights: Any, low: float, high: float, counts: Any) -> None:
    """Adds each lag's weight to its bucket. Buckets have equal width; lags outside go to the nearest one."""
    scale = len(counts) / (high - low)
    for r in range(len(lags)):
        at = int((lags[r] - low) * scale)
        counts[max(0, min(at, len(counts) - 1))] += weights[r]


@njit(cache=True, inline="always")
def _below(cumulative: Any, low: float, width: float, x: float) -> float:
    """The weight below x. Weight lies evenly inside a bucket."""
    place = (x - low) / width
    if place <= 0.0:
        return 0.0
    buckets = len(cumulative) - 1
    if place >= buckets:
        return cumulative[buckets]
    at = int(place)
    return cumulative[at] + (place - at) * (cumulative[at + 1] - cumulative[at])


@njit(cache=True)
def accumulate(counts: Any, cumulative: Any) -> None:
    """Fills `cumulative` with the fraction of the weight below each edge; even if there is no weight."""
    total = 0.0
    for v in range(len(counts)):
        total += counts[v]
    cumulative[0] = 0.0
    for v in range(len(counts)):
        cumulative[v + 1] = cumulative[v] + (counts[v] / total if total > 0.0 else 1.0 / len(counts))


@njit(cache=True)
def score_one_lag(
    cumulative: Any, low: float, width: float, sign: float, length: float, size: float, out: Any
) -> None:
    """Probability that sign * A lies in each basic window (length * k, length * (k + 1)], for one histogram
    of A (GrubJoin eq. 1 with sign -1)."""
    before = _below(cumulative, low, width, 0.0)
    for k in range(len(out)):
        upto = _below(cumulative, low, width, sign * min(length * (k + 1), size))
        out[k] = max(0.0, sign * (upto - before))
        before = upto


@njit(cache=True)
def score_lag_difference(
    cumulative: Any,
    low: float,
    width: float,
    other: Any,
    other_low: float,
    other_width: float,
    length: float,
    size: float,
    out: Any,
) -> None:
    """Probability that A - B lies in each basic window, for independent A and B with a histogram each (eq.
    2).

    All weight of a bucket of B is at its middle, as in the paper.
    """
    out[:] = 0.0
    for v in range(len(other) - 1):
        probability = other[v + 1] - other[v]
        if probability <= 0.0:
            continue
        middle = other_low + (v + 0.5) * other_width
        before = _below(cumulative, low, width, middle)
        for k in range(len(out)):
            upto = _below(cumulative, low, width, middle + min(length * (k + 1), size))
            out[k] += probability * (upto - before)
            before = upto
