"""Monitored rows: a small random sample kept until expiry, even when the policy evicts them, to measure what
eviction loses.

When the policy would evict a monitored row it becomes a *shadow row*: from then on its results are ones that
would have been lost. A shadow row stands for `weight` rows, the inverse of the chance it had to be watched. A
result none of whose rows the policy has given up is always found; one with shadow rows is found just if each
row that was given up is watched. So the number of true results is estimated without bias by

    results without a shadow row  +  sum over results with shadow rows of the product of their shadow rows'
    weights

and its variance (Horvitz-Thompson, of rows drawn independently) by  sum over shadow rows of (1 - 1/w) y^2,
with y the part of the sum that the shadow row takes part in. Two results that share two shadow rows count
twice in that, so it errs to the safe side. The interval follows from means and variances by the number of
shadow rows: `ResultEstimate`.

The number of shadow rows is held near what the policy's `monitor` allows, and that of monitored rows below
twice as many: when there are more, each stays watched with chance 4/5 and counts 5/4 as much; when there are
fewer, more of the new rows are watched. Monitored rows that the policy keeps take nobody's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windrow.estimation.recall import HANDFUL, UNKNOWN, ResultEstimate, ShadowMatches
from windrow.eviction.window_view import ProbeResults, WindowView
from windrow.kernels import shadow_rows
from windrow.kernels.select_lowest import nonzero_rows
from windrow.model.stateful import Stateful

Array = np.ndarray
MONITOR_SLOT = "watch"
"""The note: 0, or a monitored row's slot plus one."""
KEEP_PROBABILITY = 0.8
"""The chance of each to stay watched when there are too many."""
FEW = 0.7
"""Below this part of what is allowed more rows are watched."""
MONITORED_PER_SHADOW = 2.0
"""Rows that may be watched for each shadow row that is allowed."""


@dataclass(frozen=True)
class MonitoredRows:
    """The monitored rows of a view."""

    rows: Array
    slots: Array
    shadow: Array
    """Mask over them: here only because they are watched."""
    leaving: Array
    """Rows that were shadow rows and are no longer watched, and so must go."""


