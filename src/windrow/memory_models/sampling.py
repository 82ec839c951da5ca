"""The memory that a sample of the results takes, and the sampling fraction that fits (Memory s. 4).

UNIFORM selects each result with probability p in advance and keeps a row until the last selected result it
takes part in. A row thus outlives age a with probability 1 - q^(results after a), q = 1 - p. The integral of
that over all ages, times the rate, is the expected memory: Theorems 4.2 and 4.3.

Its variance. Let S(a) be the probability that a row outlives a. Rows live independently of each other, so
given the arrivals the variance is binomial, r ∫ S(1 - S). The arrivals themselves add D r ∫ S², where D is
the variance of the number of arrivals in a long span over its mean (0 for rows at fixed distances, 1 for a
Poisson stream). Together r ∫ S - (1 - D) r ∫ S²: for D = 1 the variance is the mean.

The theorems assume evenly spaced results. If results occur at random, equally often at every age, a row waits
for its last one but never past its window. The memory is then lower on average, and the limit still holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from windrow.errors import QueryError
from windrow.memory_models.age_curve import AgeCurve

Array = np.ndarray


class SampledStream(Protocol):
    """A stream that UNIFORM samples: mean number of rows held, and its variance."""

    def memory(self, fraction: float) -> float: ...

    def variance(self, fraction: float, dispersion: float = 1.0) -> float: ...


def rounded_counts(shares: Array, results: Array) -> tuple[Array, Array]:
    """Shares and results of rows, with integer numbers of results, each rounded up or down at random to keep
    its mean.

    Theorem 4.2 is exact for integers. For a row with, say, 0.6 results it overestimates the memory, since
    such a row is discarded at once in 40 of 100 cases.
    """
    low = np.floor(results)
    up = results - low
    return np.concatenate([shares * (1 - up), shares * up]), np.concatenate([low, low + 1])


@dataclass(frozen=True)
class AgeSample:
    """A stream of the age model."""

    curve: AgeCurve
    rate: float
    """Its age curve, and rows per unit of time."""
    stepwise: bool = False
    """Whether results occur at the ends of the curve's spans, as in discrete time, rather than evenly inside
    them."""

    def __post_init__(self) -> None:
        check_stream(self.rate, self.curve.window)

    def memory(self, fraction: float) -> float:
        """Mean rows held (Theorem 4.3)."""
        spans, survival = self._survival(check_fraction(fraction))
        return float(self.rate * (spans * survival).sum())

    def variance(self, fraction: float, dispersion: float = 1.0) -> float:
        """Variance of the rows held, around `memory`."""
        spans, S = self._survival(check_fraction(fraction))
        return float(self.rate * (spans * (S - (1 - dispersion) * S**2)).sum())

    def _survival(self, p: float) -> tuple[Array, Array]:
        """Spans of age and the probability of outliving each one's start.

        After i of n results a row is still needed with probability 1 - q^(n - i). A fractional number of
        results is rounded at random to keep its mean, as in `rounded_counts`.
        """
        low = int(np.floor(self.curve.n))
        up = self.curve.n - low
        counts = [(n, chance) for n, chance in ((low, 1 - up), (low + 1, up)) if n > 0 and chance > 0]
        result_ages = [self._when(np.arange(1, n + 1) * (self.curve.n / n)) for n, _ in counts]
        corners = np.unique(np.concatenate([[0.0], *result_ages]))
        survival = np.zeros(len(corners) - 1)
        for (n, chance), ages in zip(counts, result_ages, strict=True):
            had = np.searchsorted(ages, corners[:-1], side="right")
            survival += chance * (1 - np.power(1 - p, n - had))
        return np.diff(corners), survival

    def _when(self, results: Array) -> Array:
        if not self.stepwise:
            return self.curve.age_at(results)
        return self.curve.ages[np.searchsorted(self.curve.cumulative, results * (1 - 1e-12), side="left")]


def uniform_fraction(
    streams: Sequence[SampledStream],
    memory: float,
    z: float = 0.0,
    dispersion: float = 1.0,
    bytes_per_row: Sequence[float] | None = None,
) -> float:
    """The sampling fraction, common to all streams, whose memory fits (s. 4.2.2).

    Parameters
    ----------
    streams
        The stored streams, in any model.
    memory
        In bytes, or in rows without `bytes_per_row`.
    z
        Keep mean memory plus z standard deviations within the limit; with 0 the limit holds only on
        average.
    dispersion
        Variance over mean of the number of arrivals in a long span: 1 for a Poisson stream.
    """
    sizes = np.ones(len(streams)) if bytes_per_row is None else np.asarray(bytes_per_row, dtype=float)
    if len(sizes) != len(streams) or not (sizes > 0).all():
        raise QueryError(
            f"sampling: a positive row size for each of {len(streams)} streams, got {bytes_per_row}"
        )
    if not memory >= 0 or not z >= 0 or not dispersion >= 0:
        raise QueryError(
            f"sampling: memory, z and dispersion must not be negative, got {memory}, {z}, {dispersion}"
        )

    def excess(fraction: float) -> float:
        mean = sum(s.memory(fraction) * size for s, size in zip(streams, sizes, strict=True))
        spread = sum(
            s.variance(fraction, dispersion) * size**2 for s, size in zip(streams, sizes, strict=True)
        )
        return float(mean + z * np.sqrt(spread) - memory)

    if excess(1.0) <= 0:
        return 1.0
    if memory == 0:
        return 0.0
    from scipy.optimize import brentq  # imported here because only samples need scipy's optimiser

    return float(brentq(excess, 0.0, 1.0, xtol=1e-12))


def pps_constant(sizes: Array, counts: Array, memory: float) -> float:
    """The constant p of PPS-CLUSTER: a row with n expected results is sampled with probability min(1, p n).

    Solved as if no probability exceeded 1. Rows whose probability does are then certain, and the rest is
    solved again for the remaining memory, until none exceeds 1 (the iterative procedure of s. 4.3.1).

    Parameters
    ----------
    sizes
        Expected results of a row, by class of rows (stream and value).
    counts
        Memory of all rows of the class in a complete window, in the unit of `memory`.
    memory
        Mean limit; pass `mean_within` of it for a margin.
    """
    n, rows = np.asarray(sizes, dtype=float), np.asarray(counts, dtype=float)
    if n.shape != rows.shape or not (n >= 0).all() or not (rows >= 0).all() or not memory >= 0:
        raise QueryError("sampling: sizes, counts (one for each size) and memory must be numbers from 0 up")
    n, rows = n[(n > 0) & (rows > 0)], rows[(n > 0) & (rows > 0)]
    if memory >= rows.sum():
        return float(1 / n.min()) if len(n) else 0.0
    certain = np.zeros(len(n), dtype=bool)
    while True:
        p = (memory - rows[certain].sum()) / (rows * n)[~certain].sum()
        passing = ~certain & (p * n > 1)
        if not passing.any():
            return float(p)
        certain |= passing


def mean_within(memory: float, z: float, row: float = 1.0) -> float:
    """The mean that plus z standard deviations of a Poisson count of rows of size `row` is `memory`."""
    return float((np.sqrt(memory + z * z * row / 4) - z * np.sqrt(row) / 2) ** 2)


def check_fraction(fraction: float) -> float:
    if not 0 <= fraction <= 1:
        raise QueryError(f"sampling: a fraction lies in 0..1, got {fraction}")
    return fraction


def check_stream(rate: float, window: float) -> None:
    if not (rate >= 0 and window >= 0):
        raise QueryError(f"sampling: rate and window must not be negative, got {rate}, {window}")
