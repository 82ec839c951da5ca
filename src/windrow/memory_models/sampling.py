"""The memory that a sample of the results takes, and the sampling fraction that fits (Memory s. 4).

UNIFORM selects each result with probability p in advance and keeps a row until the last selected result it
takes part in. A row thus outlives age a with probability 1 - q^(results after a), q = 1 - p. The integral of
that over all ages, times the rate, is the expected memory: Theorems 4.2 and 4.3. Rows live independently of
each other, so for a Poisson stream the variance of the number of rows held is its mean.

The theorems assume evenly spaced results. If results occur at random, equally often at every age, a row waits
for its last one but never past its window. The memory is then lower on average, and the limit still holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from windrow.memory_models.age_curve import AgeCurve

Array = np.ndarray


def rounded_counts(shares: Array, results: Array) -> tuple[Array, Array]:
    """Shares and results of rows, with integer numbers of results, each rounded up or down at random to keep
    its mean.

    Theorem 4.2 is exact for integers. For a row with, say, 0.6 results it overestimates the memory, since
    such a row is discarded at once in 40 of 100 cases.
    """
    low = np.floor(results)
    up = results - low
    return np.concatenate([shares * (1 - up), shares * up]), np.concatenate([low, low + 1])


def mean_residence(curve: AgeCurve, p: float) -> float:
    """How long a row of the age model stays on average (Theorem 4.3), in the unit of the curve's ages.

    After i of n results a row is still needed with probability 1 - q^(n - i). A fractional number of results
    is rounded at random to keep its mean, as in `rounded_counts`.
    """
    low = int(np.floor(curve.n))
    up = curve.n - low
    counts = [
        (n, probability) for n, probability in ((low, 1 - up), (low + 1, up)) if n > 0 and probability > 0
    ]
    result_ages = [curve.age_at(np.arange(1, n + 1) * (curve.n / n)) for n, _ in counts]
    corners = np.unique(np.concatenate([[0.0], *result_ages]))
    survival = np.zeros(len(corners) - 1)
    for (n, probability), ages in zip(counts, result_ages, strict=True):
        had = np.searchsorted(ages, corners[:-1], side="right")
        survival += probability * (1 - np.power(1 - p, n - had))
    return float((np.diff(corners) * survival).sum())


def uniform_fraction(
    rows: Callable[[float], Sequence[float]], memory: float, z: float, sizes: Sequence[float]
) -> float:
    """The sampling fraction, common to all streams, whose memory fits (s. 4.2.2): the mean memory and z
    standard deviations, for Poisson streams. `rows` maps a sampling fraction to the mean number of rows held
    of each stream, `sizes` is the memory of a row of each."""

    def excess(fraction: float) -> float:
        held = list(zip(rows(fraction), sizes, strict=True))
        mean, variance = sum(n * size for n, size in held), sum(n * size**2 for n, size in held)
        return float(mean + z * np.sqrt(variance) - memory)

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
    taken = (sizes > 0) & (counts > 0)
    n, rows = sizes[taken], counts[taken]
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
