"""Rankings by importance (iJoin): SIZE, GREEDY and IJOIN.

Ties are broken by age: SIZE and IJOIN evict the oldest of equal rows, GREEDY the newest. To that end
priorities include a multiple of the age that is too small to matter otherwise, so those of different streams
stay comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from windrow.errors import Option, placed
from windrow.eviction.policies.importance_function import ImportanceFunction
from windrow.eviction.policies.row_importance import IMPORTANCE, RowImportance
from windrow.eviction.ranking import MemoryBudget, Ranking
from windrow.eviction.rates import HALF_LIFE, ArrivalRates
from windrow.eviction.window_view import ProbeResults, RowState, WindowView
from windrow.kernels import importance_priority
from windrow.model.metrics import Quality
from windrow.model.policies.importance import Greedy, Importance
from windrow.model.stateful import Stateful
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
MATCHES = "matches"
"""Row state: decayed number of matches, as of the last match."""
MATCHED = "matched"
"""Row state: the time of the last match, or the row's own time if there was none."""
PRIORITY = "priority"
TINY = 1e-9
IMMATURE = 1e200
"""Above every priority."""
MATURITY, UNPRODUCTIVE = 0.4, 0.6
"""Fractions of the residence time, as in the paper's Table 5: 2 and 3 of 5 seconds."""
DECAY = 0.5
"""A match counts 1/e after twice the residence time."""
PENALTY = 5.0
"""What a row without a match for the residence time loses, in units of the priority of a row of mean
importance with one match in that time."""
SMOOTHING = 1 / 16
"""Weight of the newest evaluation."""


class SizeRanking(Ranking):
    uses_results = True
    row_state: RowState = ((MATCHES, np.int32),)

    def on_results(self, found: ProbeResults) -> None:
        for view, rows in zip(found.views, found.rows, strict=True):
            importance_priority.count_matches(rows, view.row_state[MATCHES])

    def priorities(self, view: WindowView) -> Array:
        return view.row_state[MATCHES] - TINY * _part_of_window(view, view.now)


class GreedyRanking(Ranking):
    version = 2
    saved = ("importance",)
    row_state = RowImportance.row_state

    def __init__(self, policy: Greedy, bound: BoundQuery) -> None:
        self.importance: RowImportance = RowImportance(policy.name, policy.by, policy.combine, bound)

    def priorities(self, view: WindowView) -> Array:
        known = self.importance
        return known.of(view) + TINY * known.mean * _part_of_window(view, known.now)


class RecomputeSchedule(Stateful):
    """When residence priorities are recomputed (iJoin, section 4.8), per stream.

    Successive: at every load-shedding decision. k-successive: at every k-th. Adaptive: when the quality of
    the join, the importance of its results per evaluation, has fallen by more than a tolerated fraction since
    priorities were last computed. Evaluations differ by chance, most where results are few, so the quality is
    smoothed over several of them."""

    saved = ("recomputed", "_decisions", "_quality", "_best")

    def __init__(self, kind: str, k: int, tolerance: float, streams: int) -> None:
        self.kind = kind
        self.recomputed = 0
        """Recomputations so far, over all streams."""
        self._k = k
        self._tolerance = tolerance
        self._decisions = [0] * streams
        self._quality = 0.0
        self._best: list[float | None] = [None] * streams
        """The highest quality since the last recomputation; None before the first."""

    def evaluated(self, importance: float) -> None:
        """Records the total importance of an evaluation's results."""
        self._quality += SMOOTHING * (importance - self._quality)
        self._best = [None if best is None else max(best, self._quality) for best in self._best]

    def due(self, stream: int) -> bool:
        """Whether priorities must be recomputed for the next load-shedding decision."""
        self._decisions[stream] += 1
        if self.kind == "successive":
            due = True
        elif self.kind == "k-successive":
            due = self._decisions[stream] % self._k == 1 % self._k
        else:
            best = self._best[stream]
            due = best is None or self._quality < best * (1 - self._tolerance)
        if due:
            self.recomputed += 1
            self._best[stream] = self._quality
        return due


