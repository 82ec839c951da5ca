"""Fairness of residence times between streams: Jain's index (iJoin, eq. 4).

A row's lifetime runs from its event time to its eviction, or to the end of its window. Rows still held do not
count yet; a shadow row counts as evicted. Expired rows are those that arrived, less those evicted or held.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windrow.model.stateful import Stateful


class Fairness(Stateful):
    saved = ("_arrivals", "_evicted", "_sum", "_squares")

    def __init__(self, streams: int) -> None:
        self._arrivals = [0] * streams
        self._evicted = [0] * streams
        self._sum = 0.0
        self._squares = 0.0

    def add_arrivals(self, stream: int, rows: int) -> None:
        self._arrivals[stream] += rows

    def add_evicted(self, stream: int, rows: int, seconds: float, squares: float) -> None:
        """So many rows are evicted, with this sum of lifetimes in seconds, and of their squares."""
        self._evicted[stream] += rows
        self._sum += seconds
        self._squares += squares

    def index(self, held: Sequence[int], spans: Sequence[float]) -> float:
        """From 1/n (one row was kept, n were not) to 1 (all were kept equally long).

        `held` is the number of rows held of each stream, `spans` the length of its window in seconds.
        """
        counts = zip(self._arrivals, self._evicted, held, strict=True)
        expired = np.array([arrived - evicted - now for arrived, evicted, now in counts], np.float64)
        ends = np.array(spans)
        n = float(expired.sum()) + sum(self._evicted)
        squares = self._squares + float((expired * ends**2).sum())
        if squares == 0.0:
            return 1.0
        return (self._sum + float((expired * ends).sum())) ** 2 / (n * squares)
