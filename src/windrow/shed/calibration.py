"""What rows find, by age and by a score: results per second of being held, learned from all rows held.

Rows fall into steps of the score (one a doubling) and parts of their window. For each step and part the
results found there and the time rows spent there are counted. Which rows are held depends on score and age
alone, so rows of one step and part are alike whether the policy kept them or they are only watched, and all
of them teach (as deaths are counted against those at risk).

The rate of a step and part is

    mean  x  (how much more this part finds)  x  (how much more this step finds)  x  (what the two leave out)

each factor drawn towards 1 by as much as chance explains (empirical Bayes). Where ages do not matter the
first is 1, where the score tells nothing the second, where both act separately the third.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.planning.age import AgeCurve

Array = np.ndarray
REACH = 12
"""Doublings on either side of a middling score that are told apart."""
PRIOR = 1.0
"""Results at ratio 1 that every count begins with."""
ROUNDS = 6
REFITS = 100
"""Times in a window that the rates are fitted anew, at most."""


@dataclass(frozen=True, eq=False)
class Rates:
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
        window begins and where it ends. By step and part."""
        steps, parts = self.whole.shape
        C = np.concatenate([np.zeros((steps, 1)), np.cumsum(self.whole, axis=1)], axis=1)
        i, j = np.triu_indices(parts + 1, 1)
        best = np.maximum.reduceat(
            (C[:, j] - C[:, i]) / (j - i), np.flatnonzero(np.diff(i, prepend=-1)), axis=1
        )
        following = np.concatenate([best[:, 1:], np.zeros((steps, 1))], axis=1)
        return best, np.maximum(self.whole, following)


