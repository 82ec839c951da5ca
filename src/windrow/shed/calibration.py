"""How much a score tells: what rows of a score really found, against what was expected without it.

Scores are told apart on a scale of halvings around their mean. For each step of the scale the results of
watched rows are counted, and the results that were expected of them from their age alone; the ratio says how
much more than others such rows find. A score that tells nothing gets ratios near 1, whatever it claims.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

Array = np.ndarray
STEPS_PER_HALVING = 2
REACH = 12
"""Halvings on either side of the mean."""
PRIOR = 2.0
"""Rows' worth of results at ratio 1 that every step begins with."""


class Calibration:
    """Of one stream."""

    def __init__(self) -> None:
        steps = 2 * REACH * STEPS_PER_HALVING + 1
        self._found = np.zeros(steps)
        self._expected = np.zeros(steps)
        self._score = 0.0
        self._weight = 0.0

    def found(self, scores: Array, weights: Array) -> None:
        """Watched rows with these scores found something."""
        self._found += np.bincount(self._steps(scores), weights, len(self._found))

    def expected(self, scores: Array, weights: Array, results: Array) -> None:
        """So much was expected of watched rows with these scores."""
        self._score += float((weights * scores).sum())
        self._weight += float(weights.sum())
        self._expected += np.bincount(self._steps(scores), weights * results, len(self._expected))

    def ratios(self, scores: Array) -> Array:
        """How much more than others rows of these scores find."""
        prior = PRIOR * max(1.0, self._found.sum() / max(self._weight, 1e-9))
        ratio = (self._found + prior) / (self._expected + prior)
        return np.interp(self._scale(scores), np.arange(len(ratio)), ratio)

    def fade(self, by: float) -> None:
        for counted in (self._found, self._expected):
            counted *= by
        self._score *= by
        self._weight *= by

    def _scale(self, scores: Array) -> Array:
        mean = self._score / self._weight if self._score > 0 else 1.0
        halvings = np.log2(np.maximum(scores / mean, 0.5**REACH))
        return (np.clip(halvings, -REACH, REACH) + REACH) * STEPS_PER_HALVING

    def _steps(self, scores: Array) -> Array:
        return np.rint(self._scale(scores)).astype(np.int64)

    def save(self) -> tuple[dict[str, Any], pa.RecordBatch]:
        counted = pa.record_batch({"found": self._found, "expected": self._expected})
        return {"score": self._score, "weight": self._weight}, counted

    def load(self, plain: dict[str, Any], part: pa.RecordBatch) -> None:
        self._score, self._weight = plain["score"], plain["weight"]
        self._found = part.column("found").to_numpy().copy()
        self._expected = part.column("expected").to_numpy().copy()
