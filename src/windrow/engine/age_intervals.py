"""Age intervals a row probes, where an age is how much older the stored row is than the probing one.

Without ages a complete window is looked at. With them, each interval narrows the time bounds that a partial
result has anyway, so kernels need not know of it. Where a look-up costs the same however narrow the bounds
are, as through a hash table, all intervals are looked up at once and what lies between them is left out
afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
FOREVER = 1 << 61


@dataclass(frozen=True)
class AgeIntervals:
    """Disjoint intervals of age in microseconds, ascending: low <= age < high, the same for all probing rows
    or, where `low` and `high` are arrays, with an entry for each."""

    intervals: tuple[tuple[int | Array, int | Array], ...]

    @classmethod
    def sampled(cls, share: float, period: int, youngest: int, oldest: int, offsets: Array) -> AgeIntervals:
        """An even sample: of every `period` of ages this share, beginning at a place of its own for each
        probing row (`offsets` in 0..1), over all ages from `youngest` to `oldest`. So every age has the same
        chance to be looked at."""
        begin = np.floor(offsets * period).astype(np.int64)
        length = max(1, round(share * period))
        first, last = youngest // period - 1, oldest // period
        return cls(tuple((k * period + begin, k * period + begin + length) for k in range(first, last + 1)))

    def narrowed(self, oldest: Array, latest: Array, anchor: Array) -> Iterator[tuple[Array, Array]]:
        """The time bounds of each interval, inside the given ones; `anchor` are the probing rows' times."""
        for low, high in self.intervals:
            yield np.maximum(oldest, anchor - high + 1), np.minimum(latest, anchor - low)

    def hull(self, oldest: Array, latest: Array, anchor: Array) -> tuple[Array, Array]:
        """The time bounds of all intervals together."""
        low, high = self.intervals[0][0], self.intervals[-1][1]
        return np.maximum(oldest, anchor - high + 1), np.minimum(latest, anchor - low)

    def contains(self, age: Array) -> Array:
        """Mask of the ages that lie in an interval. Only of intervals that are the same for all."""
        inside = np.zeros(len(age), bool)
        for low, high in self.intervals:
            inside |= (age >= low) & (age < high)
        return inside