class Calibration:
    """Of one stream.

    Parameters
    ----------
    buckets
        Equal parts of the window.
    half_life
        In windows.
    scored
        Whether rows have scores at all.
    """

    def __init__(self, buckets: int, half_life: float, scored: bool) -> None:
        self._half_life = half_life
        self._steps = 2 * REACH + 1 if scored else 1
        self._buckets = buckets
        self._found = np.zeros((self._steps, buckets))
        self._spent = np.zeros((self._steps, buckets))
        self._middle = 0.0
        self._span = 1.0
        self._came = np.zeros(self._steps)
        self._passed = 0.0
        """Windows, faded: what `_came` is counted over."""
        self._fitted: Rates | None = None
        self._aged = 0.0
        """Seconds since the rates were fitted."""

    # -- learning -----------------------------------------------------------------------------------

    def came(self, scores: Array) -> None:
        """Rows of these scores arrived."""
        self._came += np.bincount(self._step(scores), minlength=self._steps)

    def found(self, scores: Array, ages: Array) -> None:
        """Rows of these scores found a result each at these ages."""
        part = np.clip(ages / self._span * self._buckets, 0, self._buckets - 1).astype(np.int64)
        cell = self._step(scores) * self._buckets + part
        self._found += np.bincount(cell, minlength=self._found.size).reshape(self._found.shape)

    def lived(self, scores: Array, ages: Array, seconds: float, span: float) -> None:
        """Rows of these scores have come to these ages while so much time passed."""
        self._span = span
        self._fade(seconds)
        self._aged += seconds
        if self._aged * REFITS > span:
            self._fitted, self._aged = None, 0.0
        self._follow(scores)
        step = self._step(scores)
        upto = np.clip(ages, 0.0, span)
        before = np.clip(ages - seconds, 0.0, upto)
        self._spent += np.maximum(self._time_below(step, before) - self._time_below(step, upto), 0.0)

    @property
    def rate(self) -> float:
        """Rows per second, lately."""
        return float(self._came.sum()) / max(self._passed * self._span, 1e-9)

    def _fade(self, seconds: float) -> None:
        windows = seconds / max(self._span, 1e-9)
        by = 0.5 ** (windows / self._half_life)
        for counted in (self._found, self._spent, self._came):
            counted *= by
        self._passed = self._passed * by + windows

    def _follow(self, scores: Array) -> None:
        """Moves the scale by whole steps when the scores have left its middle."""
        positive = scores[scores > 0]
        if self._steps == 1 or not len(positive):
            return
        median = float(np.median(positive[:: len(positive) // 1000 + 1]))
        self._middle = self._middle or median
        moved = np.rint(np.log2(median / self._middle))
        if abs(moved) > REACH // 2:
            self._middle *= 2.0**moved
            self._fitted = None
            step = np.clip(np.arange(self._steps) - moved, 0, self._steps - 1).astype(np.int64)
            for counted in (self._found, self._spent, self._came):
                before = counted.copy()
                counted[:] = 0.0
                np.add.at(counted, step, before)

    def _place(self, scores: Array) -> Array:
        """On the scale of steps."""
        if self._steps == 1 or self._middle == 0.0:
            return np.zeros(len(scores))
        return np.clip(np.log2(np.maximum(scores / self._middle, 0.5**REACH)), -REACH, REACH) + REACH

    def _step(self, scores: Array) -> Array:
        return np.rint(self._place(scores)).astype(np.int64)

    def _time_below(self, step: Array, ages: Array) -> Array:
        """By step and part: the sum over rows of (end of the part - age), no more than the part's length."""
        width = self._span / self._buckets
        part = np.minimum((ages / width).astype(np.int64), self._buckets)
        cell, shape = step * (self._buckets + 1) + part, (self._steps, self._buckets + 1)
        rows = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
        left = (part + 1) * width - ages
        inside = np.bincount(cell, left, shape[0] * shape[1]).reshape(shape)
        younger = np.cumsum(rows, axis=1) - rows
        return (inside + younger * width)[:, :-1]

    # -- what it tells ------------------------------------------------------------------------------

    def rates(self) -> Rates:
        if self._fitted is None:
            self._fitted = fit(self._found, self._spent)
        return self._fitted

    def groups(self) -> tuple[Array, Array]:
        """By step: how much more than others its rows find, and the part of the arriving rows in it."""
        return self.rates().by_step, self._came / max(float(self._came.sum()), 1e-300)

    def priority(self, scores: Array, ages: Array) -> Array:
        """The fastest rate at which rows can still bring results, on the curve of their step."""
        rates = self.rates()
        width = self._span / self._buckets
        start, end = rates.priorities
        place = np.clip(ages / width, 0.0, np.nextafter(self._buckets, 0))
        part, step = place.astype(np.int64), self._step(scores)
        rank = start[step, part] + (place - part) * (end - start)[step, part]
        # Between steps the score goes on telling rows apart.
        rank *= np.interp(self._place(scores), np.arange(self._steps), rates.by_step) / rates.by_step[step]
        # Of rows that are worth the same the oldest stay: so all ages are seen, and their worth is learned.
        return np.where(ages < self._span, rank * (1 + 1e-9 * place), 0.0)

    def curve(self) -> AgeCurve:
        """Results of a row in each part of its window, whatever its score."""
        width = self._span / self._buckets
        return AgeCurve(tuple(self.rates().by_part * width), width)

    # -- over a restart -----------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], pa.RecordBatch]:
        fitted = self._fitted
        plain = {
            "middle": self._middle,
            "span": self._span,
            "came": self._came.tolist(),
            "passed": self._passed,
            "aged": self._aged,
            "fitted": None if fitted is None else [fitted.by_part.tolist(), fitted.by_step.tolist()],
        }
        by_cell = {
            "found": self._found,
            "spent": self._spent,
            "both": np.zeros(self._found.shape) if fitted is None else fitted.both,
        }
        return plain, pa.record_batch({name: values.ravel() for name, values in by_cell.items()})

    def load(self, plain: dict[str, Any], part: pa.RecordBatch) -> None:
        self._middle, self._span = plain["middle"], plain["span"]
        self._came = np.array(plain["came"])
        self._passed, self._aged = plain["passed"], plain["aged"]
        cells = (part.column(k).to_numpy().reshape(self._found.shape).copy() for k in range(3))
        self._found, self._spent, both = cells
        fitted = plain["fitted"]
        self._fitted = None if fitted is None else Rates(np.array(fitted[0]), np.array(fitted[1]), both)


def fit(found: Array, spent: Array) -> Rates:
    """The rates behind these counts."""
    steps, parts = found.shape
    results, time = found.sum(), spent.sum()
    if results <= 0 or time <= 0:
        return Rates(np.full(parts, 1e-9), np.ones(steps), np.ones(found.shape))
    mean, by_part, by_step = results / time, np.ones(parts), np.ones(steps)
    for _ in range(ROUNDS if steps > 1 else 1):
        by_part = _ratio(found.sum(axis=0), mean * (spent * by_step[:, np.newaxis]).sum(axis=0))
        if steps > 1:
            by_step = _ratio(found.sum(axis=1), mean * (spent * by_part).sum(axis=1))
    mean = results / (spent * by_part * by_step[:, np.newaxis]).sum()
    both = np.ones(found.shape)
    if steps > 1:
        expected = mean * spent * by_part * by_step[:, np.newaxis]
        both = _ratio(found, expected, steps + parts - 1)
        seen = np.flatnonzero(spent.sum(axis=1) > 0)
        by_step = np.interp(np.arange(steps), seen, by_step[seen])
    return Rates(mean * by_part, by_step, both)


def _ratio(found: Array, expected: Array, known: int = 1) -> Array:
    """found / expected, drawn towards 1; `known` of the numbers could be chosen to make the sums agree."""
    expected = expected * (found.sum() / max(expected.sum(), 1e-300))
    seen = expected > 0
    ratio = np.where(seen, (found + PRIOR) / (expected + PRIOR), 1.0)
    chi2 = float(((found[seen] - expected[seen]) ** 2 / np.maximum(expected[seen], 0.1)).sum())
    free = max(int(seen.sum()) - known, 0)
    real = max(0.0, 1.0 - free / chi2) if chi2 > 0 else 0.0
    return 1 + real * (ratio - 1)
