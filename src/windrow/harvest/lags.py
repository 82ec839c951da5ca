"""Lags between matching rows, learned from results and turned into scores of basic windows.

A_il is the time of S_i's row in a result minus that of S_l's (GrubJoin s. 4.2.1). Rows arriving on S_i find
rows of S_l at age A_il, so the score of a basic window is the probability that A_il falls into it.

`StreamLags` keeps one histogram per stream, of A_i1, and treats the other lags as differences of independent
ones (s. 5.2.2, eq. 1 and 2). `PairLags` keeps one per pair and assumes nothing. The assumption of
independence fails if the first stream is spread: if S_2 and S_3 are exact copies and S_1 arrives at random
times, A_21 and A_31 are wide but always equal. Their difference is 0, but eq. 2 spreads it over twice their
width.

Both learn from results of window shredding, which the harvest does not bias. Both are immutable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from windrow.errors import QueryError
from windrow.kernels import lag_histogram
from windrow.model.harvest import BasicWindows
from windrow.model.stateful import Stateful

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Lags(Stateful, ABC):
    """Histograms of lags. Lags are in seconds, or in rows for row windows.

    Parameters
    ----------
    sizes
        Sizes of the windows.
    counts
        Weight of the results by histogram and bucket.
    prior
        Weight of an even distribution over all lags that each histogram starts with.
    """

    sizes: tuple[float, ...]
    counts: Array
    prior: float = 1.0

    def __post_init__(self) -> None:
        counts = np.ascontiguousarray(self.counts, dtype=float)
        if counts.ndim != 2 or counts.shape[0] != len(self._ranges) or not counts.shape[1]:
            raise QueryError(f"expected {len(self._ranges)} histograms of lags, got shape {counts.shape}")
        if not self.prior >= 0:
            raise QueryError(f"a prior must not be negative, got {self.prior}")
        object.__setattr__(self, "counts", counts)

    @classmethod
    def empty(cls, sizes: Sequence[float], buckets: int = 64, prior: float = 1.0) -> Lags:
        """Histograms without results: all lags are equally likely."""
        if buckets < 1:
            raise QueryError(f"buckets must be a number from 1, got {buckets}")
        histograms = len(cls._all_ranges(tuple(sizes)))
        return cls(tuple(float(s) for s in sizes), np.zeros((histograms, buckets)), prior)

    def histograms(self) -> list[tuple[int, int, float, float, Array]]:
        """(i, j, low, high, counts) of each histogram of two streams: A_ij lies between low and high."""
        return [
            (i, j, low, high, counts)
            for (i, j, low, high), counts in zip(self._ranges, self.counts, strict=True)
            if i != j
        ]

    @property
    def weight(self) -> float:
        """Weight of the results, after decay."""
        return float(self.counts[0].sum()) if len(self.counts) else 0.0

    def add(self, lags: Array, weights: Array | None = None) -> Lags:
        """The histograms with further results.

        Parameters
        ----------
        lags
            By result and stream (r, m): the time of the stream's row, relative to any origin that may differ
            between results, such as the time of the first row.
        weights
            The number of results that each represents; None for 1 each.
        """
        times = np.asarray(lags, dtype=float)
        if times.ndim != 2 or times.shape[1] != len(self.sizes):
            raise QueryError(f"expected a column for each of {len(self.sizes)} streams, got {times.shape}")
        weight = np.ones(len(times)) if weights is None else np.asarray(weights, dtype=float)
        counts = self.counts.copy()
        for h, (i, j, low, high) in enumerate(self._ranges):
            lag_histogram.add_lags(times[:, i] - times[:, j], weight, low, high, counts[h])
        return replace(self, counts=counts)

    def decayed(self, factor: float) -> Lags:
        """The histograms with all counts multiplied by `factor`, to follow changes of the streams."""
        if not 0 <= factor <= 1:
            raise QueryError(f"the decay factor lies in 0..1, got {factor}")
        return replace(self, counts=self.counts * factor)

    def scores(self, windows: BasicWindows, orders: Sequence[Sequence[int]]) -> Array:
        """Scores p_ij^k by direction, hop and basic window (m, m-1, n); zeros beyond a window's last."""
        m, n = len(self.sizes), max(windows.counts)
        out = np.zeros((m, m - 1, n))
        for i, order in enumerate(orders):
            for j, stream in enumerate(order):
                self._score(i, stream, windows, out[i, j, : windows.counts[stream]])
        return out

    @cached_property
    def _cumulative(self) -> Array:
        """The fraction of each histogram's weight below each edge, the prior included."""
        histograms, buckets = self.counts.shape
        out = np.empty((histograms, buckets + 1))
        for h in range(histograms):
            lag_histogram.accumulate(self.counts[h] + self.prior / buckets, out[h])
        return out

    @cached_property
    def _ranges(self) -> Sequence[tuple[int, int, float, float]]:
        return self._all_ranges(self.sizes)

    @classmethod
    @abstractmethod
    def _all_ranges(cls, sizes: tuple[float, ...]) -> Sequence[tuple[int, int, float, float]]:
        """(i, j, low, high) of each histogram: A_ij lies between low and high."""

    @abstractmethod
    def _score(self, i: int, stream: int, windows: BasicWindows, out: Array) -> None:
        """Fills `out` with the scores of `stream`'s basic windows for rows arriving on stream i."""

    def _bounds(self, histogram: int) -> tuple[Array, float, float]:
        _, _, low, high = self._ranges[histogram]
        return self._cumulative[histogram], low, (high - low) / self.counts.shape[1]


@dataclass(frozen=True, eq=False)
class StreamLags(Lags):
    """One histogram per stream, of its lag behind the first stream (s. 5.2.2)."""

    @classmethod
    def _all_ranges(cls, sizes: tuple[float, ...]) -> Sequence[tuple[int, int, float, float]]:
        return [(i, 0, -sizes[i], sizes[0]) for i in range(len(sizes))]

    def _score(self, i: int, stream: int, windows: BasicWindows, out: Array) -> None:
        length, size = windows.lengths[stream], windows.sizes[stream]
        if i == 0:  # eq. 1
            lag_histogram.score_one_lag(*self._bounds(stream), -1.0, length, size, out)
        elif stream == 0:  # A_i1 itself
            lag_histogram.score_one_lag(*self._bounds(i), 1.0, length, size, out)
        else:  # eq. 2
            lag_histogram.score_lag_difference(*self._bounds(i), *self._bounds(stream), length, size, out)


@dataclass(frozen=True, eq=False)
class PairLags(Lags):
    """One histogram per pair of streams: m (m - 1) / 2 of them, without an assumption."""

    @classmethod
    def _all_ranges(cls, sizes: tuple[float, ...]) -> Sequence[tuple[int, int, float, float]]:
        m = len(sizes)
        return [(i, j, -sizes[i], sizes[j]) for i in range(m) for j in range(i)]

    def _score(self, i: int, stream: int, windows: BasicWindows, out: Array) -> None:
        older, younger = max(i, stream), min(i, stream)
        histogram = older * (older - 1) // 2 + younger
        sign = 1.0 if i > stream else -1.0
        length, size = windows.lengths[stream], windows.sizes[stream]
        lag_histogram.score_one_lag(*self._bounds(histogram), sign, length, size, out)


KINDS: dict[str, type[Lags]] = {"per stream": StreamLags, "pairwise": PairLags}
"""By the names of `Harvesting.correlations`."""
