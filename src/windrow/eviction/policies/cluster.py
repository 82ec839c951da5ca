"""EQ-CLUSTER and PPS-CLUSTER: whole rows are sampled, with all their results (Memory, section 4.3).

A row has a fixed number u in (0, 1) and a size s: 1, or the results it is expected to find. It is in the
sample while  u / s < c,  where c is the lowest level since it arrived. That has the probability  pi = min(1,
c s),  and the row's weight is 1 / pi. The level for new rows follows from the memory, with a margin, and
adapts to the streams. If windows are still too large, the rows with the greatest u / s are evicted, and the
least of these becomes a level for all rows that stay.

A result of m streams needs m - 1 stored rows, and its weight is the product of theirs. That is unbiased for
any m. Proof: suppose the u of those rows were 0. They would stay, and memory and levels would take some
course. With their own u the course is the same as long as they all stay, that is, as long as each one's u / s
is below the levels of that course. So, everything else fixed, the probability that they are all in the sample
is the product of their pi. Hence levels may depend on what is held, and sizes may be wrong: both affect only
the variance of a sum.

Rows outside the sample are evicted at the end of their sub-batch and yield no results inside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from windrow.eviction.models.expected_results import ExpectedResults
from windrow.eviction.models.row_sampling import ROW, RecentSizes, Sampler, completing_stream, row_costs
from windrow.eviction.ranking import MemoryBudget, Ranking, Selection
from windrow.eviction.window_view import ProbeResults, WindowView
from windrow.kernels.result_sums import ESTIMATED, FOUND
from windrow.kernels.row_sampling import add_sampling_variance, apply_weights, uniforms
from windrow.memory_models.sampling import mean_within, pps_constant
from windrow.model.metrics import Quality
from windrow.model.policies.sampling import Cluster, PpsCluster
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
WEIGHT, SEEN, SIZE = "weight", "seen", "size"
"""Row state: the inverse of the row's probability, 0 if it is not sampled; the total weight of its results so
far; and its expected results."""


class ClusterRanking(Ranking):
    saved = ("_sampler", "_level", "_sizes", "_recent")
    samples = True

    def __init__(self, policy: Cluster | PpsCluster, bound: BoundQuery) -> None:
        self._policy = policy
        self._aliases = bound.query.aliases
        self._sizes: ExpectedResults | None = None
        """Results that rows are expected to find; None: the same for all."""
        if isinstance(policy, PpsCluster):
            self._sizes = ExpectedResults(bound, policy.expected, policy.sketch_width, policy.half_life)
        streams = len(self._aliases)
        self.row_state = ((ROW, np.float64), (WEIGHT, np.float64), (SEEN, np.float32))
        if self._sizes is not None:
            self.row_state += ((SIZE, np.float32),)
        self._sampler = Sampler(policy.split, bound)
        self._recent = RecentSizes(streams)
        self._level = [np.inf if policy.p is None or self._sizes else policy.p] * streams

    # -- the data flow ------------------------------------------------------------------------------

    def on_arrival(self, view: WindowView) -> None:
        who = self._sampler.on_arrival(view)
        probability = self._probabilities(self._measured(view), view.stream)
        drawn = uniforms(who, 0)
        weight = np.divide(1.0, probability, out=np.zeros(len(probability)), where=drawn < probability)
        view.row_state[WEIGHT][view.new] = weight

    def select(self, found: ProbeResults) -> Selection:
        views, last = found.views, completing_stream(found)
        weight = np.ones(len(found))
        heaviest = np.ones(len(found))
        cluster = np.full(len(found), -1, np.int64)
        for s, (view, rows) in enumerate(zip(views, found.rows, strict=True)):
            keys = self._sampler.ids.keys(view)
            apply_weights(last, s, rows, view.row_state[WEIGHT], keys, weight, heaviest, cluster)
        chosen, sums = weight > 0, self._sampler.totals.sums
        # A row adds (1 - pi) y^2 in all, where y is the total weight of its results. If several rows of a
        # result are sampled, only first-order terms are counted.
        for s, (view, rows) in enumerate(zip(views, found.rows, strict=True)):
            add_sampling_variance(last, s, rows, weight, view.row_state[WEIGHT], view.row_state[SEEN], sums)
        sums[0, ESTIMATED] += weight.sum()
        sums[0, FOUND] += np.count_nonzero(chosen)
        return Selection(chosen, weight[chosen], cluster[chosen])

    def end_sub_batch(self, views: Sequence[WindowView], budget: MemoryBudget) -> None:
        if not self._sampler.end_sub_batch(views):
            return
        if self._sizes:
            self._sizes.end_sub_batch(views[0].now)
        fixed = self._policy.p is not None and self._sizes is None
        if not fixed and self._sampler.revision_due(views, budget):
            self._revise(views, budget)

    def exhausted(self, view: WindowView) -> Array:
        return view.row_state[WEIGHT] == 0

    def priorities(self, view: WindowView) -> Array:
        return -self._drawn(view)

    def on_evict(self, views: Sequence[WindowView], gone: Sequence[Array]) -> None:
        for streams, _ in self._sampler.groups():
            drawn = {s: self._drawn(views[s]) for s in streams}
            level = min((drawn[s][gone[s]].min() for s in streams if gone[s].any()), default=np.inf)
            for s in streams if level < np.inf else []:
                weight = views[s].row_state[WEIGHT]
                # Rows outside the sample may have size 0.
                kept = weight > 0
                scaled = np.divide(1 / level, self._size(views[s]), out=np.zeros(len(weight)), where=kept)
                np.maximum(weight, scaled, out=weight)
        self._sampler.ids.forget()

    def add_quality(self, known: Quality) -> Quality:
        return self._sampler.totals.add_quality(known, self._fraction() ** (len(self._aliases) - 1))

    # -- inside -------------------------------------------------------------------------------------

    def _measured(self, view: WindowView) -> Array:
        """Sizes of the new rows; stores them."""
        if self._sizes is None:
            return np.ones(view.new_count)
        self._sizes.on_arrival(view)
        sizes = self._sizes.relative(self._sizes.of(view, view.new, self._sampler.demand.span(view.stream)))
        self._recent.add(view.stream, sizes)
        view.row_state[SIZE][view.new] = sizes
        return sizes

    def _size(self, view: WindowView) -> Array:
        return np.ones(len(view)) if self._sizes is None else view.row_state[SIZE]

    def _recent_sizes(self, stream: int) -> Array:
        """Sizes of recent rows."""
        return np.ones(1) if self._sizes is None else self._recent.of(stream)

    def _revise(self, views: Sequence[WindowView], budget: MemoryBudget) -> None:
        """Sets the level that fills the memory in the long run."""
        costs = row_costs(budget.costs)
        for streams, memory in self._sampler.groups(budget.size):
            sizes, counts = [], []
            for s in streams:
                recent = self._recent_sizes(s)
                rows = self._sampler.demand.rows(views[s], lambda view: view.row_state[WEIGHT])
                sizes.append(recent)
                counts.append(np.full(len(recent), rows * costs[s] / max(1, len(recent))))
            level = self._solved(np.concatenate(sizes), np.concatenate(counts), memory, fmean(costs))
            for s in streams:
                self._level[s] = level

    def _solved(self, sizes: Array, counts: Array, memory: float, row: float) -> float:
        """The level at which rows of these sizes, which take `counts` memory in complete windows, are
        expected to fit."""
        mean = mean_within(memory, self._policy.margin, row)
        if self._policy.p is not None:
            mean = self._policy.p * counts.sum()
        return pps_constant(sizes, counts, mean) if mean < counts.sum() else np.inf

    def _fraction(self) -> float:
        """The current sampling fraction of the results of two streams."""
        part = whole = 0.0
        demand = self._sampler.demand
        for s in range(len(self._aliases)):
            sizes = self._recent_sizes(s)
            if len(sizes):
                whole += demand.rates.rate(s) * float(sizes.mean())
                part += demand.rates.rate(s) * float((sizes * self._probabilities(sizes, s)).mean())
        return part / whole if whole > 0 else 1.0

    def _probabilities(self, sizes: Array, stream: int) -> Array:
        level = self._level[stream]
        return (sizes > 0) * 1.0 if level == np.inf else np.minimum(1.0, level * sizes)

    def _drawn(self, view: WindowView) -> Array:
        """u / s of each row; infinite for rows that are not in the sample."""
        drawn = self._sampler.ids.draw(view, 0)
        kept = view.row_state[WEIGHT] > 0
        return np.divide(drawn, self._size(view), out=np.full(len(view), np.inf), where=kept)
