"""Learns an age curve: the results a stored row yields at each age.

Counted are results of monitored rows by the age at which they came, and the time monitored rows spent at each
age; their ratio is the curve. Both fade with event time, so the curve follows the stream. Where the counts do
not tell the curve from a flat one it is drawn towards the flat one, by as much as chance explains (empirical
Bayes), so that noise is not taken for a shape.

With more than two streams a row's results are those it takes part in as things are, whatever is kept of the
other streams: what keeping it is worth, the others given.
"""

from __future__ import annotations

import numpy as np

from windrow.kernels import rate_histogram
from windrow.memory_models.age_curve import AgeCurve
from windrow.model.stateful import Stateful

Array = np.ndarray
REFIT = 8
"""The curve is drawn anew when one in so many of the results is new."""
REFITS = 2
"""Times in a window that it is drawn anew at least."""
_NONE = np.empty(0, np.int64)
"""Scores: here rows have none."""


class AgeCurveEstimator(Stateful):
    """Of one stream.

    Parameters
    ----------
    buckets
        Equal parts of the window.
    half_life
        In windows.
    """

    saved = ("_matches", "_squares", "_exposure", "_rows", "_elapsed", "_span", "_drawn", "_fresh", "_aged")

    def __init__(self, buckets: int, half_life: float) -> None:
        self._half_life = half_life
        self._matches = np.zeros(buckets)
        self._squares = 0.0
        self._exposure = np.zeros(buckets)
        self._rows = 0.0
        self._elapsed = 0.0
        """Windows, faded: what `_rows` is counted over."""
        self._span = 1.0
        self._drawn: AgeCurve | None = None
        self._fresh = 0.0
        """Results that came since the curve was drawn."""
        self._aged = 0.0
        """Seconds since then."""

    def add_results(self, ages: Array, weights: Array) -> None:
        """Monitored rows found something at these ages, in seconds; each stands for as many as its weight."""
        at = (ages / self._span * len(self._matches)).astype(np.int64)
        at = np.clip(at, 0, len(self._matches) - 1)
        self._matches += np.bincount(at, weights, len(self._matches))
        self._squares += float((weights**2).sum())
        self._fresh += float(weights.sum())

    def add_results_by(self, rows: Array, ts: Array, times: Array, stored: Array, each: float) -> None:
        """These rows of those with times `ts` found a result each at `times`, where `stored`; each stands for
        so many."""
        scale = (0, 0, self._span, float(each))
        matches = self._matches[np.newaxis]
        count = rate_histogram.count_results(rows, times, stored, ts, _NONE, *scale, matches)
        self._squares += each * count
        self._fresh += count

    def add_exposure(
        self, ts: Array, weights: Array, now: int, seconds: float, passed: float, span: float
    ) -> None:
        """Rows of these times were held for the last `seconds`, and stand for as many as their weights;
        `passed` is how long ago rows last were."""
        self._span = span
        self._fade(passed, seconds)
        rate_histogram.add_exposure(ts, _NONE, weights, now, seconds, 0, 0, span, self._exposure[np.newaxis])
        self._aged += passed
        if self._fresh * REFIT >= self._matches.sum() or self._aged * REFITS >= span:
            self._drawn = None

    def add_arrivals(self, rows: int) -> None:
        """Rows of the stream that arrived, watched or not."""
        self._rows += rows

    @property
    def rate(self) -> float:
        """Rows per second, lately."""
        return self._rows / max(self._elapsed * self._span, 1e-9)

    def curve(self) -> AgeCurve:
        """Results of a row in each part of its window."""
        if self._drawn is None:
            width = self._span / len(self._matches)
            self._drawn = AgeCurve(tuple(self.rates() * width), width)
            self._fresh = self._aged = 0.0
        return self._drawn

    def rates(self) -> Array:
        """Results per second of a row in each part of its window."""
        matches, spent = self._matches, self._exposure
        total = spent.sum()
        if total <= 0 or matches.sum() <= 0:
            return np.full(len(matches), 1e-9)
        mean = matches.sum() / total
        known = spent > 0
        expected = mean * spent[known]
        raw = np.full(len(matches), mean)
        raw[known] = matches[known] / spent[known]
        # A match counts for as many as its row stands for, and varies as much more.
        chi2 = float(((matches[known] - expected) ** 2 / expected).sum() * matches.sum() / self._squares)
        real = max(0.0, 1 - (known.sum() - 1) / chi2) if chi2 > 0 else 0.0
        return real * raw + (1 - real) * mean

    def _fade(self, passed: float, seconds: float) -> None:
        by = 0.5 ** (passed / max(self._span, 1e-9) / self._half_life)
        self._matches *= by
        self._squares *= by
        self._exposure *= by
        self._rows *= by
        self._fresh *= by
        self._elapsed = self._elapsed * by + seconds / max(self._span, 1e-9)
