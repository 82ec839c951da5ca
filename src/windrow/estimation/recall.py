"""Recall and its interval, from the results found and the sums over shadow rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windrow.estimation.missed import missed_interval
from windrow.kernels import shadow_rows
from windrow.model.metrics import ResultCounts
from windrow.model.stateful import Stateful

Array = np.ndarray
HANDFUL = 5
"""Monitored rows, or sampled rows that brought results, below which a recall is not known."""
UNKNOWN = 1e18
"""The unit of sums that tell nothing: as if one row that was not seen could stand for any number of
results."""
_MEDIAN = np.log(2) / -np.log(0.025)
"""Of what may be missed where nothing missed was seen, as a part of its 95 % bound."""


@dataclass(frozen=True)
class ShadowMatches:
    """The shadow rows among results."""

    weights: Array
    """What each result counts for."""
    depth: Array
    """How many shadow rows each has."""
    where: Sequence[tuple[Array, Array]]
    """For streams with any: which results have a shadow row of this stream, and its slot."""


class ResultEstimate(Stateful):
    """A sum over results: what was found of it, and what it would be without a limit.

    Results are told apart by the number of their shadow rows, their *depth*, for each depth has its own way
    of being uncertain: of results that lost one row many shadow rows are seen, of those that lost two a few
    pairs.
    """

    saved = ("count", "found", "estimated", "missed", "variance", "largest", "contributing", "seen")

    def __init__(self, slots: int = 0, depths: int = 1) -> None:
        self.count = 0
        """Results."""
        self.found = 0.0
        self.estimated = 0.0
        self.missed = np.zeros(depths)
        """By depth, from 1 on: the estimate, its variance, the most that hung on one shadow row, and how many
        shadow rows brought anything."""
        self.variance = np.zeros(depths)
        self.largest = np.zeros(depths)
        self.contributing = np.zeros(depths)
        self.seen = np.zeros((depths, slots))
        """By depth and slot: the part that the monitored row took part in as a shadow row."""

    def add(self, value: float, count: int) -> None:
        """So many results, worth this together, without a shadow row."""
        self.count += count
        self.found += value
        self.estimated += value

    def add_with_shadows(self, values: Array, shadows: ShadowMatches, weight: Array) -> None:
        """Results worth `values`, some of them with shadow rows; and what each slot weighs."""
        counted = values * shadows.weights
        found, true = shadow_rows.weighted_sums(values, counted, shadows.depth, self.missed)
        self.count, self.found, self.estimated = (
            self.count + len(values),
            self.found + found,
            self.estimated + true,
        )
        sums = (self.seen, self.variance, self.largest, self.contributing)
        for which, slots in shadows.where:
            shadow_rows.add_shadow_variance(which, slots, shadows.depth, counted, weight, *sums)

    def max_weights(self, weight: float, clump: float) -> list[float]:
        """By depth, up to the first of which nothing was seen: the most that may hang on one shadow row.

        What shadow rows brought tells that, as far as it was brought by many. As far as it hung on one of
        them, or if none brought anything, it is what any monitored row may bring; and of results that lost
        one row more, what a shadow row brought on average, for each row that one stands for.

        Parameters
        ----------
        weight
            Rows that a shadow row stands for.
        clump
            Results that hang on one row together.
        """
        found = []
        size = (weight - 1) * clump * (self.found / self.count if self.found else 1.0)
        for missed, largest, shadows in zip(self.missed, self.largest, self.contributing, strict=True):
            share = min(1.0, largest / missed) if missed > 0 else 1.0
            found.append(float(largest + share * max(0.0, size - largest)))
            if missed == 0:
                break
            size = (weight - 1) * missed / shadows
        return found

    def recall(self, weight: float, clump: float = 1.0) -> tuple[float, float, float]:
        """Estimate, low and high; see `sizes`."""
        below = above = 0.0
        for missed, variance, size in zip(
            self.missed, self.variance, self.max_weights(weight, clump), strict=False
        ):
            low, high = missed_interval(missed, variance, size)
            below, above = below + (missed - low) ** 2, above + (high - missed) ** 2
        lost = max(0.0, self.estimated - self.found)
        return recall_between(self.found, lost, lost - below**0.5, lost + above**0.5)


def recall_interval(
    found: float, true: float, variance: float, level: float = 0.95, unit: float = 0.0
) -> tuple[float, float, float]:
    """Estimate, low and high of found / true, where `true` was estimated with this variance from rows that
    stand for up to `unit` results each."""
    missed = max(0.0, true - found)
    if unit >= UNKNOWN or (found + missed == 0 and unit):
        return float("nan"), 0.0, 1.0
    step = max(unit, variance / missed if missed else 0.0)
    return recall_between(found, missed, *missed_interval(missed, variance, step, level))


def batch_recall(counts: ResultCounts, results: int, limited: bool) -> tuple[float, float, float]:
    """Of a batch or several: as `recall_interval`; 1 where nothing can be lost, NaN where nothing tells."""
    if counts.results_estimated == 0 and results and limited:
        return float("nan"), 0.0, 1.0
    return recall_interval(
        counts.results_found,
        counts.results_estimated,
        counts.results_variance,
        unit=counts.results_max_weight,
    )


def recall_between(found: float, missed: float, low: float, high: float) -> tuple[float, float, float]:
    """Estimate, low and high of the recall; what was found is certain. Where nothing was found and something
    may be missed, nothing is known. Where nothing missed was seen and something may be, the estimate is not
    1: as likely as not there is less."""
    if found + missed == 0:
        return (1.0, 1.0, 1.0) if high <= 0 else (float("nan"), 0.0, 1.0)
    ends = found / (found + high), found / (found + max(low, 0.0))
    return float(found / (found + (missed or _MEDIAN * high))), float(ends[0]), float(ends[1])
