"""Sums over sampled results, by kind, and how one sampled row adds to them."""

from __future__ import annotations

from typing import Any

from numba import njit

FOUND, ESTIMATED, VARIANCE, LARGEST, CONTRIBUTING = range(5)
"""Columns: results found; all results, estimated without bias; the variance of that estimate; the most of it
that depends on one sampled row; and the number of sampled rows with results."""


@njit(cache=True, inline="always")
def add_row_results(sums: Any, kind: int, weight: float, before: float, after: float) -> None:
    """The results of a row that represents `weight` rows grow from `before` to `after`. With y in all it adds
    (1 - 1/weight) y^2 to the variance, so each result adds the difference."""
    chance = 1.0 - 1.0 / weight
    sums[kind, VARIANCE] += chance * (after * after - before * before)
    sums[kind, LARGEST] = max(sums[kind, LARGEST], chance * after)
    sums[kind, CONTRIBUTING] += before == 0.0 and chance > 0.0
