"""The recall and its interval, from sums over results: what was found, and what ghosts tell of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windrow.kernels import haunting
from windrow.shed.missed import missed_interval

Array = np.ndarray


class Account:
    """A sum over results: what was found of it, and what it would be without a limit.

    Results are told apart by how many independent choices they hang on, their *depth*, for each depth has its
    own way of being uncertain: of results that lost one row many are seen, of those that lost two, whose
    ghosts were chosen each by itself, a few pairs.
    """

    def __init__(self, units: int = 0, depths: int = 1) -> None:
        self.count = 0
        """Results."""
        self.found = 0.0
        self.true = 0.0
        self.missed = np.zeros(depths + 1)
        """By depth: the estimate, its variance, and the most that hung on one choice; at 0 for all depths."""
        self.variance = np.zeros(depths + 1)
        self.largest = np.zeros(depths + 1)
        self.seen = np.zeros((depths + 1, units))
        """By depth and unit: the part that hung on the choice of the unit."""

    def add(self, value: float, count: int) -> None:
        """So many results, worth this together, without a ghost."""
        self.count += count
        self.found += value
        self.true += value

    def haunted(
        self, values: Array, counted: Array, depth: Array, which: Array, units: Array, odds: Array
    ) -> None:
        """Results worth `values`, `counted` with the weights of their ghosts, that hang on `depth` choices
        each; which result hangs on which unit, and the chance of the unit not to be chosen."""
        self.count += len(values)
        self.found += float(values.sum())
        self.true += float(counted.sum())
        missed = np.bincount(depth, counted - values, len(self.missed))
        missed[0] = missed.sum()
        self.missed += missed
        haunting.account(which, units, odds, depth, counted, self.seen, self.variance, self.largest)

    def begin(self, units: Array, size: int) -> None:
        """Nothing has hung on these units yet; all numbers of units are below `size`."""
        more = max(0, size - self.seen.shape[1])
        self.seen = np.pad(self.seen, ((0, 0), (0, more))) if more else self.seen
        self.seen[:, units] = 0.0

    def unit(self, weight: float, together: bool) -> float:
        """What one choice more could have told: as much as hung on any that was seen, or if none was seen,
        what a new ghost stands for.

        Parameters
        ----------
        weight
            What a new ghost stands for.
        together
            Whether all the ghosts of a result are chosen together, so that if any is seen all are.
        """
        size = (weight - 1) * (self.found / self.count if self.found else 1.0)
        if self.missed[0] == 0:
            return size
        deepest = len(self.missed) if together else int(np.argmin(np.append(self.missed, 0.0)))
        if deepest == len(self.missed):
            return float(self.largest[0])
        # Of results that hang on so many choices none was seen: one would count as the others do, w times.
        unseen = (weight - 1) * self.variance[deepest - 1] / self.missed[deepest - 1]
        return float(np.hypot(self.largest[0], unseen))

    def sums(self) -> list[Any]:
        """What `load` takes, besides what was seen."""
        by_depth = (self.missed, self.variance, self.largest)
        return [self.count, self.found, self.true, *(each.tolist() for each in by_depth)]

    def load(self, sums: Sequence[Any], seen: Array) -> None:
        self.count, self.found, self.true, *by_depth = sums
        self.missed, self.variance, self.largest = map(np.array, by_depth)
        self.seen = seen


def recall_interval(
    found: float, true: float, variance: float, level: float = 0.95, unit: float = 0.0
) -> tuple[float, float, float]:
    """Estimate, low and high of found / true, where `true` was estimated with this variance from rows that
    stand for up to `unit` results each."""
    missed = max(0.0, true - found)
    if found + missed == 0 and unit:
        return float("nan"), 0.0, 1.0
    step = max(unit, variance / missed if missed else 0.0)
    return recall_between(found, missed, *missed_interval(missed, variance, step, level))


def batch_recall(
    found: float, true: float, variance: float, results: int, limited: bool, unit: float = 0.0
) -> tuple[float, float, float]:
    """Of a batch or several: as `recall_interval`; 1 where nothing can be lost, NaN where nothing tells."""
    if true == 0 and results:
        return (1.0, 1.0, 1.0) if not limited else (float("nan"), 0.0, 1.0)
    return recall_interval(found, true, variance, unit=unit)


def recall_between(found: float, missed: float, low: float, high: float) -> tuple[float, float, float]:
    """Estimate, low and high of the recall; what was found is certain. Where nothing was found and something
    may be missed, nothing is known."""
    if found + missed == 0:
        return (1.0, 1.0, 1.0) if high <= 0 else (float("nan"), 0.0, 1.0)
    ends = found / (found + high), found / (found + max(low, 0.0))
    return found / (found + missed), float(ends[0]), float(ends[1])
