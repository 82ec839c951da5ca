"""Age intervals that a row probes. The age is how much older the stored row is than the probing one.

Without intervals the whole window is probed. With them, a partial match is looked up once per interval, with
narrower time bounds, so kernels need no special case. Where a lookup costs the same for any bounds, as in a
hash table, one lookup covers all intervals and the rows between them are filtered out afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from windrow.engine.index_search import IndexSearch
from windrow.engine.partial_matches import PartialMatches
from windrow.model.units import SECOND

Array = np.ndarray
FOREVER = 1 << 61


@dataclass(frozen=True)
class AgeIntervals:
    """Disjoint intervals of age in microseconds, ascending: low <= age < high. They hold for all probing
    rows; if `low` and `high` are arrays, they have one entry per probing row."""

    intervals: tuple[tuple[int | Array, int | Array], ...]

    @classmethod
    def sampled(cls, share: float, period: int, youngest: int, oldest: int, offsets: Array) -> AgeIntervals:
        """An even sample: this share of every `period` of ages from `youngest` to `oldest`, shifted for each
        probing row by its offset in 0..1. Every age has the same probability of being probed."""
        begin = np.floor(offsets * period).astype(np.int64)
        length = max(1, round(share * period))
        first, last = youngest // period - 1, oldest // period
        return cls(tuple((k * period + begin, k * period + begin + length) for k in range(first, last + 1)))

    @classmethod
    def of_seconds(cls, ages: Sequence[tuple[float, float]], size: float) -> AgeIntervals:
        """Convert ages in seconds, (low, high], of a window of this size. An interval that reaches the end of
        the window also includes everything older."""
        return cls(
            tuple(
                (
                    -FOREVER if low == -np.inf else round(low * SECOND) + 1,
                    FOREVER if high >= size else round(high * SECOND) + 1,
                )
                for low, high in ages
            )
        )

    def __len__(self) -> int:
        return len(self.intervals)

    def search(
        self,
        search: IndexSearch,
        partials: PartialMatches,
        bounds: tuple[Array, Array],
        anchor: Array,
        first: int,
    ) -> Iterator[tuple[Array, Array]]:
        """Like `IndexSearch.run`, for rows older than `anchor`, the times of the arriving rows, by an age in
        the intervals."""
        if len(self) == 0:
            return
        if search.step.access.path != "hash":
            # One call for all intervals: with few rows, a call takes longer than its search.
            yield from search.run(partials, self.narrowed(*bounds, anchor), first)
            return
        # A hash chain is followed to its end for any bounds, so look up once.
        for which, found in search.run(partials, self.hull(*bounds, anchor), first):
            inside = self.contains(anchor[which] - search.window.ts[found])
            yield which[inside], found[inside]

    def narrowed(self, oldest: Array, latest: Array, anchor: Array) -> tuple[Array, Array]:
        """Time bounds within the given ones, of all partial matches in the first interval, then of all in the
        second, and so on; `anchor` holds the probing rows' times."""
        lows, highs = (np.array(ends).reshape(len(self), -1) for ends in zip(*self.intervals, strict=True))
        return np.maximum(oldest, anchor - highs + 1).ravel(), np.minimum(latest, anchor - lows).ravel()

    def hull(self, oldest: Array, latest: Array, anchor: Array) -> tuple[Array, Array]:
        """Time bounds that cover all intervals."""
        low, high = self.intervals[0][0], self.intervals[-1][1]
        return np.maximum(oldest, anchor - high + 1), np.minimum(latest, anchor - low)

    def contains(self, age: Array) -> Array:
        """Mask of the ages inside an interval. Only for intervals that are the same for all rows."""
        inside = np.zeros(len(age), bool)
        for low, high in self.intervals:
            inside |= (age >= low) & (age < high)
        return inside
