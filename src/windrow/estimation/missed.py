"""Missed results: an estimate with its interval, and how it is made under a deadline.

A fraction `omega` of the arriving rows, drawn independently, probes an even sample `z` of the first window
and everything behind it (window shredding, GrubJoin s. 5.2.1). Each result such a row finds represents 1/z
results of the row, and (1 - omega) / omega times as many of rows that were not drawn. Of the former 1/z - 1
were missed; of the latter all that the harvest would not have found. So with y results of a drawn row, x of
them outside the harvest,

    missed  =  sum over drawn rows of  c = y (1/z - 1) + x (1 - omega) / (omega z)

is unbiased, and as rows are drawn independently its variance is at most the expected sum of c^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from windrow.kernels.result_sums import ESTIMATED, FOUND, VARIANCE
from windrow.model.stateful import Stateful

Array = np.ndarray


@dataclass(frozen=True)
class ShreddingSample:
    """The rows that measure what is missed: a fraction omega, each probing a part z of the first window."""

    omega: float
    z: float

    @property
    def weight(self) -> float:
        """How many results one result of such a row represents."""
        return 1 / max(self.omega * self.z, 1e-12)


class MissedResults(Stateful):
    version = 2
    saved = (
        "results", "weight_sum", "squares", "rows_with_results", "results_found", "unsampled_rows", "rows",
        "drawn",
    )  # fmt: skip

    def __init__(self) -> None:
        self.results = ResultSums()
        """Those missed, none of which is found."""
        self.weight_sum = 0.0
        self.squares = 0.0
        """Sums, over drawn rows, of the weight that a result would have had, and of its square."""
        self.rows_with_results = 0
        self.results_found = 0.0
        """Drawn rows that found anything, and the results they found."""
        self.unsampled_rows = 0
        """Rows that probed less than everything while none was drawn to measure what that misses."""
        self.rows = 0
        self.drawn = 0
        """Rows that arrived while probes were incomplete, and those of them that were drawn."""

    @classmethod
    def migrated(cls, version: int, values: dict[str, Any]) -> dict[str, Any]:
        return values | {"results": ResultSums.of(0.0, values.pop("count"), values.pop("variance"))}

    @property
    def max_weight(self) -> float:
        """Results that one row not drawn would have represented; 0 if probes were always complete. A row that
        represents fewer is drawn sooner, so the average is weighted by what rows represent. A row that finds
        anything finds several results, as the drawn ones did."""
        if not self.weight_sum:
            return 0.0
        clump = max(1.0, self.results_found / self.rows_with_results) if self.rows_with_results else 1.0
        return self.squares / self.weight_sum * clump

    def draw(self, rows: int, draw: ShreddingSample) -> None:
        """Counts drawn rows."""
        self.drawn += rows
        self.weight_sum += rows * draw.weight
        self.squares += rows * draw.weight**2

    def add(self, rows: Array, drawn: int, outside: Array, weights: Array, draw: ShreddingSample) -> None:
        """Adds the results of `drawn` rows: for each result which of them found it, whether it is `outside`
        the harvest, and how many results it represents on account of rows that were evicted."""
        each = weights * ((1 / draw.z - 1) + outside * (1 - draw.omega) * draw.weight)
        per_row = np.bincount(rows, each, drawn)
        self.rows_with_results += len(np.unique(rows))
        self.results_found += float(weights.sum())
        self.results.add_sum(0.0, float(per_row.sum()), float((per_row**2).sum()))


def missed_interval(
    missed: float, variance: float, max_weight: float, level: float = 0.95, unseen_variance: float = 0.0
) -> tuple[float, float]:
    """Bounds of a number of missed results that was estimated with this variance from rows that represent up
    to `max_weight` results each. `unseen_variance` is what the variance lacks if larger rows were not drawn.

    The estimate is a sum of few weighted counts, so it is positive and skewed: its bounds are those of gamma
    distributions with its mean and variance, for the upper one with one more than was seen (Fay and Feuer
    1997, for weighted sums of Poisson counts). So even where no missed result was seen, some may be missed.
    Results come in clumps, many of one row, so one more is one more row with what it finds. Where the
    estimate is too low, such rows were not drawn, and then its variance is too low as well.
    """
    if variance + max_weight == 0:
        return missed, missed
    tail, whole = (1 - level) / 2, variance + unseen_variance
    low = gamma_quantile(missed, whole, tail) if missed > 0 and whole > 0 else 0.0
    more = max(max_weight, variance / missed) if missed > 0 else max_weight
    mean = missed + more
    return low, gamma_quantile(mean, whole + more**2, 1 - tail) if mean > 0 else 0.0


def gamma_quantile(mean: float, variance: float, probability: float) -> float:
    """The quantile of the gamma distribution with this mean and variance."""
    from scipy.special import gammaincinv  # imported here because only the quality needs it

    return float(gammaincinv(mean**2 / variance, probability)) * variance / mean


@dataclass(frozen=True)
class Loss:
    """Missed results of one kind, estimated."""

    missed: float
    variance: float
    max_weight: float
    """The most of them that one unsampled row can represent."""
    unseen_variance: float = 0.0
    """What the variance lacks if rows with more results were not sampled."""

    @property
    def summed_weight(self) -> float:
        """The maximum weight for sums over several joins, which carry no unseen variance."""
        if not self.unseen_variance:
            return self.max_weight
        return max(self.max_weight, (self.variance + self.unseen_variance) / self.missed)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        return missed_interval(self.missed, self.variance, self.max_weight, level, self.unseen_variance)


class ResultSums(Stateful):
    """Sums over results by kind: found, estimated in all, and the variance of that.

    Each kind has its own way of being uncertain. What the few sampled rows of one kind might have found, and
    did not, must not be hidden by what many of another kind did.
    """

    saved: ClassVar[tuple[str, ...]] = ("sums",)

    def __init__(self, kinds: int = 1) -> None:
        self.sums = np.zeros((kinds, 5))
        """By kind, with the columns of `kernels/result_sums.py`."""

    @classmethod
    def of(cls, found: float, estimated: float, variance: float) -> ResultSums:
        """These sums, of one kind."""
        made = cls()
        made.add_sum(found, estimated, variance)
        return made

    @property
    def found(self) -> float:
        return float(sum(self.sums[:, FOUND].tolist()))

    @property
    def estimated(self) -> float:
        return float(sum(self.sums[:, ESTIMATED].tolist()))

    @property
    def variance(self) -> float:
        return float(sum(self.sums[:, VARIANCE].tolist()))

    def add_sum(self, found: float, estimated: float, variance: float = 0.0) -> None:
        """Adds to the first kind."""
        first = self.sums[0]
        first[FOUND] += found
        first[ESTIMATED] += estimated
        first[VARIANCE] += variance

    def loss(self, kind: int, max_weight: float, dispersion: float = 1.0) -> Loss:
        """Missed results of a kind, where one unsampled row can represent up to `max_weight`. The results of
        sampled rows replace that bound to the extent that they are spread over many rows.

        If the sampled rows with results vary less than rows do (`dispersion`, of `Clumps`), the largest may
        not have been sampled, and the variance lacks theirs.
        """
        found, estimated, variance, largest, contributing = self.sums[kind].tolist()
        missed = max(0.0, estimated - found)
        share = min(1.0, largest / missed) if missed > 0 else 1.0
        weight = largest + share * max(0.0, max_weight - largest)
        alike = missed**2 * dispersion / contributing if contributing else 0.0
        return Loss(missed, variance, weight, max(0.0, alike - variance) if dispersion > 1 else 0.0)
