"""Response times of one query in bounded memory: mean, 99th percentile and maximum.

Times fall into buckets 20 % apart, so the percentile is accurate to that; mean and maximum are exact.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from windrow.model.stateful import Stateful

_LEAST = 1e-6
_STEP = math.log(1.2)


class ResponseTimes(Stateful):
    saved = ("count", "total", "max_seconds", "_buckets")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.max_seconds = 0.0
        self._buckets: dict[int, int] = {}

    def add(self, seconds: float, results: int) -> None:
        """Add results with the same response time."""
        if results == 0:
            return
        seconds = max(seconds, 0.0)
        self.count += results
        self.total += seconds * results
        self.max_seconds = max(self.max_seconds, seconds)
        bucket = _bucket(seconds)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + results

    @classmethod
    def of(cls, seconds: np.ndarray) -> ResponseTimes:
        """Results with response times of their own, ascending."""
        found = cls()
        if len(seconds) == 0:
            return found
        found.count, found.total = len(seconds), float(seconds.sum())
        found.max_seconds = float(seconds[-1])
        # Ascending times go from bucket to bucket at these edges.
        first, last = _bucket(float(seconds[0])), _bucket(found.max_seconds)
        edges = [_LEAST * math.exp(bucket * _STEP) for bucket in range(first, last)]
        ends = [0, *seconds.searchsorted(edges, side="right").tolist(), len(seconds)]
        found._buckets = {first + k: b - a for k, (a, b) in enumerate(pairwise(ends)) if b > a}
        return found

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    @property
    def maximum(self) -> float | None:
        return self.max_seconds if self.count else None

    def percentile(self, part: float) -> float | None:
        """Response time within which this fraction of results was delivered."""
        reached = 0
        for bucket in sorted(self._buckets):
            reached += self._buckets[bucket]
            if reached >= part * self.count:
                return min(self.max_seconds, _LEAST * math.exp(bucket * _STEP))
        return None

    def metrics(self) -> dict[str, Any]:
        """Those of `QueryCounts` that follow from response times."""
        p99 = self.percentile(0.99)
        times = {"response_mean": self.mean, "response_p99": p99, "response_max": self.maximum}
        return {"results": self.count, **times}

    def merge(self, other: ResponseTimes) -> None:
        """Add the response times of another partition."""
        self.count += other.count
        self.total += other.total
        self.max_seconds = max(self.max_seconds, other.max_seconds)
        for bucket, results in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + results

    def since(self, before: ResponseTimes) -> ResponseTimes:
        """Response times added after `before`; their maximum is accurate to a bucket."""
        found = ResponseTimes()
        found.count, found.total = self.count - before.count, self.total - before.total
        found._buckets = {
            b: n - before._buckets.get(b, 0)
            for b, n in self._buckets.items()
            if n > before._buckets.get(b, 0)
        }
        top = max(found._buckets, default=0)
        found.max_seconds = min(self.max_seconds, _LEAST * math.exp(top * _STEP)) if found.count else 0.0
        return found


def _bucket(seconds: float) -> int:
    return max(0, math.ceil(math.log(max(seconds, _LEAST) / _LEAST) / _STEP))
