"""Results per row-second by age bin and score bin, learned from all rows held.

Rows fall into steps of the score (one a doubling) and parts of their window. For each step and part the
results found there and the time rows spent there are counted. Which rows are held depends on score and age
alone, so rows of one step and part are alike whether the policy kept them or they are only watched, and all
of them teach (as deaths are counted against those at risk).

A score is a rate, what is predicted of a row by its keys; of rows that have none, step 0, it is predicted by
their age. The rate of a step and part is

    predicted  x  mean  x  (how much more this part finds)  x  (this step)  x  (what the two leave out)

each factor drawn towards 1 by as much as chance explains (empirical Bayes): what was predicted holds until
rows are seen to find something else. That of the steps is a power of the score, so that the order of scores
stays; with a power of -1 they tell nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from windrow.kernels import rate_fit, rate_histogram
from windrow.memory_models.age_curve import AgeCurve
from windrow.model.stateful import Stateful

Array = np.ndarray
REACH = 12
"""Doublings on either side of a middling score that are told apart."""
REFIT = 8
"""The rates are fitted anew when one in so many of the results is new."""
REFITS = 2
"""Times in a window that they are fitted anew at least."""


@dataclass(frozen=True, eq=False)
class MatchRates(Stateful):
    """What was learned: results per second by part of the window, and factors on it."""

    by_part: Array
    by_step: Array
    both: Array
    """By step and part."""

    @cached_property
    def whole(self) -> Array:
        """Results per second by step and part."""
        return self.by_part * self.by_step[:, np.newaxis] * self.both

    @cached_property
    def priorities(self) -> tuple[Array, Array]:
        """The fastest rate at which rows can still bring results (Memory, s. 3.2.1), where each part of the
        window begins, and by how much it changes until it ends. By step and part."""
        best = rate_fit.best_mean_rates(self.whole)
        following = np.concatenate([best[:, 1:], np.zeros((len(best), 1))], axis=1)
        return best, np.maximum(self.whole, following) - best

    @cached_property
    def between(self) -> tuple[Array, Array]:
        """What a score adds to the rate of the nearest step, by half steps: so much at place 0 of the scale,
        and so much more for each step from there."""
        steps = len(self.by_step)
        if steps == 1:
            return np.ones(1), np.zeros(1)
        half = np.arange(2 * steps - 1)
        lower, nearest = np.minimum(half // 2, steps - 2), (half + 1) // 2
        rise = self.by_step[lower + 1] - self.by_step[lower]
        return (self.by_step[lower] - lower * rise) / self.by_step[nearest], rise / self.by_step[nearest]


class MatchRateModel(Stateful):
    """Of one stream.

    Parameters
    ----------
    buckets
        Equal parts of the window.
    half_life
        In windows.
    scored
        Whether rows have scores at all.
    steep
        What rows find may differ from their score by a power of it up to this.
    """

    saved = (
        "_results", "_exposure", "_center", "_span", "_singleton_rate", "_arrivals", "_elapsed",
        "_fitted", "_fresh", "_aged",
    )  # fmt: skip

    def __init__(self, buckets: int, half_life: float, scored: bool, steep: int = 1) -> None:
        self._steep = steep
        self._half_life = half_life
        self._half_bins = REACH if scored else 0
        self._results = np.zeros((2 * self._half_bins + 1, buckets))
        self._exposure = np.zeros(self._results.shape)
        self._center = 0.0
        self._span = 1.0
        self._singleton_rate = np.ones(buckets)
        """What is predicted of rows without a score, by part."""
        self._arrivals = np.zeros(len(self._results))
        self._elapsed = 0.0
        """Windows, faded: what `_came` is counted over."""
        self._fitted: MatchRates | None = None
        self._fresh = 0.0
        """Results that came since the rates were fitted."""
        self._aged = 0.0
        """Seconds since then."""

    # -- learning -----------------------------------------------------------------------------------

    def add_arrivals(self, scores: Array, each: float = 1.0) -> None:
        """Rows of these scores arrived, and stand for so many each."""
        rate_histogram.count_arrivals(_bits(scores), *self._scale, each, self._arrivals)

    def add_results(
        self, rows: Array, scores: Array, ts: Array, times: Array, stored: Array, each: float = 1.0
    ) -> None:
        """These rows of those with `scores` and times `ts` found a result each at `times`, where `stored`."""
        scale = (*self._scale, self._span, each)
        self._fresh += rate_histogram.count_results(
            rows, times, stored, ts, _bits(scores), *scale, self._results
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
        """Rows of these scores and times were held for the last `seconds`, and stand for so many each;
        `passed` is how long ago rows last were."""
        self._span = span
        self._fade(passed, seconds)
        self._follow(scores)
        weights = np.full(len(ts), float(each))
        rate_histogram.add_exposure(
            ts, _bits(scores), weights, now, seconds, *self._scale, span, self._exposure
        )
        self._aged += passed
        if self._fresh * REFIT >= self._results.sum() or self._aged * REFITS >= span:
            self._fitted = None

    @property
    def rate(self) -> float:
        """Rows per second, lately."""
        return float(self._arrivals.sum()) / max(self._elapsed * self._span, 1e-9)

    @property
    def _scale(self) -> tuple[int, int]:
        """As kernels take it: the bits of the score in its middle, and the steps on either side."""
        return int(np.float32(self._center).view(np.int32)), self._half_bins

    def _fade(self, passed: float, seconds: float) -> None:
        by = 0.5 ** (passed / max(self._span, 1e-9) / self._half_life)
        for counted in (self._results, self._exposure, self._arrivals):
            counted *= by
        self._fresh *= by
        self._elapsed = self._elapsed * by + seconds / max(self._span, 1e-9)

    def _follow(self, scores: Array) -> None:
        """Moves the scale by whole steps when the scores have left its middle."""
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
            steps = len(self._results)
            step = np.clip(np.arange(steps) - moved, 1, steps - 1).astype(np.int64)
            step[0] = 0
            for counted in (self._results, self._exposure, self._arrivals):
                before = counted.copy()
                counted[:] = 0.0
                np.add.at(counted, step, before)

    # -- what it tells ------------------------------------------------------------------------------

    @property
    def needs_refit(self) -> bool:
        """Whether rates are to be fitted anew: `foretell` first."""
        return self._fitted is None

    @property
    def ages(self) -> Array:
        """The middle of each part of the window, in seconds."""
        parts = self._results.shape[1]
        return (np.arange(parts) + 0.5) * self._span / parts

    def set_prior(self, lone: Array) -> None:
        """What is predicted of rows without a score at these `ages`."""
        self._singleton_rate = lone

    def rates(self) -> MatchRates:
        if self._fitted is None:
            self._fitted = self._fit()
            self._fresh = self._aged = 0.0
        return self._fitted

    def _fit(self) -> MatchRates:
        steps = len(self._results)
        foretold = np.broadcast_to(self._singleton_rate, self._results.shape)
        if steps > 1:
            scores = (self._center or 1.0) * 2.0 ** (np.arange(steps) - self._half_bins)
            foretold = np.repeat(scores[:, np.newaxis], self._results.shape[1], axis=1)
            foretold[0] = self._singleton_rate
        return fit(self._results, self._exposure, foretold, self._steep)

    def groups(self) -> tuple[Array, Array, Array]:
        """By step: how much more than others its rows find, and the part of the arriving rows in it; and the
        scores that lie between the steps: step 0 is of rows without a score, and of all before there is a
        scale."""
        middle, reach = self._scale
        between = middle + ((np.arange(2 * reach) + 0.5 - reach) * 2.0**23).astype(np.int32)
        edges = np.maximum(between, 0).view(np.float32)
        if middle == 0:
            edges[:] = np.inf
        else:
            edges[:1] = 0.0
        return self.rates().by_step, self._arrivals / max(float(self._arrivals.sum()), 1e-300), edges

    def priority(self, scores: Array, ts: Array, now: int) -> Array:
        """The fastest rate at which rows can still bring results, on the curve of their step."""
        rates, out = self.rates(), np.empty(len(ts))
        scale = (*self._scale, self._span, *rates.priorities, *rates.between)
        rate_histogram.score_priorities(ts, _bits(scores), now, *scale, out)
        return out

    def curve(self) -> AgeCurve:
        """Results of a row in each part of its window, whatever its score."""
        return self._curve(self.rates())

    def peek(self) -> AgeCurve:
        """As `curve`, but what is fitted anew for it is forgotten again."""
        return self._curve(self._fitted or self._fit())

    def _curve(self, rates: MatchRates) -> AgeCurve:
        width = self._span / self._results.shape[1]
        return AgeCurve(tuple(rates.by_part * width), width)


def _bits(scores: Array) -> Array:
    """As kernels take them."""
    return scores.astype(np.float32, copy=False).view(np.int32)


def fit(found: Array, spent: Array, foretold: Array, steep: int = 1) -> MatchRates:
    """The rates behind these counts, where such rates were predicted; they may differ from that by a power of
    the score up to `steep`."""
    steps, parts = found.shape
    expected = foretold * spent
    if found.sum() > 0 and expected.sum() > 0:
        by_part, by_step, both = rate_fit.fit_rates(found, expected, steep)
    else:
        # The longer nothing is found, the less there is to be found.
        never = rate_fit.PRIOR / (rate_fit.PRIOR + expected.sum())
        by_part, by_step, both = np.full(parts, never), np.ones(steps), np.ones(found.shape)
    mean = foretold.mean(axis=1)
    by_step, both = by_step * mean, both * foretold / mean[:, np.newaxis]
    level = (spent.sum(axis=1) @ by_step) / spent.sum() if spent.sum() > 0 else by_step.mean()
    return MatchRates(by_part * level, by_step / level, both)