class ImportanceRanking(Ranking):
    version = 2
    saved = ("importance", "_schedule", "_arrivals", "_importance_before")
    formerly = (("_judged", "_importance_before"),)
    uses_results = True
    priority_per_byte = True

    def __init__(self, policy: Importance, bound: BoundQuery) -> None:
        self.importance: RowImportance = RowImportance(policy.name, policy.by, policy.combine, bound)
        self._policy = policy
        self._schedule = RecomputeSchedule(policy.recompute, policy.k, policy.tolerance, len(bound.schemas))
        self._keeps_priorities = policy.recompute != "successive"
        kept = (IMPORTANCE, MATCHES, MATCHED, *([PRIORITY] if self._keeps_priorities else []))
        self.row_state = tuple((name, np.float64) for name in kept)
        self._initial: ImportanceFunction | None = None
        if not isinstance(policy.initial, int | float):
            with placed(Option("initial")):
                self._initial = ImportanceFunction(policy.initial, bound)
        self._arrivals = ArrivalRates(len(bound.schemas))
        self._importance_before = 0.0
        """Total importance of the results up to the last evaluation."""

    # -- the data flow ------------------------------------------------------------------------------

    def on_arrival(self, view: WindowView) -> None:
        view.row_state[MATCHED][view.new] = view.ts[view.new]
        if self._keeps_priorities:
            view.row_state[PRIORITY][view.new] = self._first_priority(view)

    def on_results(self, found: ProbeResults) -> None:
        for view, rows in zip(found.views, found.rows, strict=True):
            self._match(view, rows, found.newest)

    def end_sub_batch(self, views: Sequence[WindowView], budget: MemoryBudget) -> None:
        for view in views:
            self._arrivals.add(view.stream, view.new_count)
        self._arrivals.advance(views[0].elapsed, HALF_LIFE * max(view.window_length for view in views) / 1e6)
        self._schedule.evaluated(self.importance.total - self._importance_before)
        self._importance_before = self.importance.total

    def priorities(self, view: WindowView) -> Array:
        # If too few rows are mature, the oldest of the others are evicted.
        out, maturity = np.empty(len(view)), self._maturity(view) * 1e6
        due = self._schedule.due(view.stream)
        if not self._keeps_priorities:
            importance_priority.residence_priorities(*self._terms(view), maturity, IMMATURE, out)
            return out
        if due:
            importance_priority.residence_priorities(
                *self._terms(view), 0.0, np.inf, view.row_state[PRIORITY]
            )
        importance_priority.spare_young(
            view.ts, view.row_state[PRIORITY], self.importance.now, maturity, IMMATURE, out
        )
        return out

    def add_quality(self, known: Quality) -> Quality:
        return replace(known, priority_recomputations=self._schedule.recomputed)

    # -- the paper's formulas -----------------------------------------------------------------------

    def _match(self, view: WindowView, rows: Array, times: Array) -> None:
        """Counts results of these rows at these times (eq. 7; Algorithm 1)."""
        d = self._decay(view)
        importance_priority.match(rows, times, d / 1e6, view.row_state[MATCHES], view.row_state[MATCHED])

    def _terms(self, view: WindowView) -> tuple[Any, ...]:
        """Arguments of the kernels that compute the residence priority: P = imp x matches' / age, less the
        penalty c (t' - prevmatch) for a row unproductive for at least Delta (eq. 5 to 8; Algorithm 2)."""
        c, d, delta = self._penalty(view), self._decay(view), self._unproductive(view)
        imp, matches, matched = self.importance.of(view), view.row_state[MATCHES], view.row_state[MATCHED]
        tie = TINY * self.importance.mean / view.window_length
        return view.ts, imp, matches, matched, self.importance.now, d / 1e6, delta * 1e6, c, tie

    # -- parameters: given, or from the residence time ------------------------------------------------

    def _maturity(self, view: WindowView) -> float:
        given = self._policy.maturity
        return MATURITY * self._arrivals.residence_time(view) if given is None else _seconds(given)

    def _unproductive(self, view: WindowView) -> float:
        given = self._policy.unproductive
        return UNPRODUCTIVE * self._arrivals.residence_time(view) if given is None else _seconds(given)

    def _decay(self, view: WindowView) -> float:
        given = self._policy.decay
        return DECAY / max(self._arrivals.residence_time(view), 1e-6) if given is None else given

    def _penalty(self, view: WindowView) -> float:
        given = self._policy.penalty
        least = max(self._arrivals.residence_time(view), 1e-6)
        return PENALTY * self.importance.mean / least**2 if given is None else given

    def _first_priority(self, view: WindowView) -> Array | float:
        """Initial priority of the new rows."""
        if isinstance(self._policy.initial, int | float):
            return self._policy.initial
        if self._initial is not None and view.stream in self._initial.streams:
            return self._initial.of(view, view.first_new, view.first_new)[0]
        return self.importance.of(view)[view.new]


def _part_of_window(view: WindowView, now: int) -> Array:
    """Each row's age, as a fraction of the window."""
    return (now - view.ts) / view.window_length


def _seconds(duration: object) -> float:
    assert isinstance(duration, int)
    return duration / 1e6
