"""Probing a slice: the results that one rung of the ladder holds and the rung below does not.

Partial results start *inside*: within the windows of the rung below. A row that joins one keeps it inside, or
takes it outside; once outside it stays so, and inside ones are let go at the last step. As a row's bounds
inside are part of its bounds outside, what takes it outside are two ranges of time, one before and one after.
So slices are disjoint, together they are the whole window, and no result is found twice.

Later rows may have come since a slice was put off: each stream is searched in a range of positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from windrow.engine.bounds import lookup_range
from windrow.engine.partials import Partials
from windrow.engine.probe import Probe
from windrow.engine.search import CANDIDATES, Kernel, Search, _bind
from windrow.kernels import probing, slicing
from windrow.model.plan import bound_word
from windrow.window.hash_index import mix_words
from windrow.window.window import Window

Array = np.ndarray


@dataclass(frozen=True)
class Reach:
    """Per stream: window sizes of the rung below (None: there is none) and of this one, and positions."""

    inner: Array | None
    outer: Array
    first: Sequence[int]
    end: Sequence[int]


@dataclass(frozen=True)
class _Some:
    """Partial results, all inside or all outside."""

    rows: Mapping[int, Array]
    newest: Array
    latest: Array
    """Earliest end of their rows' windows on this rung, and on the one below while they are inside it."""
    below: Array | None

    def __len__(self) -> int:
        return len(self.newest)

    def extend(
        self, stream: int, ts: Array, which: Array, found: Array, reach: Reach, inside: bool
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
        )

    def where(self, mask: Array) -> _Some:
        if mask.all():
            return self
        below = None if self.below is None else self.below[mask]
        return _Some({s: p[mask] for s, p in self.rows.items()}, self.newest[mask], self.latest[mask], below)


class SlicedProbe:
    """Carries out one direction of a plan, a slice at a time."""

    def __init__(self, probe: Probe, numbers: Mapping[object, int]) -> None:
        self.probe = probe
        self.searches: list[Search] = probe.searches
        self._out = (np.empty(CANDIDATES, np.int64), np.empty(CANDIDATES, np.int64))

    def run(self, windows: list[Window], reach: Reach) -> Iterator[Partials]:
        stream = self.probe.direction.order[0]
        rows = np.arange(reach.first[stream], reach.end[stream])
        ts = windows[stream].ts[rows]
        below = None if reach.inner is None else ts + reach.inner[stream]
        start = _Some({stream: rows}, ts, ts + reach.outer[stream], below)
        if len(start):
            for found in self._expand(start, 0, windows, reach):
                yield Partials(found.rows)

    def _expand(self, some: _Some, level: int, windows: list[Window], reach: Reach) -> Iterator[_Some]:
        if level == len(self.searches):
            yield some
            return
        search = self.searches[level]
        step, last = search.step, level == len(self.searches) - 1
        window = windows[step.stream]
        for low, high, inside in _ranges(some, step.stream, reach, last):
            for which, found in self._search(search, some, windows, reach, low, high):
                longer = some.extend(step.stream, window.ts[found], which, found, reach, inside)
                for mask in self.probe.checks(step, lambda: Partials(longer.rows), windows):  # noqa: B023
                    longer = longer.where(mask)
                if len(longer):
                    yield from self._expand(longer, level + 1, windows, reach)

    def _search(
        self, search: Search, some: _Some, windows: list[Window], reach: Reach, low: Array, high: Array
    ) -> Iterator[tuple[Array, Array]]:
        stream = search.step.stream
        end = reach.end[stream]
        for kernel in _kernels(search, some, windows, reach, low, high):
            for which, found in search.drain(kernel):
                if search.step.access.path == "sorted" and len(found):
                    kept = found < end
                    which, found = which[kept], found[kept]
                yield which, found


def _ranges(some: _Some, stream: int, reach: Reach, last: bool) -> Iterator[tuple[Array, Array, bool]]:
    """Times at which a row may join, and whether it leaves partial results inside."""
    low = some.newest - reach.outer[stream]
    if some.below is None or reach.inner is None:
        yield low, some.latest, False
        return
    near = some.newest - reach.inner[stream]
    if not last:
        yield near, some.below, True
    yield low, np.minimum(some.latest, near - 1), False
    after = some.below + 1
    if (after <= some.latest).any():
        yield np.maximum(low, after), some.latest, False


def _kernels(
    search: Search, some: _Some, windows: list[Window], reach: Reach, low: Array, high: Array
) -> Iterator[Kernel]:
    """As `Search`, with a range of times of its own for each partial result: with a span of 0 the kernels take
    `newest` for the earliest time."""
    step, window = search.step, windows[search.step.stream]
    first, end, ts = reach.first[step.stream], reach.end[step.stream], window.ts
    words = [bound_word(c, step.stream) for c in step.driver]
    values = [windows[w.stream].column(search.numbers[w])[some.rows[w.stream]] for w in words]
    if step.access.path == "hash":
        index = window.indexes[tuple(search.numbers[w] for w in step.indexed)]
        table = (index.head, index.back, index.keys)
        sides = (mix_words(values), low, high, *table)
        yield _bind(slicing.probe_hash_slice, *sides, ts, first, end, window.ordered)
        return
    extent = (first, end, window.ordered, 0)
    if not step.driver:
        yield _bind(probing.probe_all, low, high, ts, *extent)
        return
    limits = lookup_range(step.driver, step.stream, values)
    word = search.numbers[step.indexed[0]]
    if step.access.path == "scan":
        yield _bind(probing.probe_scan, *limits, low, high, window.column(word), ts, *extent)
        return
    order = np.argsort(limits[0])
    for segment in window.segments:
        run, offset = segment.runs[word], window.offset_of(segment)
        if offset + segment.rows > first and offset < end:
            sides = (order, *limits, low, high, run.keys, run.rows)
            yield _bind(probing.probe_sorted, *sides, offset, ts, first, 0)
