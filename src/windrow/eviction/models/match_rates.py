"""Match rates: results per second of a stored row by its age and its score, learned from all rows held.

Rows fall into score bins (one per doubling) and age bins (equal parts of the window). For each pair of bins
the model counts the results found there and the row-seconds spent there (the exposure). Which rows are held
depends on score and age alone, so rows of one pair of bins are comparable whether the policy keeps them or
they are only monitored, and the model learns from all of them.

A score is the rate predicted from the row's keys. Rows without one are in bin 0, and their rate is predicted
from their age. The rate of a pair of bins is

    predicted  x  mean  x  (factor of the age bin)  x  (factor of the score bin)  x  (interaction of the two)

Each factor is shrunk towards 1 by as much as chance explains (empirical Bayes), so a prediction holds until
the data contradict it. The factor of the score bins is a power of the score, so the order of scores is
preserved; with a power of -1 scores carry no information.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from windrow.eviction.rates import DecayedTime
from windrow.eviction.window_view import STEADY_ROWS, ProbeResults, WindowView
from windrow.kernels import rate_fit, rate_histogram
from windrow.memory_models.age_curve import AgeCurve
from windrow.model.stateful import Stateful

Array = np.ndarray
REACH = 12
"""Score bins on either side of the middle of the scale."""
REFIT = 8
"""Rates are refitted when one in REFIT results is new."""
REFITS = 2
"""Minimum number of refits per window."""


@dataclass(frozen=True, eq=False)
class MatchRates(Stateful):
    """Fitted rates: results per second by age bin, and factors on them."""

    by_age: Array
    by_score: Array
    both: Array
    """By score bin and age bin."""
    width: float
    """Seconds of an age bin."""

    @cached_property
    def whole(self) -> Array:
        """Results per second by score bin and age bin."""
        return self.by_age * self.by_score[:, np.newaxis] * self.both

    @cached_property
    def curve(self) -> AgeCurve:
        """Results of a row in each age bin, whatever its score."""
        return AgeCurve(tuple(self.by_age * self.width), self.width)

    @cached_property
    def priorities(self) -> tuple[Array, Array]:
        """The highest rate at which rows can still find results (Memory, s. 3.2.1) at the start of each age
        bin, and its change until the end of the bin. By score bin and age bin."""
        best = rate_fit.best_mean_rates(self.whole)
        following = np.concatenate([best[:, 1:], np.zeros((len(best), 1))], axis=1)
        return best, np.maximum(self.whole, following) - best

    @cached_property
    def between(self) -> tuple[Array, Array]:
        """Linear interpolation between the rates of neighbouring score bins, relative to the nearer bin: the
        value at position 0 of the scale and the slope, by half bins."""
        bins = len(self.by_score)
        if bins == 1:
            return np.ones(1), np.zeros(1)
        half = np.arange(2 * bins - 1)
        lower, nearest = np.minimum(half // 2, bins - 2), (half + 1) // 2
        rise = self.by_score[lower + 1] - self.by_score[lower]
        return (self.by_score[lower] - lower * rise) / self.by_score[nearest], rise / self.by_score[nearest]


class MatchRateModel(Stateful):
    """The match rates of one stream. The half-life of the counts is in windows. `steep` is the largest power
    of the score by which match rates may differ from scores, where rows are `scored`."""

    saved = (
        "_results", "_exposure", "_center", "_span", "_singleton_rate", "_arrivals", "_time",
        "_fitted", "_new_results", "_since_fit",
    )  # fmt: skip

    def __init__(self, age_bins: int, half_life: float, scored: bool = False, steep: int = 1) -> None:
        self._steep = steep
        self._half_life = half_life
        self._half_bins = REACH if scored else 0
        self._results = np.zeros((2 * self._half_bins + 1, age_bins))
        self._exposure = np.zeros(self._results.shape)
        self._center = 0.0
        """The score in the middle of the scale."""
        self._span = 1.0
        self._singleton_rate = np.ones(age_bins)
        """Predicted rate of rows without a score, by age bin."""
        self._arrivals = np.zeros(len(self._results))
        self._time = DecayedTime()
        """The time in which `_arrivals` were counted."""
        self._fitted: MatchRates | None = None
        self._new_results = 0.0
        self._since_fit = 0.0
        """Seconds."""

    # -- learning -----------------------------------------------------------------------------------

    def add_arrivals(self, scores: Array, each: float = 1.0) -> None:
        """Rows with these scores arrived; each represents `each` rows."""
        rate_histogram.count_arrivals(_bits(scores), self._scale, each, self._arrivals)

    def add_results(self, scores: Array, ts: Array, times: Array, stored: Array, each: float = 1.0) -> None:
        """Rows with these scores and event times found a result each at `times`; only `stored` rows count."""
        self._new_results += rate_histogram.count_results(
            times, stored, ts, _bits(scores), self._scale, each, self._results
        )

    def add_exposure(
        self,
        scores: Array,
        ts: Array,
        now: int,
        seconds: float,
        passed: float,
        span: float,
        each: float = 1.0,
    ) -> None:
        """Rows with these scores and event times were held for the last `seconds` of the time `passed` since
        the last call. `span` is the window in seconds."""
        self._span = span
        self._decay(passed, seconds)
        self._recenter(scores)
        rate_histogram.add_exposure(ts, _bits(scores), now, seconds, self._scale, each, self._exposure)
        self._since_fit += passed
        if self._new_results * REFIT >= self._results.sum() or self._since_fit * REFITS >= span:
            self._fitted = None

    @property
    def rate(self) -> float:
        """Recent rows per second."""
        return float(self._arrivals.sum()) / max(self._time.seconds, 1e-9)

    @property
    def exposure(self) -> float:
        """Row-seconds observed, decayed."""
        return float(self._exposure.sum())

    @property
    def _scale(self) -> rate_histogram.Scale:
        middle = int(np.float32(self._center).view(np.int32))
        return rate_histogram.Scale(middle, self._half_bins, float(self._span))

    def _decay(self, passed: float, seconds: float) -> None:
        factor = self._time.advance(passed, self._half_life * max(self._span, 1e-9), seconds)
        for counted in (self._results, self._exposure, self._arrivals):
            counted *= factor
        self._new_results *= factor

    def _recenter(self, scores: Array) -> None:
        """Moves the scale by whole bins when the median score is far from its middle."""
        if self._half_bins == 0:
            return
        median = rate_histogram.median_score(scores)
        if median == 0:
            return
        self._center = self._center or median
        moved = np.rint(np.log2(median / self._center))
        if abs(moved) > REACH // 2:
            self._center *= 2.0**moved
            self._fitted = None
            bins = len(self._results)
            to = np.clip(np.arange(bins) - moved, 1, bins - 1).astype(np.int64)
            to[0] = 0
            for counted in (self._results, self._exposure, self._arrivals):
                before = counted.copy()
                counted[:] = 0.0
                np.add.at(counted, to, before)

    # -- fitted rates -------------------------------------------------------------------------------

    @property
    def needs_refit(self) -> bool:
        """Whether the next call of `rates` refits; call `set_prior` first."""
        return self._fitted is None

    @property
    def ages(self) -> Array:
        """The middle of each age bin, in seconds."""
        bins = self._results.shape[1]
        return (np.arange(bins) + 0.5) * self._span / bins

    def set_prior(self, singleton_rate: Array) -> None:
        """Sets the predicted rate of rows without a score at these `ages`. It never falls below its mean, for
        that would say what no row can contradict: such rows are soon evicted."""
        self._singleton_rate = np.maximum(singleton_rate, singleton_rate.mean())

    def rates(self) -> MatchRates:
        if self._fitted is None:
            self._fitted = self.peek()
            self._new_results = self._since_fit = 0.0
        return self._fitted

    def peek(self) -> MatchRates:
        """As `rates`, but leaves the model as it is."""
        if self._fitted is not None:
            return self._fitted
        bins, ages = self._results.shape
        predicted = np.broadcast_to(self._singleton_rate, self._results.shape)
        if bins > 1:
            scores = (self._center or 1.0) * 2.0 ** (np.arange(bins) - self._half_bins)
            predicted = np.repeat(scores[:, np.newaxis], ages, axis=1)
            predicted[0] = self._singleton_rate
        return fit(self._results, self._exposure, predicted, self._steep, self._span / ages)

    def groups(self) -> tuple[Array, Array, Array]:
        """By score bin: its factor and its fraction of the arriving rows; and the scores between the bins.
        Before there is a scale, all rows are in bin 0."""
        middle, reach, _ = self._scale
        # In the bits of a 32-bit float a doubling is 2^23, and edges lie half a bin from the middles.
        between = middle + ((np.arange(2 * reach) + 0.5 - reach) * 2.0**23).astype(np.int32)
        edges = np.maximum(between, 0).view(np.float32)
        if middle == 0:
            edges[:] = np.inf
        else:
            edges[:1] = 0.0
        return self.rates().by_score, self._arrivals / max(float(self._arrivals.sum()), 1e-300), edges

    def priority(self, scores: Array, ts: Array, now: int) -> Array:
        """The highest rate at which rows can still find results, on the curve of their score bin."""
        rates, out = self.rates(), np.empty(len(ts))
        tables = (*rates.priorities, *rates.between)
        rate_histogram.score_priorities(ts, _bits(scores), now, self._scale, *tables, out)
        return out


class MatchRateModels(Stateful):
    """The match rates of all streams of a join.

    `score` gives the scores of some rows of a view.
    """

    saved = ("models", "_until")
    clocks = ("_until",)

    def __init__(self, models: Sequence[MatchRateModel]) -> None:
        self.models = list(models)
        self._until: int | None = None

    def on_arrival(self, view: WindowView, scores: Array) -> None:
        """New rows have these scores, one for every `view.learn_stride` rows."""
        if view.learning:
            step = max(1, len(scores) // STEADY_ROWS)
            self.models[view.stream].add_arrivals(scores[::step], view.learn_stride * step)

    def on_results(self, found: ProbeResults, score: Callable[[WindowView, Array], Array]) -> None:
        views = found.views
        if not views[0].learning:
            return
        every = views[0].learn_stride
        some = found if every == 1 else ProbeResults([rows[::every] for rows in found.rows], views)
        for model, view, rows, stored in zip(self.models, views, some.rows, some.stored, strict=True):
            model.add_results(score(view, rows), view.ts[rows], some.newest, stored, every)

    def end_sub_batch(self, views: Sequence[WindowView], score: Callable[[WindowView, slice], Array]) -> None:
        now = views[0].now
        if not views[0].learning:
            return
        passed = views[0].elapsed if self._until is None else max(0, now - self._until) / 1e6
        self._until = now if self._until is None else max(now, self._until)
        for model, view in zip(self.models, views, strict=True):
            rows = slice(0, len(view), view.exposure_stride)
            time = (now, min(view.elapsed, passed), passed, view.window_length / 1e6)
            model.add_exposure(score(view, rows), view.ts[rows], *time, view.exposure_stride)


def no_scores(view: WindowView, rows: Array | slice) -> Array:
    """The scores of rows that have none."""
    return np.zeros(len(view.ts[rows]), np.float32)


def _bits(scores: Array) -> Array:
    """Scores as kernels read them."""
    return scores.astype(np.float32, copy=False).view(np.int32)


def fit(found: Array, exposure: Array, predicted: Array, steep: int = 1, width: float = 1.0) -> MatchRates:
    """Rates fitted to these counts, given predicted rates, from which they may differ by a power of the score
    up to `steep`."""
    bins, ages = found.shape
    expected = predicted * exposure
    if found.sum() > 0 and expected.sum() > 0:
        by_age, by_score, both = rate_fit.fit_rates(found, expected, steep)
    else:
        # Without any result, the rate falls with the exposure.
        never = rate_fit.PRIOR / (rate_fit.PRIOR + expected.sum())
        by_age, by_score, both = np.full(ages, never), np.ones(bins), np.ones(found.shape)
    mean = predicted.mean(axis=1)
    by_score, both = by_score * mean, both * predicted / mean[:, np.newaxis]
    total = exposure.sum()
    # Factors of score bins average 1 over the rows observed, so that `by_age` is the curve of all rows.
    level = (exposure.sum(axis=1) @ by_score) / total if total > 0 else by_score.mean()
    return MatchRates(by_age * level, by_score / level, both, width)
