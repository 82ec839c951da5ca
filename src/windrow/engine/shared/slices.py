"""A slice of the windows: the results that one tier holds and the tier below does not.

Partial matches start *inside*: within the windows of the tier below. Each added row keeps a match inside or
takes it outside, where it stays; matches that are still inside after the last step are discarded. A row's
bounds inside are part of its bounds outside, so two ranges of time, one before and one after, take it
outside. Slices are therefore disjoint and together cover the window, and no result is found twice.

More rows may have arrived since a slice was deferred, so each stream is searched in a range of positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from windrow.engine.index_search import IndexSearch
from windrow.engine.partial_matches import PartialMatches
from windrow.model.plan import Direction
from windrow.window.window_store import WindowStore

Array = np.ndarray


@dataclass(frozen=True)
class Tier:
    """Window lengths in time, by stream, and for each row window and starting row the time before which the
    window cannot reach."""

    spans: Array
    floors: Mapping[int, Array]

    def oldest(self, stream: int, partials: PartialMatches) -> Array:
        """The oldest time at which a row of the stream may join each partial match."""
        assert partials.newest is not None
        low = partials.newest - self.spans[stream]
        return np.maximum(low, self.floors[stream][partials.origin]) if stream in self.floors else low


@dataclass
class Slice:
    """The scope of a probe: this tier without the one below, if there is one."""

    below: Tier | None
    tier: Tier
    first: Sequence[int]
    end: Sequence[int]
    """Positions to search, by stream."""
    work: int = 0
    """Rows found by an index and rows scanned. Steps inside an index are not counted: they depend on how it
    has grown, which another process cannot reproduce."""

    def start(self, stream: int, window: WindowStore) -> PartialMatches:
        """Partial matches of the rows that a probe starts with."""
        rows = np.arange(self.first[stream], self.end[stream])
        ts = window.ts[rows]
        below = None if self.below is None else ts + self.below.spans[stream]
        origin, latest = np.arange(len(rows)), ts + self.tier.spans[stream]
        return PartialMatches({stream: rows}, ts, latest, below=below, origin=origin)

    def extended(
        self, partials: PartialMatches, search: IndexSearch, direction: Direction, level: int
    ) -> Iterator[PartialMatches]:
        stream, scans = search.step.stream, search.step.access.path == "scan"
        first, end, last = self.first[stream], self.end[stream], level == len(direction.steps) - 1
        for low, high, inside in self._ranges(partials, stream, search.window, last):
            compared = search.comparisons
            for which, found in search.run(partials, (low, high), first, end):
                self.work += len(which)
                ts = search.window.ts[found]
                longer = partials.extend(stream, which, found, None if last else ts, self.tier.spans[stream])
                if inside and self.below is not None and partials.below is not None:
                    below = np.minimum(partials.below[which], ts + self.below.spans[stream])
                    longer = replace(longer, below=below)
                yield longer
            self.work += search.comparisons - compared if scans else 0

    def _ranges(
        self, partials: PartialMatches, stream: int, window: WindowStore, last: bool
    ) -> Iterator[tuple[Array, Array, bool]]:
        """Time ranges in which a row may join, and whether it leaves partial matches inside."""
        assert partials.latest is not None
        low = self.tier.oldest(stream, partials)
        if partials.below is None or self.below is None:
            yield low, partials.latest, False
            return
        near = self.below.oldest(stream, partials)
        if not last:
            yield near, partials.below, True
        yield low, np.minimum(partials.latest, near - 1), False
        after = np.maximum(partials.below + 1, near)
        # Rows that arrive in order find none after themselves.
        newest = window.ts[self.end[stream] - 1] if window.ordered and self.end[stream] else None
        if (after <= (partials.latest if newest is None else np.minimum(partials.latest, newest))).any():
            yield np.maximum(low, after), partials.latest, False
