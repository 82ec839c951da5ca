"""The recall and its interval, from sums over results: what was found, and what ghosts tell of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windrow.kernels import haunting
from windrow.shed.missed import missed_interval

Array = np.ndarray
HANDFUL = 5
"""Monitored rows, or sampled rows that brought results, below which a recall is not known."""
UNKNOWN = 1e18
"""The unit of sums that tell nothing: as if one row that was not seen could stand for any number of
results."""
_MEDIAN = np.log(2) / -np.log(0.025)
"""Of what may be missed where nothing missed was seen, as a part of its 95 % bound."""


@dataclass(frozen=True)
class Haunted:
    """The ghosts among results."""

    weights: Array
    """What each result counts for."""
    depth: Array
    """How many ghosts each has."""
    where: Sequence[tuple[Array, Array]]
    """For streams with any: which results have a ghost of this stream, and its slot."""


class Account:
    """A sum over results: what was found of it, and what it would be without a limit.

    Results are told apart by the number of their ghosts, their *depth*, for each depth has its own way of
    being uncertain: of results that lost one row many ghosts are seen, of those that lost two a few pairs.
    """

    def __init__(self, slots: int = 0, depths: int = 1) -> None:
        self.count = 0
        """Results."""
        self.found = 0.0
        self.true = 0.0
        self.missed = np.zeros(depths)
        """By depth, from 1 on: the estimate, its variance, the most that hung on one ghost, and how many
        ghosts brought anything."""
        self.variance = np.zeros(depths)
        self.largest = np.zeros(depths)
        self.bringing = np.zeros(depths)
        self.seen = np.zeros((depths, slots))
        """By depth and slot: the part that the watched row took part in as a ghost."""

    def add(self, value: float, count: int) -> None:
        """So many results, worth this together, without a ghost."""
        self.count += count
        self.found += value
        self.true += value

    def haunted(self, values: Array, ghosts: Haunted, weight: Array) -> None:
        """Results worth `values`, some of them with ghosts; and what each slot weighs."""
        counted = values * ghosts.weights
        found, true = haunting.add_up(values, counted, ghosts.depth, self.missed)
        self.count, self.found, self.true = self.count + len(values), self.found + found, self.true + true
        sums = (self.seen, self.variance, self.largest, self.bringing)
        for which, slots in ghosts.where:
            haunting.account(which, slots, ghosts.depth, counted, weight, *sums)

    def sums(self) -> list[Any]:
        """What `load` takes, besides what was seen."""
        by_depth = (self.missed, self.variance, self.largest, self.bringing)
        return [self.count, self.found, self.true, *(each.tolist() for each in by_depth)]

    def load(self, sums: Sequence[Any], seen: Array) -> None:
        self.count, self.found, self.true, *by_depth = sums
        self.missed, self.variance, self.largest, self.bringing = map(np.array, by_depth)
        self.seen = seen

    def sizes(self, weight: float, clump: float) -> list[float]:
        """By depth, up to the first of which nothing was seen: the most that may hang on one ghost.

        What ghosts brought tells that, as far as it was brought by many. As far as it hung on one of them, or
        if none brought anything, it is what any watched row may bring; and of results that lost one row more,
        what a ghost brought on average, for each row that one stands for.

        Parameters
        ----------
        weight
            Rows that a ghost stands for.
        clump
            Results that hang on one row together.
        """
        found = []
        size = (weight - 1) * clump * (self.found / self.count if self.found else 1.0)
        for missed, largest, ghosts in zip(self.missed, self.largest, self.bringing, strict=True):
            share = min(1.0, largest / missed) if missed > 0 else 1.0
            found.append(float(largest + share * max(0.0, size - largest)))
            if missed == 0:
                break
            size = (weight - 1) * missed / ghosts
        return found

    def recall(self, weight: float, clump: float = 1.0) -> tuple[float, float, float]:
        """Estimate, low and high; see `sizes`."""
        below = above = 0.0
        for missed, variance, size in zip(
            self.missed, self.variance, self.sizes(weight, clump), strict=False
        ):
            low, high = missed_interval(missed, variance, size)
            below, above = below + (missed - low) ** 2, above + (high - missed) ** 2
        lost = max(0.0, self.true - self.found)
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


def batch_recall(
    found: float, true: float, variance: float, results: int, limited: bool, unit: float = 0.0
) -> tuple[float, float, float]:
    """Of a batch or several: as `recall_interval`; 1 where nothing can be lost, NaN where nothing tells."""
    if true == 0 and results and limited:
        return float("nan"), 0.0, 1.0
    return recall_interval(found, true, variance, unit=unit)


def recall_between(found: float, missed: float, low: float, high: float) -> tuple[float, float, float]:
    """Estimate, low and high of the recall; what was found is certain. Where nothing was found and something
    may be missed, nothing is known. Where nothing missed was seen and something may be, the estimate is not
    1: as likely as not there is less."""
    if found + missed == 0:
        return (1.0, 1.0, 1.0) if high <= 0 else (float("nan"), 0.0, 1.0)
    ends = found / (found + high), found / (found + max(low, 0.0))
    return float(found / (found + (missed or _MEDIAN * high))), float(ends[0]), float(ends[1])
