"""Expected results of a stored row for UNIFORM: by its key, or by the stream's age curve.

A model predicts the results of new rows, and the fraction of its window that a row stays when results are
sampled with probability p and followed `reach` standard deviations beyond the expected number. If the last
sampled result is among the n expected, the row stays as long as Theorem 4.2 or 4.3 says; if it is among the d
beyond, until it expires. With q = 1 - p that is  q^d T(n) + 1 - q^d,  where T is the theorem's fraction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windrow.errors import Option, QueryError
from windrow.eviction.models.expected_results import LEARNING, ExpectedResults
from windrow.eviction.models.match_rates import MatchRateModel, no_scores
from windrow.eviction.models.row_sampling import RecentSizes
from windrow.eviction.rates import WindowDemand
from windrow.eviction.window_view import WindowView
from windrow.kernels import row_sampling
from windrow.memory_models.age_curve import AgeCurve
from windrow.memory_models.sampling import mean_residence, rounded_counts
from windrow.model.policies.sampling import Uniform
from windrow.model.stateful import Stateful
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
MANY = 1000.0
"""Above this number of results per row, the number need not be exact."""


def results_beyond_bound(results: Array | float, reach: float) -> Any:
    """How many results are followed beyond the expected number."""
    return reach * np.sqrt(results)


class KeyYield(Stateful):
    """The frequency model."""

    saved = ("_expected", "_recent")

    def __init__(self, policy: Uniform, bound: BoundQuery) -> None:
        self._reach = policy.reach
        self._expected = ExpectedResults(bound, policy.expected, policy.sketch_width, policy.half_life)
        self._recent = RecentSizes(len(bound.query.aliases))
        self._samples: list[tuple[Array, Array, Array] | None] = [None] * len(bound.query.aliases)
        """Per stream, a sample of recent rows: expected results, fraction of the rows, and how many further
        results are followed."""

    def on_arrival(self, view: WindowView, demand: WindowDemand) -> Array:
        """Results to expect of each new row."""
        self._expected.on_arrival(view)
        results = self._expected.of(view, view.new, demand.span(view.stream))
        self._recent.add(view.stream, results)
        self._samples[view.stream] = None
        return results

    def end_sub_batch(
        self, views: Sequence[WindowView], monitored: Sequence[Array], demand: WindowDemand
    ) -> None:
        self._expected.end_sub_batch(views[0].now)

    def residence_fraction(self, stream: int, p: float) -> float:
        """The fraction of its window a row of the stream stays on average."""
        sample = self._samples[stream]
        if sample is None:
            n = self._recent.outline(stream)
            if not len(n):
                return 0.0
            within = results_beyond_bound(n, self._reach)
            shares, results = rounded_counts(np.full(len(n), 1 / len(n)), n)
            self._samples[stream] = sample = results, shares, within
        return row_sampling.residence_fraction(*sample, p) if p > 0 else 0.0


class AgeYield(Stateful):
    """The age model: all rows of a stream find the same number of results, by its age curve."""

    saved = ("_learned", "_curves")

    def __init__(self, policy: Uniform, bound: BoundQuery) -> None:
        self._reach = policy.reach
        self._aliases = bound.query.aliases
        self._given = policy.age_curves
        self._learned = [MatchRateModel(policy.age_bins, policy.half_life) for _ in self._aliases]
        """From monitored rows."""
        self._curves = [AgeCurve((0.0,), 1.0) for _ in self._aliases]

    def on_arrival(self, view: WindowView, demand: WindowDemand) -> Array:
        return np.full(view.new_count, self._results(view.stream, demand.span(view.stream)))

    def on_results(self, view: WindowView, rows: Array, times: Array) -> None:
        """These monitored rows found a result each at these event times."""
        stored = np.ones(len(rows), bool)
        self._learned[view.stream].add_results(no_scores(view, rows), view.ts[rows], times, stored)

    def end_sub_batch(
        self, views: Sequence[WindowView], monitored: Sequence[Array], demand: WindowDemand
    ) -> None:
        """A sub-batch ends; `monitored` has the monitored rows of each view."""
        now, seconds = views[0].now, views[0].elapsed
        for view, rows in zip(views, monitored, strict=True):
            span = demand.span(view.stream)
            if self._given is None and span > 0:
                learned = self._learned[view.stream]
                learned.add_exposure(no_scores(view, rows), view.ts[rows], now, seconds, seconds, span)
            self._curves[view.stream] = self._curve(view.stream, span)

    def residence_fraction(self, stream: int, p: float) -> float:
        curve = self._curves[stream]
        if curve.n <= 0:
            return 0.0
        within = float((1 - p) ** results_beyond_bound(curve.n, self._reach))
        if curve.n > MANY:
            # Only q^n matters then: n results of probability p equal MANY results of a higher probability.
            p, few = -np.expm1(np.log1p(-min(p, 1 - 1e-12)) * curve.n / MANY), MANY / curve.n
            curve = AgeCurve(tuple(rate * few for rate in curve.rates), curve.width)
        stay = mean_residence(curve, p) * (1 / curve.window)
        return within * stay + 1 - within

    def _results(self, stream: int, span: float) -> float:
        """Expected results of a row; learned ones count one result more than was seen."""
        if self._given is not None:
            return float(sum(self._given.get(self._aliases[stream], ())))
        return self._curves[stream].n + span / max(self._learned[stream].exposure, span * LEARNING)

    def _curve(self, stream: int, span: float) -> AgeCurve:
        if self._given is None:
            learned = self._learned[stream]
            known = learned.exposure >= span * LEARNING
            return learned.rates().curve if known else AgeCurve((0.0,), max(span, 1e-6))
        given = self._given.get(self._aliases[stream], (0.0,))
        return AgeCurve(tuple(given), max(span, 1e-6) / len(given))

    def age_curves(self) -> Sequence[AgeCurve]:
        return tuple(self._curves)


def make_yield_model(policy: Uniform, bound: BoundQuery) -> KeyYield | AgeYield:
    """The model that the policy names; by default by key if the streams share one."""
    shared = bool(bound.classes)
    if policy.model == "frequency" and not shared:
        raise QueryError(
            "'frequency' needs an equality in the predicate, such as a.k = b.k; use Uniform(model='age'), or "
            "'cluster'",
            Option("model"),
        )
    by_key = shared and policy.age_curves is None if policy.model is None else policy.model == "frequency"
    return KeyYield(policy, bound) if by_key else AgeYield(policy, bound)
