"""What a stored row is expected to bring, for UNIFORM: by its key, or by the stream's age curve.

A model tells the number of results of new rows, and which part of its window a row stays when results are
chosen with chance p and followed `reach` standard deviations beyond the expected number. If the last chosen
one is among the n expected, the row stays as long as Theorem 4.2 or 4.3 says; if it is among the d beyond,
until it expires. With q = 1 - p that is  q^d T(n) + 1 - q^d,  T being the theorem's part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from windrow.errors import QueryError, unknown
from windrow.kernels import chance
from windrow.model.samples import Uniform
from windrow.planning.age import AgeCurve
from windrow.planning.sampling import AgeSample, FrequencySample
from windrow.shed.context import Context
from windrow.shed.curve import LearnedCurve
from windrow.shed.drawing import Recent
from windrow.shed.need import Need
from windrow.shed.sizes import LEARNING, Sizes
from windrow.shed.view import View

Array = np.ndarray
MANY = 1000.0
"""Results of a row beyond which their number need not be told exactly."""


class Expectation(Protocol):
    learns: bool
    """Whether it wants to be told what monitored rows found."""

    def arrive(self, view: View, need: Need) -> Array:
        """Results each new row is expected to bring."""
        ...

    def found(self, view: View, ages: Array, weights: Array) -> None:
        """Monitored rows of a stream found something at these ages in seconds, and stand for so many."""
        ...

    def settle(self, views: Sequence[View], weights: Callable[[View], Array], need: Need) -> None:
        """Event time has come to the views' `now`; `weights` are those of monitored rows, else 0."""
        ...

    def stay(self, stream: int, p: float) -> float:
        """The part of its window a row of the stream stays on average."""
        ...

    def curves(self) -> Sequence[AgeCurve]:
        """The age curve of each stream, if it goes by them."""
        ...

    def save(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]: ...

    def load(self, plain: dict[str, Any], parts: Sequence[pa.RecordBatch]) -> None: ...


def beyond(results: Array | float, reach: float) -> Any:
    """How many results are followed beyond the expected number."""
    return reach * np.sqrt(results)


class ByKey:
    """The frequency model."""

    learns = False

    def __init__(self, policy: Uniform, context: Context) -> None:
        self._reach = policy.reach
        self._sizes = Sizes(context, policy.expected, policy.width, policy.half_life)
        self._recent = Recent(len(context.query.aliases))
        self._samples: list[tuple[FrequencySample, Array] | None] = [None] * len(context.query.aliases)
        """Per stream, rows that came lately, and how far they are followed beyond what is expected."""

        self._known = [(-1.0, 0.0)] * len(context.query.aliases)
        """Per stream, the last chance asked for and its answer: memory and its variance ask for the same."""

    def arrive(self, view: View, need: Need) -> Array:
        self._sizes.arrive(view)
        results = self._sizes.of(view, slice(view.fresh, len(view)), need.span(view.stream))
        self._recent.add(view.stream, results)
        self._samples[view.stream], self._known[view.stream] = None, (-1.0, 0.0)
        return results

    def found(self, view: View, ages: Array, weights: Array) -> None:
        return None

    def settle(self, views: Sequence[View], weights: Callable[[View], Array], need: Need) -> None:
        self._sizes.settle(views[0].now, max(map(need.span, range(len(views)))))

    def stay(self, stream: int, p: float) -> float:
        if self._known[stream][0] != p:
            self._known[stream] = (p, self._stay(stream, p))
        return self._known[stream][1]

    def _stay(self, stream: int, p: float) -> float:
        sample = self._samples[stream]
        if sample is None:
            n = self._recent.outline(stream)
            if not len(n):
                return 0.0
            within = beyond(n, self._reach)
            sample = FrequencySample(1.0, 1.0, np.full(len(n), 1 / len(n)), n).rounded(), within
            self._samples[stream] = sample
        rows, further = sample
        return chance.stay(rows.results, rows.shares, further, p) if p > 0 else 0.0

    def curves(self) -> Sequence[AgeCurve]:
        return ()

    def save(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        plain, parts = self._sizes.save()
        return plain, [*self._recent.save(), *parts]

    def load(self, plain: dict[str, Any], parts: Sequence[pa.RecordBatch]) -> None:
        self._recent.load(parts[:2])
        self._sizes.load(plain, parts[2:])


class ByAge:
    """The age model: all rows of a stream bring the same number, as its curve says."""

    learns = True

    def __init__(self, policy: Uniform, context: Context) -> None:
        self._reach = policy.reach
        self._half_life = policy.half_life
        self._aliases = context.query.aliases
        self._given = policy.curves
        for alias in policy.curves or {}:
            if alias not in self._aliases:
                raise QueryError(f"shed uniform: curves: {unknown('stream', alias, self._aliases)}")
        self._learned = [LearnedCurve(policy.buckets, policy.half_life) for _ in self._aliases]
        self._lived = [0.0] * len(self._aliases)
        """Row-seconds that monitored rows lived, faded: what the curves rest on."""
        self._until: int | None = None
        self._curves = [AgeCurve((0.0,), 1.0) for _ in self._aliases]

    def arrive(self, view: View, need: Need) -> Array:
        return np.full(len(view) - view.fresh, self._results(view.stream, need.span(view.stream)))

    def found(self, view: View, ages: Array, weights: Array) -> None:
        self._learned[view.stream].found(ages, weights)

    def settle(self, views: Sequence[View], weights: Callable[[View], Array], need: Need) -> None:
        now = views[0].now
        if self._until is None:
            self._until = min(int(view.ts.min()) for view in views if len(view))
        seconds, self._until = max(0, now - self._until) / 1e6, max(now, self._until)
        for s, view in enumerate(views):
            span = need.span(s)
            if self._given is None and span > 0:
                weight = weights(view)
                kept = weight > 0
                self._learned[s].lived(view.ts[kept], weight[kept], now, seconds, seconds, span)
                fade = 0.5 ** (seconds / (self._half_life * span))
                self._lived[s] = self._lived[s] * fade + seconds * int(kept.sum())
            self._curves[s] = self._curve(s, span)

    def stay(self, stream: int, p: float) -> float:
        curve = self._curves[stream]
        if curve.n <= 0:
            return 0.0
        within = float((1 - p) ** beyond(curve.n, self._reach))
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

    def curves(self) -> Sequence[AgeCurve]:
        return tuple(self._curves)

    def save(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        saved = [learned.save() for learned in self._learned]
        curves = [[list(curve.rates), curve.width] for curve in self._curves]
        plain = {"learned": [p for p, _ in saved], "lived": self._lived, "until": self._until}
        return plain | {"curves": curves}, [part for _, part in saved]

    def load(self, plain: dict[str, Any], parts: Sequence[pa.RecordBatch]) -> None:
        for learned, saved, part in zip(self._learned, plain["learned"], parts, strict=True):
            learned.load(saved, part)
        self._lived, self._until = list(plain["lived"]), plain["until"]
        self._curves = [AgeCurve(tuple(rates), width) for rates, width in plain["curves"]]


def expectation(policy: Uniform, context: Context) -> Expectation:
    """The model a policy asks for; by key where the streams share one, if it asks for none."""
    shared = bool(context.classes)
    if policy.model == "frequency" and not shared:
        raise QueryError(
            "shed: the frequency model of 'uniform' needs an equality in the predicate, such as a.k = b.k; "
            "use Uniform(model='age'), or 'cluster'"
        )
    by_key = shared and policy.curves is None if policy.model is None else policy.model == "frequency"
    return ByKey(policy, context) if by_key else ByAge(policy, context)
