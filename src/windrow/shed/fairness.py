"""How equal the times are for which rows were kept: Jain's index (iJoin, eq. 4).

A row's lifetime runs from its own time to the moment the policy gives it up, or to the end of its window.
Rows still held do not count yet; a watched row that was given up counts as gone, though it stays to be
watched. What has expired is not reported by anyone: it is what came, less what was given up and is held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class Fairness:
    def __init__(self, streams: int) -> None:
        self._came = [0] * streams
        self._given_up = [0] * streams
        self._sum = 0.0
        self._squares = 0.0

    def came(self, stream: int, rows: int) -> None:
        self._came[stream] += rows

    def give_up(self, stream: int, rows: int, seconds: float, squares: float) -> None:
        """So many rows go for lack of memory; their lifetimes in seconds add up to so much, and so do the
        squares of these."""
        self._given_up[stream] += rows
        self._sum += seconds
        self._squares += squares

    def index(self, held: Sequence[int], spans: Sequence[float]) -> float:
        """From 1/n (one row was kept, n were not) to 1 (all were kept equally long).

        So many rows are `held` of each stream, and may be for as many seconds as `spans` says.
        """
        counts = zip(self._came, self._given_up, held, strict=True)
        expired = np.array([came - given_up - now for came, given_up, now in counts], np.float64)
        ends = np.array(spans)
        n = float(expired.sum()) + sum(self._given_up)
        squares = self._squares + float((expired * ends**2).sum())
        if squares == 0.0:
            return 1.0
        return (self._sum + float((expired * ends).sum())) ** 2 / (n * squares)

    def save(self) -> dict[str, Any]:
        return {
            "came": self._came,
            "given_up": self._given_up,
            "sums": [self._sum, self._squares],
        }

    def load(self, plain: dict[str, Any]) -> None:
        self._came, self._given_up = list(plain["came"]), list(plain["given_up"])
        self._sum, self._squares = plain["sums"]
