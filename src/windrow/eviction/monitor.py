"""Monitored rows: a small random sample kept until expiry, even when the policy evicts them, to measure what
eviction loses.

When the policy evicts a monitored row, the row becomes a *shadow row*: from then on its results are ones that
eviction misses. A shadow row represents `weight` rows, the inverse of its probability to be monitored. A
result is always found if the policy evicted none of its rows; one with shadow rows is found only if every
evicted row is monitored. So the number of true results is estimated without bias by

    results without a shadow row  +  sum over results with shadow rows of the product of their shadow rows'
    weights

and its variance (Horvitz-Thompson, of rows drawn independently) by  sum over shadow rows of (1 - 1/w) y^2,
where y is the part of the sum that the shadow row takes part in. Results that share two shadow rows count
twice, so the variance is overestimated rather than underestimated. The interval follows from means and
variances by the number of shadow rows: `ResultEstimate`.

The number of shadow rows is held near what the policy's `monitor_fraction` allows, and that of monitored rows
below twice as many. When there are more, each stays monitored with probability 4/5 and its weight grows by
5/4; when there are fewer, more of the new rows are monitored. Monitored rows that the policy keeps take no
extra memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from windrow.estimation.clumps import Clumps
from windrow.estimation.recall import HANDFUL, UNKNOWN, ResultEstimate, ShadowMatches
from windrow.eviction.window_view import ProbeResults, WindowView
from windrow.kernels.result_sums import shadow_matches
from windrow.kernels.select_lowest import nonzero_rows
from windrow.model.metrics import Quality
from windrow.model.stateful import Stateful

Array = np.ndarray
MONITOR_SLOT = "monitor_slot"
"""Row state: 0, or a monitored row's slot plus one."""
KEEP_PROBABILITY = 0.8
"""Probability of each to stay monitored when there are too many."""
REFILL_BELOW = 0.7
"""Below this fraction of what is allowed, more rows are monitored."""
MONITORED_PER_SHADOW = 2.0
"""Rows that may be monitored for each shadow row that is allowed."""


@dataclass(frozen=True)
class MonitoredRows:
    """The monitored rows of a view."""

    rows: Array
    slots: Array
    shadow: Array
    """Mask over them: held only because they are monitored."""
    leaving: Array
    """Shadow rows that are no longer monitored and must be evicted."""


