"""Sums over sampled results, by kind: what they are, and how one sampled row adds to them."""

from __future__ import annotations

from typing import Any

from numba import njit

FOUND, ESTIMATED, VARIANCE, LARGEST, CONTRIBUTING = range(5)
"""Results found; all results, estimated without bias; the variance of that; the most of it that hangs on one
sampled row; and sampled rows that found anything."""


@njit(cache=True, inline="always")
def add_row_results(sums: Any, kind: int, weight: float, before: float, after: float) -> None:
    """A row that represents `weight` rows has found results of `after` in all, `before` up to now. With y in
    all it adds (1 - 1/weight) y^2 to the variance, which grows by the difference with every result."""
    chance = 1.0 - 1.0 / weight
    sums[kind, VARIANCE] += chance * (after * after - before * before)
    sums[kind, LARGEST] = max(sums[kind, LARGEST], chance * after)
    sums[kind, CONTRIBUTING] += before == 0.0 and chance > 0.0
