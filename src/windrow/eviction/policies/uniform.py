"""UNIFORM: samples every result of two streams independently with probability p (Memory, section 4.2).

A stored row counts its results, `num`, and stores the number of the next sampled one, `next`, drawn by
geometric skips. Once that exceeds the row's expected results, the row is exhausted and is evicted. The
probability may change over time: a result weighs 1 / p with the p by which its skip was drawn.

The paper discards rows by the expected number itself, and results beyond it are missed. Here a row is
followed `reach` standard deviations further, and some rows are monitored: drawn with probability rho on
arrival, they are followed until they expire, and their results beyond the bound weigh 1 / (p rho). So a sum
is unbiased whatever the model; a bad model only increases its variance. Age curves are learned from the same
rows.

If windows are still too large, the rows with the greatest v are evicted, where each row has a fixed random v
in (0, 1). The least v evicted becomes the probability of staying, and divides the weights of the rows that
stay. That is exact for the reason given in cluster.py, because v affects nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean

import numpy as np

from windrow.eviction.models.row_sampling import ROW, Sampler, completing_stream, row_costs
from windrow.eviction.models.yield_model import AgeYield, make_yield_model
from windrow.eviction.ranking import MemoryBudget, Ranking, Selection
from windrow.eviction.window_view import ProbeResults, RowState, WindowView
from windrow.kernels.row_sampling import FollowedRows, in_arrival_order, init_row_sampling, sample_results
from windrow.memory_models.age_curve import AgeCurve
from windrow.memory_models.sampling import mean_within, uniform_fraction
from windrow.model.metrics import Quality
from windrow.model.policies.sampling import Uniform
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
NEXT, EXTRA, THIN = "next", "extra", "thin"
"""Row state, as in `FollowedRows`."""
MONITORED, STAYING, ROUNDED = -1, -2, -3
"""Numbers of the draws that decide who is monitored, who stays, and how a bound is rounded."""
LEAST = 1e-9


class UniformRanking(Ranking):
    saved = ("_model", "_sampler", "_p", "_monitored")
    samples = True
    row_state: RowState = (
        *((name, np.float64) for name in (ROW, "num", NEXT, "probability")),
        *((name, np.float32) for name in ("bound", EXTRA, THIN, "seen")),
    )

    def __init__(self, policy: Uniform, bound: BoundQuery) -> None:
        self._policy = policy
        self._model = make_yield_model(policy, bound)
        self._sampler = Sampler(policy.split, bound)
        self._p = 1.0 if policy.p is None else policy.p
        self._monitored = 1.0 if policy.monitor_fraction > 0 else 0.0

    # -- the data flow ------------------------------------------------------------------------------

    def on_arrival(self, view: WindowView) -> None:
        who = self._sampler.on_arrival(view)
        results = self._model.on_arrival(view, self._sampler.demand)
        monitored = max(self._monitored, LEAST) if self._monitored else 0.0
        draws, rows = (ROUNDED, MONITORED), _followed(view, view.new)
        init_row_sampling(who, results, self._policy.reach, self._p, monitored, draws, rows)

    def select(self, found: ProbeResults) -> Selection:
        views, last = found.views, completing_stream(found)
        weight = np.zeros(len(found))
        cluster = np.full(len(found), -1, np.int64)
        for s, view in enumerate(views):
            other = views[1 - s]
            which = in_arrival_order(last, s, found.rows[1 - s], other.first_new, len(other))
            if not len(which):
                continue
            if isinstance(self._model, AgeYield):
                stored = found.rows[s][which]
                mine = view.row_state[EXTRA][stored] > 0
                if mine.any():
                    times = other.ts[found.rows[1 - s][which]]
                    self._model.on_results(view, stored[mine], times[mine])
            keys, totals = self._sampler.ids.keys(view), self._sampler.totals
            held, sums = _followed(view), (totals.sums, totals.rows_in_results)
            sample_results(which, found.rows[s], keys, self._p, held, weight, cluster, *sums)
        chosen = weight > 0
        return Selection(chosen, weight[chosen], cluster[chosen])

    def end_sub_batch(self, views: Sequence[WindowView], budget: MemoryBudget) -> None:
        if not self._sampler.end_sub_batch(views):
            return
        monitored = [np.flatnonzero(view.row_state[EXTRA]) for view in views]
        self._model.end_sub_batch(views, monitored, self._sampler.demand)
        if self._sampler.revision_due(views, budget):
            self._revise(views, budget)

    def exhausted(self, view: WindowView) -> Array:
        return view.row_state[NEXT] == 0

    def priorities(self, view: WindowView) -> Array:
        return -self._drawn(view)

    def on_evict(self, views: Sequence[WindowView], gone: Sequence[Array]) -> None:
        for streams, _ in self._sampler.groups():
            drawn = [self._drawn(views[s])[gone[s]] for s in streams]
            level = min((float(each.min()) for each in drawn if len(each)), default=1.0)
            for s in streams:
                np.minimum(views[s].row_state[THIN], level, out=views[s].row_state[THIN])
        self._sampler.ids.forget()

    def add_quality(self, known: Quality) -> Quality:
        # Without monitored rows, results beyond the bounds are missed without being measured.
        beyond = 1 / self._monitored if self._monitored else np.inf
        return self._sampler.totals.add_quality(known, self._p, beyond)

    # -- inside -------------------------------------------------------------------------------------

    @staticmethod
    def _standing(view: WindowView) -> Array:
        """How many rows each monitored row represents; 0 for others."""
        return view.row_state[EXTRA] / np.maximum(view.row_state[THIN], LEAST)

    def _revise(self, views: Sequence[WindowView], budget: MemoryBudget) -> None:
        """Sets p and the monitored fraction so that they fill the memory in the long run."""
        costs = row_costs(budget.costs)
        rows = [self._sampler.demand.rows(v, self._standing) for v in views]
        margin, monitored = self._policy.margin, self._policy.monitor_fraction
        fractions, parts = [], []
        for streams, memory in self._sampler.groups(budget.size):
            whole = sum(rows[s] * costs[s] for s in streams)
            mean = mean_within(memory, margin, fmean(costs))
            fits = mean >= whole
            part = 1.0 if fits and monitored > 0 else min(1.0, monitored * mean / max(whole, LEAST))
            held = partial(self._held, {s: rows[s] for s in streams}, part)
            sizes = [costs[s] for s in streams]
            fractions.append(1.0 if fits else uniform_fraction(held, memory, margin, sizes))
            parts.append(part)
        self._monitored = min(parts)
        if self._policy.p is None:
            self._p = max(LEAST, min(fractions))

    def _held(self, rows: Mapping[int, float], monitored: float, p: float) -> list[float]:
        """Rows held of each stream, where complete windows hold `rows`: a row stays as long as the model
        says, a monitored one until it expires."""
        stay = {s: self._model.residence_fraction(s, p) for s in rows}
        return [n * ((1 - monitored) * stay[s] + monitored) for s, n in rows.items()]

    def _drawn(self, view: WindowView) -> Array:
        return self._sampler.ids.draw(view, STAYING)

    def age_curves(self) -> Sequence[AgeCurve]:
        return self._model.age_curves() if isinstance(self._model, AgeYield) else ()


def _followed(view: WindowView, rows: slice = slice(None)) -> FollowedRows:
    return FollowedRows(*(view.row_state[name][rows] for name in FollowedRows._fields))
