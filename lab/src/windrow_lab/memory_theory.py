"""Formulas of the Memory paper that experiments compare the policies with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from windrow.errors import QueryError
from windrow.memory_models.age_curve import AgeCurve, split
from windrow.memory_models.allocation import POINTS, CurveAllocation, RecallCurve, Unit
from windrow.memory_models.sampling import mean_residence, rounded_counts
from windrow_lab.frequency_model import FrequencyModel

Array = np.ndarray


def has_minima(curve: AgeCurve) -> bool:
    """Whether the curve falls and rises again later (s. 3.2.1)."""
    p = np.asarray(curve.rates)
    return bool(((np.maximum.accumulate(p) > p) & (np.maximum.accumulate(p[::-1])[::-1] > p)).any())


def results_by(curve: AgeCurve, age: float | Array) -> Array:
    """Results of a row up to an age."""
    return np.interp(age, curve.ages, curve.cumulative)


def best_retention(curve: AgeCurve) -> float:
    """The age with the most results per time kept (k_opt of s. 3.2.1); the smallest of equals."""
    return float(curve.ages[1:][np.argmax(curve.cumulative[1:] / curve.ages[1:])])


def paper_results(curve: AgeCurve, memory: float | Array, rate: float) -> Array:
    """Results per unit of time from `memory` rows of a stream of `rate` rows (eq. 3).

    Optimal for a curve without minima; otherwise too low.
    """
    if not rate > 0:
        return np.zeros(np.shape(memory))
    M, k_opt = np.asarray(memory, dtype=float), best_retention(curve)
    kept_whole = M * results_by(curve, k_opt) / k_opt
    return np.where(M / rate <= k_opt, kept_whole, rate * results_by(curve, M / rate))


def recall_of_ages(
    curves: Sequence[AgeCurve], rates: Sequence[float], bytes_per_row: Sequence[float] | None = None
) -> RecallCurve:
    """Recall of a join whose streams follow age curves, each amount of memory split optimally."""
    sizes = np.ones(len(curves)) if bytes_per_row is None else np.asarray(bytes_per_row, dtype=float)
    windows = [curve.window for curve in curves]
    whole = float(np.sum(np.multiply(windows, rates) * sizes))
    return _curve(
        lambda memory: split(curves, rates, memory, bytes_per_row).recall,
        np.linspace(0.0, whole, POINTS),
        "rows" if bytes_per_row is None else "bytes",
    )


def recall_of_frequencies(model: FrequencyModel) -> RecallCurve:
    """Recall of a join on a key with known frequencies."""
    levels = model.levels[model.levels < model.whole]
    thinned = levels[:: len(levels) // POINTS + 1]
    amounts = np.concatenate([thinned, np.linspace(0.0, model.whole, POINTS)])
    unit: Unit = "rows" if model.bytes_per_row is None else "bytes"
    return _curve(lambda memory: model.keep(memory).recall, amounts, unit)


def _curve(recall: Callable[[float], float], amounts: Array, unit: Unit) -> RecallCurve:
    amounts = np.unique(amounts)
    found = np.array([recall(float(each)) for each in amounts])
    return RecallCurve(amounts, np.minimum(np.maximum.accumulate(found), 1.0), unit)


def proportional(curves: Sequence[RecallCurve], memory: float) -> CurveAllocation:
    """Give each join the same fraction of its full demand (PROP, s. 6.2.5)."""
    whole = np.array([curve.memory[-1] for curve in curves])
    given = whole * min(1.0, memory / whole.sum()) if whole.sum() > 0 else whole
    return CurveAllocation.of(curves, given)


@dataclass(frozen=True, eq=False)
class FrequencySample:
    """Rows that UNIFORM holds of a stream of the frequency model, its results spread evenly over the window.

    Parameters
    ----------
    rate, window
        Rows per unit of time, and units of time.
    shares
        Fraction of the stream's rows that have each value (f_1).
    results
        Expected results of a row of each value: r_2 W_1 f_2 for two streams (eq. 1).
    """

    rate: float
    window: float
    shares: Array
    results: Array

    def __post_init__(self) -> None:
        shares, results = np.asarray(self.shares, dtype=float), np.asarray(self.results, dtype=float)
        if shares.shape != results.shape or shares.ndim != 1:
            raise QueryError(
                f"sampling: one number of results for each value, got {results.shape} for {shares.shape}"
            )
        if not (shares >= 0).all() or not (results >= 0).all() or not np.isfinite(results).all():
            raise QueryError("sampling: shares and results of the values must be numbers from 0 up")
        if not (self.rate >= 0 and self.window >= 0):
            raise QueryError(
                f"sampling: rate and window must not be negative, got {self.rate}, {self.window}"
            )
        object.__setattr__(self, "shares", shares)
        object.__setattr__(self, "results", results)

    def rounded(self) -> FrequencySample:
        """The same with integer numbers of results; see `rounded_counts`."""
        return FrequencySample(self.rate, self.window, *rounded_counts(self.shares, self.results))

    def memory(self, fraction: float) -> float:
        """Mean rows held (Theorem 4.2)."""
        p, n = fraction, np.maximum(self.results, 1e-300)
        if p == 0:
            return 0.0
        q = 1 - p
        stay = np.where(self.results > 0, 1 - q * (1 - np.power(q, n)) / (p * n), 0.0)
        return float(self.rate * self.window * (self.shares * stay).sum())


@dataclass(frozen=True)
class AgeSample:
    """Rows that UNIFORM holds of a stream of the age model."""

    curve: AgeCurve
    rate: float
    """Rows per unit of time."""

    def memory(self, fraction: float) -> float:
        """Mean rows held (Theorem 4.3)."""
        return self.rate * mean_residence(self.curve, fraction)