class LossMonitor(Stateful):
    version = 2
    saved = (
        "probability", "active", "results", "importance", "_weight", "_shadow", "_free",
        "_arrivals", "_result_counts", "_count_moments", "_drawn",
    )  # fmt: skip

    def __init__(self, streams: int = 2) -> None:
        self._depths = streams - 1
        """Maximum number of shadow rows of a result: its newest row is none."""
        self.probability = 1.0
        """Probability that a new row is monitored."""
        self.active = False
        """False until the limit is first reached: nothing is lost before, so nothing is monitored."""
        self.results = ResultEstimate(depths=self._depths)
        self.importance: ResultEstimate | None = None
        """The estimate of the total importance, if results differ in it."""
        self._weight = np.ones(0)
        self._shadow = np.zeros(0, bool)
        self._free = np.empty(0, np.int64)
        self._arrivals = 0
        """Rows since the number of monitored rows was last adjusted."""
        self._result_counts = np.zeros(0)
        """By slot: results of the row in sub-batches after its own, which can be lost."""
        self._count_moments = np.zeros(3)
        """Over all rows ever monitored: how many have such results, their sum, and the sum of their
        squares."""
        self._drawn = 0
        """Rows ever monitored, without those that were thinned out."""

    @classmethod
    def migrated(cls, version: int, values: dict[str, Any]) -> dict[str, Any]:
        """Version 1 did not count the rows with results. The worst case: one row had them all."""
        return {**values, "_count_moments": np.append(1.0, values["_count_moments"])}

    # -- estimates ----------------------------------------------------------------------------------

    def quality(self) -> Quality:
        """The estimated quality of the results."""
        recall, low, high = self.recall()
        known = Quality(
            recall=recall,
            recall_low=low,
            recall_high=high,
            monitored_rows=self.count,
            results_found=self.results.found,
            results_estimated=self.results.estimated,
            results_variance=self.results.variance,
            results_max_weight=self.max_weight,
        )
        if self.importance is None:
            return known
        recall, low, high = self.recall(of_importance=True)
        return replace(
            known, importance_recall=recall, importance_recall_low=low, importance_recall_high=high
        )

    def recall(self, of_importance: bool = False) -> tuple[float, float, float]:
        """Estimate, low and high, of the results or of their importance."""
        if self.blind:
            return float("nan"), 0.0, 1.0
        estimate = self.importance if of_importance and self.importance else self.results
        return estimate.recall(self._sampling_weight, self.clumps)

    @property
    def max_weight(self) -> float:
        """The most missed results that one unsampled row can represent, for sums over several joins."""
        if self.blind:
            return UNKNOWN
        return max(loss.summed_weight for loss in self.results.losses(self._sampling_weight, self.clumps))

    @property
    def blind(self) -> bool:
        """Whether rows were evicted and too few were monitored to estimate the loss."""
        return self.active and self._drawn < HANDFUL

    @property
    def clumps(self) -> Clumps:
        """How the results that can be lost are distributed over monitored rows."""
        return Clumps(*self._count_moments.tolist())

    @property
    def _sampling_weight(self) -> float:
        """Rows that a shadow row represents: the larger of a new one's weight and the recent mean weight."""
        if not self.active:
            return 1.0
        weights = self._weight[self._shadow]
        return max(1 / self.probability, float((weights**2).sum() / max(weights.sum(), 1.0)))

    @property
    def count(self) -> int:
        """Rows currently monitored."""
        return len(self._weight) - len(self._free)

    # -- the data flow ------------------------------------------------------------------------------

    def on_arrival(self, view: WindowView) -> None:
        if self.active:
            self._arrivals += view.new_count
            self._monitor(
                view.row_state[MONITOR_SLOT][view.new], drawn(view.new_count, self.probability, view.rng)
            )

    def on_results(self, found: ProbeResults, importance: Array | None = None) -> None:
        """Counts results. `importance` holds the importance of each, unless all are equal."""
        shadows = self._shadow_matches(found)
        if importance is not None:
            self.importance = self.importance or ResultEstimate(len(self._weight), self._depths)
        if not shadows.where:
            self.results.add(len(found), len(found))
            if self.importance is not None and importance is not None:
                self.importance.add(float(importance.sum()), len(found))
            return
        self.results.add_with_shadows(np.ones(len(found)), shadows, self._weight)
        if self.importance is not None and importance is not None:
            self.importance.add_with_shadows(importance, shadows, self._weight)

    def _shadow_matches(self, found: ProbeResults) -> ShadowMatches:
        weights, depth = np.ones(len(found)), np.zeros(len(found), np.int64)
        where = []
        for view, rows in zip(found.views, found.rows, strict=True) if self.active else ():
            watch = (view.row_state[MONITOR_SLOT], rows, view.first_new, self._shadow, self._weight)
            which, slots = shadow_matches(*watch, weights, depth, self._result_counts, self._count_moments)
            if len(which):
                where.append((which, slots))
        return ShadowMatches(weights, depth, where)

    def weights(self, rows: Sequence[tuple[Array, Array]]) -> Array:
        """How many results each result represents. `rows` holds the slots and the rows, by stream."""
        found = np.ones(len(rows[0][1]))
        for column, at in rows:
            slots = column[at].astype(np.int64) - 1
            shadowed = np.flatnonzero(slots >= 0)
            shadowed = shadowed[self._shadow[slots[shadowed]]]
            found[shadowed] *= self._weight[slots[shadowed]]
        return found

    def activate(self, views: Sequence[WindowView], cap: float) -> None:
        """The limit is reached for the first time: draws the monitored rows among all rows."""
        rows = sum(map(len, views))
        self.active, self.probability = True, max(min(1.0, KEEP_PROBABILITY * cap / max(rows, 1)), 1e-9)
        for view in views:
            self._monitor(view.row_state[MONITOR_SLOT], drawn(len(view), self.probability, view.rng))

    def adjust(self, views: Sequence[WindowView], cap: float) -> list[MonitoredRows]:
        """Holds the number of shadow rows near `cap`; returns the monitored rows of each view."""
        found = [self._monitored(view) for view in views]
        # Slots of rows that have expired are free again.
        held = np.zeros(len(self._weight), bool)
        for monitored in found:
            held[monitored.slots] = True
        self._free = np.flatnonzero(~held)
        while (taken := _taken(found)) > max(cap, 1):
            self.probability = max(self.probability * KEEP_PROBABILITY, 1e-12)
            found = [self._thinned(view, rows) for view, rows in zip(views, found, strict=True)]
        if taken < REFILL_BELOW * cap:
            # New rows become shadow rows only later, so the probability at most doubles per window.
            live = max(sum(map(len, views)), float(self._weight[held].sum()), 1.0)
            self.probability = min(1.0, self.probability * 2.0 ** min(1.0, self._arrivals / live))
        self._arrivals = 0
        return found

    def mark_shadow(self, slots: Array) -> None:
        """The policy evicts the monitored rows of these slots."""
        self._shadow[slots] = True

    def shadow_count(self, column: Array) -> int:
        """Number of rows that are held only because they are monitored; `column` has the rows' slots."""
        return int(self._shadow[column[nonzero_rows(column)].astype(np.int64) - 1].sum())

    # -- inside -------------------------------------------------------------------------------------

    @property
    def _estimates(self) -> list[ResultEstimate]:
        return [self.results] if self.importance is None else [self.results, self.importance]

    def _monitor(self, column: Array, rows: Array) -> None:
        if len(rows) > len(self._free):
            size, more = len(self._weight), max(64, len(self._weight), len(rows))
            self._weight = np.concatenate([self._weight, np.ones(more)])
            self._shadow = np.concatenate([self._shadow, np.zeros(more, bool)])
            self._result_counts = np.concatenate([self._result_counts, np.zeros(more)])
            for estimate in self._estimates:
                estimate.seen = np.pad(estimate.seen, ((0, 0), (0, more)))
            self._free = np.concatenate([self._free, np.arange(size, size + more)])
        slots, self._free = self._free[: len(rows)], self._free[len(rows) :]
        self._drawn += len(rows)
        self._weight[slots] = 1 / self.probability
        self._shadow[slots] = False
        self._result_counts[slots] = 0.0
        for estimate in self._estimates:
            estimate.seen[:, slots] = 0.0
        column[rows] = slots + 1

    def _monitored(self, view: WindowView) -> MonitoredRows:
        column = view.row_state[MONITOR_SLOT]
        rows = nonzero_rows(column)
        slots = column[rows].astype(np.int64) - 1
        return MonitoredRows(rows, slots, self._shadow[slots], np.empty(0, np.int64))

    def _thinned(self, view: WindowView, monitored: MonitoredRows) -> MonitoredRows:
        """A random part stays monitored and represents the others too."""
        stays = view.rng.random(len(monitored.rows)) < KEEP_PROBABILITY
        rows, slots, shadow = monitored.rows[stays], monitored.slots[stays], monitored.shadow[stays]
        self._weight[slots] /= KEEP_PROBABILITY
        self._drawn -= len(monitored.rows) - len(rows)
        self._free = np.concatenate([self._free, monitored.slots[~stays]])
        view.row_state[MONITOR_SLOT][monitored.rows[~stays]] = 0
        leaving = monitored.rows[~stays & monitored.shadow]
        return MonitoredRows(rows, slots, shadow, np.concatenate([monitored.leaving, leaving]))


def _taken(monitored: Sequence[MonitoredRows]) -> float:
    """Used part of the allowance, in shadow rows."""
    rows, shadows = sum(len(w.rows) for w in monitored), sum(np.count_nonzero(w.shadow) for w in monitored)
    return max(float(shadows), rows / MONITORED_PER_SHADOW)


def drawn(rows: int, probability: float, rng: np.random.Generator) -> Array:
    """A random subset of `rows` rows, each with the same probability; drawn by skips if it is small."""
    if probability > 1 / 8:
        return np.flatnonzero(rng.random(rows) < probability)
    parts, at = [], -1
    expected = rows * probability
    while at < rows:
        steps = rng.geometric(probability, int(expected + 4 * expected**0.5) + 4)
        # A step may be as large as an integer can be; beyond the last row its length does not matter.
        parts.append(at + np.cumsum(np.minimum(steps, rows + 1)))
        at = int(parts[-1][-1])
    places = np.concatenate(parts)
    return places[: np.searchsorted(places, rows)]
