"""Recall and its interval, from the results found and estimates of the results missed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from windrow.estimation.clumps import Clumps
from windrow.estimation.missed import Loss, ResultSums
from windrow.kernels import result_sums
from windrow.kernels.result_sums import CONTRIBUTING
from windrow.model.metrics import ResultCounts

Array = np.ndarray
NO_CLUMPS = Clumps()
HANDFUL = 5
"""With fewer monitored rows, or sampled rows that found anything, a recall is not known."""
UNKNOWN = 1e18
"""The maximum weight of sums that say nothing, as if one unsampled row could represent any number of
results."""
_MEDIAN = np.log(2) / -np.log(0.025)
"""The median of what may be missed where no missed result was seen, as a fraction of its 95 % bound."""


@dataclass(frozen=True)
class ShadowMatches:
    """The shadow rows among results."""

    weights: Array
    """Weight of each result."""
    depth: Array
    """How many shadow rows each has."""
    where: Sequence[tuple[Array, Array]]
    """For streams with any: which results have a shadow row of this stream, and its slot."""


class ResultEstimate(ResultSums):
    """Sums over results of a join that evicts rows, by the number of their shadow rows, their *depth*: of
    results that lost one row many shadow rows are seen, of those that lost two a few pairs."""

    saved = ("count", "seen")

    def __init__(self, slots: int = 0, depths: int = 1) -> None:
        super().__init__(depths + 1)
        self.count = 0
        """Results."""
        self.seen = np.zeros((depths + 1, slots))
        """By depth and slot: the part that the monitored row took part in as a shadow row."""

    def add(self, value: float, count: int) -> None:
        """Adds `count` results without a shadow row, of this total value."""
        self.count += count
        self.add_sum(value, value)

    def add_with_shadows(self, values: Array, shadows: ShadowMatches, weight: Array) -> None:
        """Adds results with these values, some of them with shadow rows; `weight` is that of each slot."""
        counted = values * shadows.weights
        self.count += len(values)
        result_sums.add_results(values, counted, shadows.depth, self.sums)
        for which, slots in shadows.where:
            result_sums.add_shadow_results(which, slots, shadows.depth, counted, weight, self.seen, self.sums)

    def losses(self, weight: float, clumps: Clumps = NO_CLUMPS) -> list[Loss]:
        """Missed results by depth, up to the first depth without any. A shadow row represents `weight` rows;
        `clumps` are those of monitored rows."""
        losses = []
        size = clumps.unseen(weight) * (self.found / self.count if self.found else 1.0)
        for depth in range(1, len(self.sums)):
            losses.append(self.loss(depth, size, clumps.dispersion))
            if losses[-1].missed == 0:
                break
            # Results that lost one row more: what a shadow row found on average, times its weight.
            size = (weight - 1) * losses[-1].missed / self.sums[depth, CONTRIBUTING]
        return losses

    def recall(self, weight: float, clumps: Clumps = NO_CLUMPS) -> tuple[float, float, float]:
        """Estimate, low and high; parameters as in `losses`."""
        return recall_of(self.found, self.losses(weight, clumps))


def recall_of(found: float, losses: Iterable[Loss], level: float = 0.95) -> tuple[float, float, float]:
    """Estimate, low and high of the recall, where independent losses add up; what was found is certain.

    Where nothing was found and something may be missed, nothing is known. Where no missed result was seen and
    something may be missed, the estimate is not 1: as likely as not there is less.
    """
    missed = below = above = 0.0
    for loss in losses:
        low, high = loss.interval(level)
        missed += loss.missed
        below, above = below + (loss.missed - low) ** 2, above + (high - loss.missed) ** 2
    low, high = max(0.0, missed - below**0.5), missed + above**0.5
    if found + missed == 0:
        return (1.0, 1.0, 1.0) if high <= 0 else (float("nan"), 0.0, 1.0)
    estimate = found / (found + (missed or _MEDIAN * high))
    return float(estimate), float(found / (found + high)), float(found / (found + low))


def recall_interval(
    found: float, true: float, variance: float, level: float = 0.95, max_weight: float = 0.0
) -> tuple[float, float, float]:
    """Estimate, low and high of found / true, where `true` was estimated with this variance from rows that
    represent up to `max_weight` results each."""
    missed = max(0.0, true - found)
    if max_weight >= UNKNOWN or (found + missed == 0 and max_weight):
        return float("nan"), 0.0, 1.0
    return recall_of(found, [Loss(missed, variance, max_weight)], level)


def batch_recall(counts: ResultCounts, results: int, limited: bool) -> tuple[float, float, float]:
    """The recall of one or more micro-batches: 1 if nothing can be lost, NaN if it is unknown."""
    if counts.results_estimated == 0 and results and limited:
        return float("nan"), 0.0, 1.0
    return recall_interval(
        counts.results_found,
        counts.results_estimated,
        counts.results_variance,
        max_weight=counts.results_max_weight,
    )
