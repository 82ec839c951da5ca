"""Learning an age curve: how many results a stored row brings at each age.

Counted are results of watched rows by the age at which they came, and the time watched rows spent at each
age; their ratio is the curve. Both fade with event time, so the curve follows the stream. Where the counts do
not tell the curve from a flat one it is drawn towards the flat one, by as much as chance explains (empirical
Bayes), so that noise is not taken for a shape.

With more than two streams a row's results are those it takes part in as things are, whatever is kept of the
other streams: what keeping it is worth, the others given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from windrow.planning.age import AgeCurve

Array = np.ndarray


class LearnedCurve:
    """Of one stream.

    Parameters
    ----------
    buckets
        Equal parts of the window.
    half_life
        In windows.
    """

    def __init__(self, buckets: int, half_life: float) -> None:
        self._half_life = half_life
        self._matches = np.zeros(buckets)
        self._squares = 0.0
        self._spent = np.zeros(buckets)
        self._rows = 0.0
        self._passed = 0.0
        """Windows, faded: what `_rows` is counted over."""
        self._span = 1.0

    def found(self, ages: Array, weights: Array) -> None:
        """Watched rows found something at these ages, in seconds; each stands for as many as its weight."""
        at = (ages / self._span * len(self._matches)).astype(np.int64)
        at = np.clip(at, 0, len(self._matches) - 1)
        self._matches += np.bincount(at, weights, len(self._matches))
        self._squares += float((weights**2).sum())

    def lived(self, ages: Array, weights: Array, seconds: float, span: float) -> None:
        """Watched rows have come to these ages while so much time passed."""
        self._span = span
        self._fade(seconds)
        edges = np.linspace(0.0, span, len(self._spent) + 1)
        order = np.argsort(ages)
        upto, counted = np.minimum(ages[order], span), weights[order]
        before = np.maximum(upto - seconds, 0.0)
        self._spent += np.diff(_time_below(edges, before, counted) - _time_below(edges, upto, counted))

    def came(self, rows: int) -> None:
        """Rows of the stream that arrived, watched or not."""
        self._rows += rows

    @property
    def rate(self) -> float:
        """Rows per second, lately."""
        return self._rows / max(self._passed * self._span, 1e-9)

    def curve(self) -> AgeCurve:
        """Results of a row in each part of its window."""
        width = self._span / len(self._matches)
        return AgeCurve(tuple(self.rates() * width), width)

    def rates(self) -> Array:
        """Results per second of a row in each part of its window."""
        matches, spent = self._matches, self._spent
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

    def _fade(self, seconds: float) -> None:
        windows = seconds / max(self._span, 1e-9)
        by = 0.5 ** (windows / self._half_life)
        self._matches *= by
        self._squares *= by
        self._spent *= by
        self._rows *= by
        self._passed = self._passed * by + windows

    def save(self) -> tuple[dict[str, Any], pa.RecordBatch]:
        plain = {"rows": self._rows, "passed": self._passed, "span": self._span, "squares": self._squares}
        return plain, pa.record_batch({"matches": self._matches, "spent": self._spent})

    def load(self, plain: dict[str, Any], part: pa.RecordBatch) -> None:
        self._rows, self._passed, self._span = plain["rows"], plain["passed"], plain["span"]
        self._squares = plain["squares"]
        self._matches = part.column("matches").to_numpy().copy()
        self._spent = part.column("spent").to_numpy().copy()


def _time_below(edges: Array, ages: Array, weights: Array) -> Array:
    """Sum over ascending `ages` of weight x (edge - age), where that is positive, for each edge."""
    count = np.searchsorted(ages, edges, side="left")
    rows = np.concatenate(([0.0], np.cumsum(weights)))[count]
    return edges * rows - np.concatenate(([0.0], np.cumsum(weights * ages)))[count]
