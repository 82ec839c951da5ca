"""Lags between matching rows, learned from results and turned into scores of basic windows.

A_il is the time of S_i's row in a result minus that of S_l's (GrubJoin s. 4.2.1). Arriving rows of S_i find
S_l's rows at age A_il, so the score of a basic window is the chance that A_il falls into it.

`StreamLags` keeps one histogram for each stream, of A_i1, and takes the others for differences of independent
lags (s. 5.2.2, eq. 1 and 2). `PairLags` keeps one for each pair and assumes nothing. Independence hurts where
the first stream itself is spread: if S_2 and S_3 are exact copies and S_1 comes at any time, A_21 and A_31
are wide but always equal; their difference is 0, yet eq. 2 spreads it over twice their width.

Both must learn from results that are not biased by the harvest itself: those of window shredding. They are
values: adding or fading gives another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from windrow.errors import QueryError
from windrow.kernels import lag_histogram
from windrow.model.harvest import BasicWindows
from windrow.model.stateful import Stateful

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Lags(Stateful, ABC):
    """What both kinds have in common. Lags are in seconds; of row windows, in rows.

    Parameters
    ----------
    sizes
        Of the windows.
    counts
        Weight of the results by histogram and bucket.
    prior
        Weight of results spread evenly over all lags that are assumed beforehand, for each histogram.
    """

    sizes: tuple[float, ...]
    counts: Array
    prior: float = 1.0
    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        counts = np.ascontiguousarray(self.counts, dtype=float)
        if counts.ndim != 2 or counts.shape[0] != len(self._ranges) or not counts.shape[1]:
            raise QueryError(f"lags: {len(self._ranges)} histograms expected, got shape {counts.shape}")
        if not self.prior >= 0:
            raise QueryError(f"lags: a prior must not be negative, got {self.prior}")
        object.__setattr__(self, "counts", counts)

    @classmethod
    def empty(cls, sizes: Sequence[float], buckets: int = 64, prior: float = 1.0) -> Lags:
        """Nothing learned: all lags alike."""
        if buckets < 1:
            raise QueryError(f"lags: buckets must be a number from 1, got {buckets}")
        histograms = len(cls._all_ranges(tuple(sizes)))
        return cls(tuple(float(s) for s in sizes), np.zeros((histograms, buckets)), prior)

    def histograms(self) -> list[tuple[int, int, float, float, Array]]:
        """(i, j, low, high, counts) of each pair of streams that has one: of A_ij, between low and high."""
        return [
            (i, j, low, high, counts)
            for (i, j, low, high), counts in zip(self._ranges, self.counts, strict=True)
            if i != j
        ]

    @property
    def weight(self) -> float:
        """Of the results learned from, as faded as they are."""
        return float(self.counts[0].sum()) if len(self.counts) else 0.0

    def add(self, lags: Array, weights: Array | None = None) -> Lags:
        """With further results.

        Parameters
        ----------
        lags
            By result and stream (r, m): the time of the stream's row, from any origin of the result's own,
            such as the time of its first row.
        weights
            How many results each stands for, when not all were looked for; None for 1 each.
        """
        times = np.asarray(lags, dtype=float)
        if times.ndim != 2 or times.shape[1] != len(self.sizes):
            raise QueryError(f"lags: a column for each of {len(self.sizes)} streams, got {times.shape}")
        each = np.ones(len(times)) if weights is None else np.asarray(weights, dtype=float)
        counts = self.counts.copy()
        for h, (i, j, low, high) in enumerate(self._ranges):
            lag_histogram.add_lags(times[:, i] - times[:, j], each, low, high, counts[h])
        return replace(self, counts=counts)

    def decayed(self, factor: float) -> Lags:
        """With what was learned so far counting less, so that changes are followed."""
        if not 0 <= factor <= 1:
            raise QueryError(f"lags: fading keeps a part of 0..1, got {factor}")
        return replace(self, counts=self.counts * factor)

    def scores(self, windows: BasicWindows, orders: Sequence[Sequence[int]]) -> Array:
        """By direction, hop and basic window (m, m-1, n): p_ij^k, zeros beyond a window's last."""
        m, n = len(self.sizes), max(windows.counts)
        out = np.zeros((m, m - 1, n))
        for i, order in enumerate(orders):
            for j, stream in enumerate(order):
                self._score(i, stream, windows, out[i, j, : windows.counts[stream]])
        return out

    @cached_property
    def _cumulative(self) -> Array:
        """Of each histogram the part of its weight below each edge, the prior included."""
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
        """Of each histogram (i, j, low, high): it is of A_ij, which lies between low and high."""

    @abstractmethod
    def _score(self, i: int, stream: int, windows: BasicWindows, out: Array) -> None:
        """Fills the scores of `stream`'s basic windows for arriving rows of stream i."""

    def _bounds(self, histogram: int) -> tuple[Array, float, float]:
        _, _, low, high = self._ranges[histogram]
        return self._cumulative[histogram], low, (high - low) / self.counts.shape[1]


@dataclass(frozen=True, eq=False)
class StreamLags(Lags):
    """A histogram for each stream, of its lag behind the first stream (s. 5.2.2)."""

    kind = "stream"

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
    """A histogram for each pair of streams: no assumption, m (m - 1) / 2 of them to keep."""

    kind = "pair"

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


KINDS: dict[str, type[Lags]] = {kind.kind: kind for kind in (StreamLags, PairLags)}
