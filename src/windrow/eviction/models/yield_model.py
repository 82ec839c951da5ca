"""Expected results of a stored row for UNIFORM: by its key, or by the stream's age curve.

A model tells the number of results of new rows, and which part of its window a row stays when results are
chosen with chance p and followed `reach` standard deviations beyond the expected number. If the last chosen
one is among the n expected, the row stays as long as Theorem 4.2 or 4.3 says; if it is among the d beyond,
until it expires. With q = 1 - p that is  q^d T(n) + 1 - q^d,  T being the theorem's part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from windrow.errors import QueryError, unknown
from windrow.eviction.context import Context
from windrow.eviction.models.age_curve_estimator import AgeCurveEstimator
from windrow.eviction.models.expected_results import LEARNING, ExpectedResults
from windrow.eviction.models.row_sampling import RecentSizes
from windrow.eviction.rates import WindowDemand
from windrow.eviction.window_view import WindowView
from windrow.kernels import row_sampling
from windrow.memory_models.age_curve import AgeCurve
from windrow.memory_models.sampling import AgeSample, FrequencySample
from windrow.model.policies.sampling import Uniform
from windrow.model.stateful import Stateful

Array = np.ndarray
MANY = 1000.0
"""Results of a row beyond which their number need not be told exactly."""


class YieldModel(Protocol):
    uses_results: bool
    """Whether it wants to be told what monitored rows found."""

    def on_arrival(self, view: WindowView, need: WindowDemand) -> Array:
        """Results each new row is expected to bring."""
        ...

    def on_results(self, view: WindowView, ages: Array, weights: Array) -> None:
        """Monitored rows of a stream found something at these ages in seconds, and stand for so many."""
        ...

    def end_sub_batch(
        self, views: Sequence[WindowView], weights: Callable[[WindowView], Array], need: WindowDemand
    ) -> None:
        """Event time has come to the views' `now`; `weights` are those of monitored rows, else 0."""
        ...

    def residence_fraction(self, stream: int, p: float) -> float:
        """The part of its window a row of the stream stays on average."""
        ...

    def age_curves(self) -> Sequence[AgeCurve]:
        """The age curve of each stream, if it goes by them."""
        ...


def results_beyond_bound(results: Array | float, reach: float) -> Any:
    """How many results are followed beyond the expected number."""
    return reach * np.sqrt(results)


class KeyYield(Stateful):
    """The frequency model."""

    saved = ("_sizes", "_recent")

    uses_results = False

    def __init__(self, policy: Uniform, context: Context) -> None:
        self._reach = policy.reach
        self._sizes = ExpectedResults(context, policy.expected, policy.width, policy.half_life)
        self._recent = RecentSizes(len(context.query.aliases))
        self._samples: list[tuple[FrequencySample, Array] | None] = [None] * len(context.query.aliases)
        """Per stream, rows that came lately, and how far they are followed beyond what is expected."""

        self._known = [(-1.0, 0.0)] * len(context.query.aliases)
        """Per stream, the last chance asked for and its answer: memory and its variance ask for the same."""

    def on_arrival(self, view: WindowView, need: WindowDemand) -> Array:
        self._sizes.on_arrival(view)
        results = self._sizes.of(view, slice(view.first_new, len(view)), need.span(view.stream))
        self._recent.add(view.stream, results)
        self._samples[view.stream], self._known[view.stream] = None, (-1.0, 0.0)
        return results

    def on_results(self, view: WindowView, ages: Array, weights: Array) -> None:
        return None

    def end_sub_batch(
        self, views: Sequence[WindowView], weights: Callable[[WindowView], Array], need: WindowDemand
    ) -> None:
        self._sizes.end_sub_batch(views[0].now, max(map(need.span, range(len(views)))))

    def residence_fraction(self, stream: int, p: float) -> float:
        if self._known[stream][0] != p:
            self._known[stream] = (p, self._residence_fraction(stream, p))
        return self._known[stream][1]

    def _residence_fraction(self, stream: int, p: float) -> float:
        sample = self._samples[stream]
        if sample is None:
            n = self._recent.outline(stream)
            if not len(n):
                return 0.0
            within = results_beyond_bound(n, self._reach)
            sample = FrequencySample(1.0, 1.0, np.full(len(n), 1 / len(n)), n).rounded(), within
            self._samples[stream] = sample
        rows, further = sample
        return row_sampling.residence_fraction(rows.results, rows.shares, further, p) if p > 0 else 0.0

    def age_curves(self) -> Sequence[AgeCurve]:
        return ()


