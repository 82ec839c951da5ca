"""Response times of one query: mean, 99th percentile and maximum, in little room.

Times fall into buckets a fifth apart, so the percentile is right to within that; mean and maximum are exact.
"""

from __future__ import annotations

import math
from typing import Any

_LEAST = 1e-6
_STEP = math.log(1.2)


class Responses:
    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.most = 0.0
        self._buckets: dict[int, int] = {}

    def add(self, seconds: float, results: int) -> None:
        if results == 0:
            return
        seconds = max(seconds, 0.0)
        self.count += results
        self.total += seconds * results
        self.most = max(self.most, seconds)
        bucket = max(0, math.ceil(math.log(max(seconds, _LEAST) / _LEAST) / _STEP))
        self._buckets[bucket] = self._buckets.get(bucket, 0) + results

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    @property
    def maximum(self) -> float | None:
        return self.most if self.count else None

    def percentile(self, part: float) -> float | None:
        """A time that this part of the results kept to."""
        reached = 0
        for bucket in sorted(self._buckets):
            reached += self._buckets[bucket]
            if reached >= part * self.count:
                return min(self.most, _LEAST * math.exp(bucket * _STEP))
        return None

    def to_json(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "total": self.total,
            "most": self.most,
            "buckets": [[b, n] for b, n in sorted(self._buckets.items())],
        }

    @classmethod
    def load(cls, saved: dict[str, Any]) -> Responses:
        found = cls()
        found.count, found.total, found.most = saved["count"], saved["total"], saved["most"]
        found._buckets = {int(b): int(n) for b, n in saved["buckets"]}
        return found

    def since(self, before: Responses) -> Responses:
        """What was added after `before`; its maximum is that of all, unless nothing was added."""
        found = Responses()
        found.count, found.total = self.count - before.count, self.total - before.total
        found._buckets = {
            b: n - before._buckets.get(b, 0)
            for b, n in self._buckets.items()
            if n > before._buckets.get(b, 0)
        }
        top = max(found._buckets, default=0)
        found.most = min(self.most, _LEAST * math.exp(top * _STEP)) if found.count else 0.0
        return found
