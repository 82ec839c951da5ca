"""Probes a slice of the windows: finds the results that one tier holds and the tier below does not.

Partial matches start *inside*: within the windows of the tier below. Each added row keeps a match inside or
takes it outside, where it stays; matches that are still inside after the last step are discarded. A row's
bounds inside are part of its bounds outside, so two ranges of time, one before and one after, take it
outside. Slices are therefore disjoint and together cover the window, and no result is found twice.

More rows may have arrived since a slice was deferred, so each stream is searched in a range of positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from windrow.engine.index_search import IndexSearch
from windrow.engine.partial_matches import PartialMatches
from windrow.engine.probe import Probe, ProbeRun
from windrow.window.window_store import WindowStore

Array = np.ndarray


@dataclass(frozen=True)
class SliceBounds:
    """Per stream: window sizes of the tier below (None if there is none) and of this tier, and positions."""

    inner: Array | None
    outer: Array
    first: Sequence[int]
    end: Sequence[int]
    inner_floors: Mapping[int, Array] | None = None
    outer_floors: Mapping[int, Array] | None = None
    """Per row window, for each starting row, the time before which its window cannot reach."""


@dataclass(frozen=True)
class _Some:
    """Partial matches, all inside or all outside."""

    rows: Mapping[int, Array]
    newest: Array
    latest: Array
    """Earliest end of their rows' windows on this tier, and on the tier below while inside it."""
    below: Array | None
    origin: Array
    """Index of the starting row of each."""

    def __len__(self) -> int:
        return len(self.newest)

    def extend(
        self, stream: int, ts: Array, which: Array, found: Array, reach: SliceBounds, inside: bool
    ) -> _Some:
        rows = {s: positions[which] for s, positions in self.rows.items()}
        rows[stream] = found.copy()
        below = None
        if inside and self.below is not None and reach.inner is not None:
            below = np.minimum(self.below[which], ts + reach.inner[stream])
        return _Some(
            rows,
            np.maximum(self.newest[which], ts),
            np.minimum(self.latest[which], ts + reach.outer[stream]),
            below,
            self.origin[which],
        )

    def where(self, mask: Array) -> _Some:
        if mask.all():
            return self
        below = None if self.below is None else self.below[mask]
        rows = {s: p[mask] for s, p in self.rows.items()}
        return _Some(rows, self.newest[mask], self.latest[mask], below, self.origin[mask])


class SliceProbe:
    """Executes one direction of a plan, one slice at a time."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.work = 0
        """Rows found by an index and rows scanned. Steps inside an index are not counted: they depend on how
        it has grown, which another process cannot reproduce."""

    def run(self, windows: Sequence[WindowStore], reach: SliceBounds) -> Iterator[PartialMatches]:
        stream = self.probe.direction.order[0]
        rows = np.arange(reach.first[stream], reach.end[stream])
        ts = windows[stream].ts[rows]
        below = None if reach.inner is None else ts + reach.inner[stream]
        start = _Some({stream: rows}, ts, ts + reach.outer[stream], below, np.arange(len(rows)))
        if len(start):
            run = ProbeRun(windows)
            for found in self._expand(start, 0, run, reach):
                yield self.probe.complete(PartialMatches(found.rows), run)

    def _expand(self, some: _Some, level: int, run: ProbeRun, reach: SliceBounds) -> Iterator[_Some]:
        if level == len(self.probe.searches):
            yield some
            return
        search = self.probe.searches[level]
        step, last = search.step, level == len(self.probe.searches) - 1
        ts = run.windows[step.stream].ts
        for low, high, inside in _ranges(some, step.stream, reach, last):
            for which, found in self._search(search, some, run.windows, reach, (low, high)):
                longer = some.extend(step.stream, ts[found], which, found, reach, inside)
                for check in self.probe.checks(step, run):
                    longer = longer.where(check(PartialMatches(longer.rows)))
                if len(longer):
                    yield from self._expand(longer, level + 1, run, reach)

    def _search(
        self,
        search: IndexSearch,
        some: _Some,
        windows: Sequence[WindowStore],
        reach: SliceBounds,
        bounds: tuple[Array, Array],
    ) -> Iterator[tuple[Array, Array]]:
        """Pairs (partial match, row), counting the work."""
        scanned, scans = search.comparisons, search.step.access.path == "scan"
        first, end = reach.first[search.step.stream], reach.end[search.step.stream]
        for which, found in search.run_slice(PartialMatches(some.rows), windows, first, end, bounds):
            self.work += len(which)
            yield which, found
        self.work += search.comparisons - scanned if scans else 0


def _ranges(some: _Some, stream: int, reach: SliceBounds, last: bool) -> Iterator[tuple[Array, Array, bool]]:
    """Time ranges in which a row may join, and whether it leaves partial matches inside."""
    low = _raised(some.newest - reach.outer[stream], reach.outer_floors, stream, some)
    if some.below is None or reach.inner is None:
        yield low, some.latest, False
        return
    near = _raised(some.newest - reach.inner[stream], reach.inner_floors, stream, some)
    if not last:
        yield near, some.below, True
    yield low, np.minimum(some.latest, near - 1), False
    after = np.maximum(some.below + 1, near)
    if (after <= some.latest).any():
        yield np.maximum(low, after), some.latest, False


def _raised(low: Array, floors: Mapping[int, Array] | None, stream: int, some: _Some) -> Array:
    if not floors or stream not in floors:
        return low
    return np.maximum(low, floors[stream][some.origin])