class LossMonitor(Stateful):
    saved = (
        "probability", "active", "results", "importance", "_weight", "_shadow", "_free",
        "_arrivals", "_result_counts", "_count_moments", "_drawn",
    )  # fmt: skip

    def __init__(self, streams: int = 2) -> None:
        self._depths = streams - 1
        """A result has at most so many shadow rows: its newest row is none."""
        self.probability = 1.0
        """That a new row is watched."""
        self.active = False
        """Nothing needs watching until the limit is first reached: until then nothing is lost."""
        self.results = ResultEstimate(depths=self._depths)
        self.importance: ResultEstimate | None = None
        """Where results are not all worth the same: the sum of their worth."""
        self._weight = np.ones(0)
        self._shadow = np.zeros(0, bool)
        self._free = np.empty(0, np.int64)
        self._arrivals = 0
        """Rows since the number of monitored ones was last seen to."""
        self._result_counts = np.zeros(0)
        """By slot: results of the row in sub-batches after its own, which can be lost."""
        self._count_moments = np.zeros(2)
        """Their sum over all rows ever watched, and the sum of their squares."""
        self._drawn = 0
        """Rows ever watched, without those that were thinned out: what all of it rests on."""

    # -- what it tells ------------------------------------------------------------------------------

    def recall(self, worth: bool = False) -> tuple[float, float, float]:
        """Estimate, low and high, of the results or of their worth."""
        if self.blind:
            return float("nan"), 0.0, 1.0
        estimate = self.importance if worth and self.importance else self.results
        return estimate.recall(self._sampling_weight, self.results_per_row)

    @property
    def max_weight(self) -> float:
        """The most results that may hang on one shadow row, for whoever adds up the sums of several joins."""
        if self.blind:
            return UNKNOWN
        return max(
            loss.max_weight for loss in self.results.losses(self._sampling_weight, self.results_per_row)
        )

    @property
    def blind(self) -> bool:
        """Whether rows went and too few were watched to tell what went with them."""
        return self.active and self._drawn < HANDFUL

    @property
    def results_per_row(self) -> float:
        """Results that hang on one row together, from the point of view of a result."""
        met, squares = self._count_moments
        return max(1.0, squares / met) if met else 1.0

    @property
    def _sampling_weight(self) -> float:
        """Rows, a shadow row; a new one, or one such as there have been lately."""
        if not self.active:
            return 1.0
        weights = self._weight[self._shadow]
        return max(1 / self.probability, float((weights**2).sum() / max(weights.sum(), 1.0)))

    @property
    def count(self) -> int:
        """Rows watched at present."""
        return len(self._weight) - len(self._free)

    # -- the data flow ------------------------------------------------------------------------------

    def on_arrival(self, view: WindowView, rng: np.random.Generator) -> None:
        if self.active:
            self._arrivals += len(view) - view.first_new
            fresh = view.row_state[MONITOR_SLOT][view.first_new :]
            self._monitor(fresh, drawn(len(fresh), self.probability, rng))

    def on_results(self, found: ProbeResults, worth: Array | None = None) -> None:
        """Counts results; `worth` is what each is worth, where that is not the same for all."""
        shadows = self._shadow_matches(found)
        if worth is not None:
            self.importance = self.importance or ResultEstimate(len(self._weight), self._depths)
        if not shadows.where:
            self.results.add(len(found), len(found))
            if self.importance is not None and worth is not None:
                self.importance.add(float(worth.sum()), len(found))
            return
        self.results.add_with_shadows(np.ones(len(found)), shadows, self._weight)
        if self.importance is not None and worth is not None:
            self.importance.add_with_shadows(worth, shadows, self._weight)

    def _shadow_matches(self, found: ProbeResults) -> ShadowMatches:
        weights, depth = np.ones(len(found)), np.zeros(len(found), np.int64)
        where = []
        for view, rows in zip(found.views, found.rows, strict=True) if self.active else ():
            watch = (view.row_state[MONITOR_SLOT], rows, view.first_new, self._shadow, self._weight)
            which, slots = shadow_rows.shadow_matches(
                *watch, weights, depth, self._result_counts, self._count_moments
            )
            if len(which):
                where.append((which, slots))
        return ShadowMatches(weights, depth, where)

    def weights(self, rows: Sequence[tuple[Array, Array]]) -> Array:
        """How many results each of some results stands for: by stream, the column of notes and its rows."""
        found = np.ones(len(rows[0][1]))
        for column, at in rows:
            slots = column[at].astype(np.int64) - 1
            haunted = np.flatnonzero(slots >= 0)
            haunted = haunted[self._shadow[slots[haunted]]]
            found[haunted] *= self._weight[slots[haunted]]
        return found

    def begin_sub_batch(self, views: Sequence[WindowView], cap: float, rng: np.random.Generator) -> None:
        """The limit is reached for the first time: any row may be the one to watch."""
        rows = sum(map(len, views))
        self.active, self.probability = True, max(min(1.0, KEEP_PROBABILITY * cap / max(rows, 1)), 1e-9)
        for view in views:
            self._monitor(view.row_state[MONITOR_SLOT], drawn(len(view), self.probability, rng))

    def adjust(
        self, views: Sequence[WindowView], cap: float, rng: np.random.Generator
    ) -> list[MonitoredRows]:
        """Holds the number of shadow rows near `cap`; returns the monitored rows of each view."""
        found = [self._monitored(view) for view in views]
        # Slots of rows that have expired are free again.
        held = np.zeros(len(self._weight), bool)
        for watched in found:
            held[watched.slots] = True
        self._free = np.flatnonzero(~held)
        while (taken := _taken(found)) > max(cap, 1):
            self.probability = max(self.probability * KEEP_PROBABILITY, 1e-12)
            found = [self._on_evict(view, watched, rng) for view, watched in zip(views, found, strict=True)]
        if taken < FEW * cap:
            # New rows take their time to become shadow rows: twice as many within a window are enough.
            live = max(sum(map(len, views)), float(self._weight[held].sum()), 1.0)
            self.probability = min(1.0, self.probability * 2.0 ** min(1.0, self._arrivals / live))
        self._arrivals = 0
        return found

    def mark_shadow(self, slots: Array) -> None:
        """The policy gives up the monitored rows of these slots."""
        self._shadow[slots] = True

    def shadow_count(self, column: Array) -> int:
        """How many rows are here only because they are watched; `column` is the rows' note."""
        return int(self._shadow[column[nonzero_rows(column)].astype(np.int64) - 1].sum())

    # -- inside -------------------------------------------------------------------------------------

    @property
    def _accounts(self) -> list[ResultEstimate]:
        return [self.results] if self.importance is None else [self.results, self.importance]

    def _monitor(self, column: Array, rows: Array) -> None:
        if len(rows) > len(self._free):
            size, more = len(self._weight), max(64, len(self._weight), len(rows))
            self._weight = np.concatenate([self._weight, np.ones(more)])
            self._shadow = np.concatenate([self._shadow, np.zeros(more, bool)])
            self._result_counts = np.concatenate([self._result_counts, np.zeros(more)])
            for account in self._accounts:
                account.seen = np.pad(account.seen, ((0, 0), (0, more)))
            self._free = np.concatenate([self._free, np.arange(size, size + more)])
        slots, self._free = self._free[: len(rows)], self._free[len(rows) :]
        self._drawn += len(rows)
        self._weight[slots] = 1 / self.probability
        self._shadow[slots] = False
        self._result_counts[slots] = 0.0
        for account in self._accounts:
            account.seen[:, slots] = 0.0
        column[rows] = slots + 1

    def _monitored(self, view: WindowView) -> MonitoredRows:
        column = view.row_state[MONITOR_SLOT]
        rows = nonzero_rows(column)
        slots = column[rows].astype(np.int64) - 1
        return MonitoredRows(rows, slots, self._shadow[slots], np.empty(0, np.int64))

    def _on_evict(self, view: WindowView, watched: MonitoredRows, rng: np.random.Generator) -> MonitoredRows:
        """Some stay watched, and count for the others, too."""
        stays = rng.random(len(watched.rows)) < KEEP_PROBABILITY
        rows, slots, ghost = watched.rows[stays], watched.slots[stays], watched.shadow[stays]
        self._weight[slots] /= KEEP_PROBABILITY
        self._drawn -= len(watched.rows) - len(rows)
        self._free = np.concatenate([self._free, watched.slots[~stays]])
        view.row_state[MONITOR_SLOT][watched.rows[~stays]] = 0
        leaving = watched.rows[~stays & watched.shadow]
        return MonitoredRows(rows, slots, ghost, np.concatenate([watched.leaving, leaving]))


def _taken(watched: Sequence[MonitoredRows]) -> float:
    """What part of what is allowed is used, in shadow rows."""
    rows, shadows = sum(len(w.rows) for w in watched), sum(np.count_nonzero(w.shadow) for w in watched)
    return max(float(shadows), rows / MONITORED_PER_SHADOW)


def drawn(rows: int, chance: float, rng: np.random.Generator) -> Array:
    """Which of so many rows are chosen, each with the same chance; by skips where it is small."""
    if chance > 1 / 8:
        return np.flatnonzero(rng.random(rows) < chance)
    parts, at = [], -1
    expected = rows * chance
    while at < rows:
        steps = rng.geometric(chance, int(expected + 4 * expected**0.5) + 4)
        # A step may be as long as an integer can be; beyond the last row all are the same.
        parts.append(at + np.cumsum(np.minimum(steps, rows + 1)))
        at = int(parts[-1][-1])
    places = np.concatenate(parts)
    return places[: np.searchsorted(places, rows)]
