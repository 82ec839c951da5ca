"""AGE: keeps rows at the ages at which they find most (Memory, section 3.2; any curve, claim B1).

By priority, it evicts the rows that find least per second of being kept from now on. By envelope, a new row
gets one of two retention times, the ends of an edge of its curve's concave envelope, in proportions such that
the mean retention fills the memory of its stream; rows past their time are evicted first. Both are optimal
for rows that arrive evenly; priorities adapt to bursts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windrow.eviction.forecast import StreamModel
from windrow.eviction.models.match_rates import MatchRateModel, MatchRateModels, no_scores
from windrow.eviction.models.row_sampling import memory_groups
from windrow.eviction.ranking import MemoryBudget, Ranking
from windrow.eviction.window_view import ProbeResults, WindowView
from windrow.memory_models.age_curve import AgeCurve, Retention, split
from windrow.model.policies.learned import Age
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
RETENTION = "retention"
"""Row state: retention time in seconds."""
TINY = 1e-9


class AgeRanking(Ranking):
    saved = ("_learned", "_retention", "_turn", "_next_plan")
    clocks = ("_next_plan",)
    priority_per_byte = True
    adapts_to_losses = True

    def __init__(self, policy: Age, bound: BoundQuery) -> None:
        self._policy = policy
        self._aliases = bound.query.aliases
        self._learned = MatchRateModels(
            [MatchRateModel(policy.age_bins, policy.half_life) for _ in self._aliases]
        )
        self._curves: list[AgeCurve] = []
        self._retention = [Retention(0.0, float("inf"), 1.0) for _ in self._aliases]
        self._turn = [0.0] * len(self._aliases)
        self._next_plan = -(1 << 62)
        self.uses_results = policy.age_curves is None
        self.row_state = ((RETENTION, np.float64),) if policy.method == "envelope" else ()
        self.can_skip_sub_batches = not self.row_state

    def on_arrival(self, view: WindowView) -> None:
        if view.learning:
            new = slice(view.first_new, len(view), view.learn_stride)
            self._learned.on_arrival(view, no_scores(view, new))
        if self.row_state:
            view.row_state[RETENTION][view.new] = self._deal(view.stream, view.new_count)

    def on_results(self, found: ProbeResults) -> None:
        self._learned.on_results(found, no_scores)

    def end_sub_batch(self, views: Sequence[WindowView], budget: MemoryBudget) -> None:
        self._learned.end_sub_batch(views, no_scores)
        self._curves = [self._curve(view) for view in views]
        now = views[0].now
        if self.row_state and now >= self._next_plan:
            self._next_plan = now + max(view.window_length for view in views) // self._policy.age_bins
            means = self._means(budget)
            self._retention = [c.retention(mean) for c, mean in zip(self._curves, means, strict=True)]

    def priorities(self, view: WindowView) -> Array:
        ages = view.ages()
        # Of equals the oldest stay, so that rows of all ages are observed while little is known.
        priority = self._curves[view.stream].priority(ages) * (1 + TINY * ages / (view.window_length / 1e6))
        if self.row_state:
            overdue = ages - view.row_state[RETENTION]
            priority = np.where(overdue >= 0, -1.0 - overdue, priority)
        return priority

    def stream_models(self, views: Sequence[WindowView], budget: MemoryBudget) -> list[StreamModel] | None:
        one, rates = np.ones(1), [model.rate for model in self._learned.models]
        known = zip(map(self._curve, views), rates, budget.costs, strict=True)
        return [StreamModel(curve, rate, cost, one, one) for curve, rate, cost in known]

    def age_curves(self) -> Sequence[AgeCurve]:
        return tuple(self._curves)

    def _means(self, budget: MemoryBudget) -> Sequence[float]:
        """Mean retention in seconds that fits into the memory of each stream."""
        rates = [model.rate for model in self._learned.models]
        if self._policy.split == "shared":
            return split(self._curves, rates, budget.size, budget.costs).retention
        groups = memory_groups(self._policy.split, budget.size, self._aliases)
        return [
            memory / max(rate * cost, 1e-9)
            for (_, memory), rate, cost in zip(groups, rates, budget.costs, strict=True)
        ]

    def _deal(self, stream: int, count: int) -> Array:
        """Retention times of the next rows: a fraction `share` gets the longer one, evenly spread."""
        planned = self._retention[stream]
        turns = self._turn[stream] + planned.share * np.arange(1, count + 1)
        before = np.concatenate(([self._turn[stream]], turns[:-1]))
        self._turn[stream] = float(turns[-1] % 1.0) if count else self._turn[stream]
        return np.where(np.floor(turns + 1e-9) > np.floor(before + 1e-9), planned.long, planned.short)

    def _curve(self, view: WindowView) -> AgeCurve:
        if self._policy.age_curves is None:
            return self._learned.models[view.stream].rates().curve
        given = self._policy.age_curves.get(self._aliases[view.stream], (0.0,))
        return AgeCurve(tuple(given), view.window_length / 1e6 / len(given))