class AgeYield(Stateful):
    """The age model: all rows of a stream bring the same number, as its curve says."""

    saved = ("_learned", "_lived", "_until", "_curves")
    clocks = ("_until",)

    uses_results = True

    def __init__(self, policy: Uniform, context: Context) -> None:
        self._reach = policy.reach
        self._half_life = policy.half_life
        self._aliases = context.query.aliases
        self._given = policy.curves
        for alias in policy.curves or {}:
            if alias not in self._aliases:
                raise QueryError(f"shed uniform: curves: {unknown('stream', alias, self._aliases)}")
        self._learned = [AgeCurveEstimator(policy.buckets, policy.half_life) for _ in self._aliases]
        self._lived = [0.0] * len(self._aliases)
        """Row-seconds that monitored rows lived, faded: what the curves rest on."""
        self._until: int | None = None
        self._curves = [AgeCurve((0.0,), 1.0) for _ in self._aliases]

    def on_arrival(self, view: WindowView, need: WindowDemand) -> Array:
        return np.full(len(view) - view.first_new, self._results(view.stream, need.span(view.stream)))

    def on_results(self, view: WindowView, ages: Array, weights: Array) -> None:
        self._learned[view.stream].add_results(ages, weights)

    def end_sub_batch(
        self, views: Sequence[WindowView], weights: Callable[[WindowView], Array], need: WindowDemand
    ) -> None:
        now = views[0].now
        if self._until is None:
            self._until = min(int(view.ts.min()) for view in views if len(view))
        seconds, self._until = max(0, now - self._until) / 1e6, max(now, self._until)
        for s, view in enumerate(views):
            span = need.span(s)
            if self._given is None and span > 0:
                weight = weights(view)
                kept = weight > 0
                self._learned[s].add_exposure(view.ts[kept], weight[kept], now, seconds, seconds, span)
                fade = 0.5 ** (seconds / (self._half_life * span))
                self._lived[s] = self._lived[s] * fade + seconds * int(kept.sum())
            self._curves[s] = self._curve(s, span)

    def residence_fraction(self, stream: int, p: float) -> float:
        curve = self._curves[stream]
        if curve.n <= 0:
            return 0.0
        within = float((1 - p) ** results_beyond_bound(curve.n, self._reach))
        if curve.n > MANY:
            # Only q^n matters then: n results of chance p are as good as MANY that are likelier.
            p, few = -np.expm1(np.log1p(-min(p, 1 - 1e-12)) * curve.n / MANY), MANY / curve.n
            curve = AgeCurve(tuple(rate * few for rate in curve.rates), curve.width)
        return within * AgeSample(curve, 1 / curve.window).memory(p) + 1 - within

    def _results(self, stream: int, span: float) -> float:
        """As learned, with one result more than was seen."""
        if self._given is not None:
            return float(sum(self._given.get(self._aliases[stream], ())))
        return self._curves[stream].n + span / max(self._lived[stream], span * LEARNING)

    def _curve(self, stream: int, span: float) -> AgeCurve:
        if self._given is None:
            learned = self._lived[stream] >= span * LEARNING
            return self._learned[stream].curve() if learned else AgeCurve((0.0,), max(span, 1e-6))
        given = self._given.get(self._aliases[stream], (0.0,))
        return AgeCurve(tuple(given), max(span, 1e-6) / len(given))

    def age_curves(self) -> Sequence[AgeCurve]:
        return tuple(self._curves)


def expectation(policy: Uniform, context: Context) -> YieldModel:
    """The model a policy asks for; by key where the streams share one, if it asks for none."""
    shared = bool(context.classes)
    if policy.model == "frequency" and not shared:
        raise QueryError(
            "shed: the frequency model of 'uniform' needs an equality in the predicate, such as a.k = b.k; "
            "use Uniform(model='age'), or 'cluster'"
        )
    by_key = shared and policy.curves is None if policy.model is None else policy.model == "frequency"
    return KeyYield(policy, context) if by_key else AgeYield(policy, context)
