"""One step of a probe: extends partial matches by one window, in bounded batches.

Kernels write into buffers that are reused, one pair per thread. Memory for candidates is therefore bounded,
however many there are, and no time is lost on new pages.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from windrow.engine.conditions import lookup_range
from windrow.engine.partial_matches import PartialMatches
from windrow.kernels import inverted_index, probe_index, probe_scan
from windrow.model.plan import Step, bound_column
from windrow.model.predicate import SetSimilarity
from windrow.window.hash_index import mix_columns
from windrow.window.segment import Segment
from windrow.window.window_store import WindowStore

Array = np.ndarray
CANDIDATES = 1 << 17
"""Pairs found per batch."""

Kernel = Callable[[Array, Array, Array], tuple[bool, int, int]]


class _Candidates(threading.local):
    """Each thread's buffers for the pairs that a kernel finds."""

    def __init__(self) -> None:
        self.probe = np.empty(CANDIDATES, np.int64)
        self.row = np.empty(CANDIDATES, np.int64)


class IndexSearch:
    """Executes one step of a direction."""

    def __init__(self, step: Step, windows: Sequence[WindowStore]) -> None:
        self.step = step
        self.windows = windows
        self.window = windows[step.stream]
        self.comparisons = 0
        self.counted = 0
        """Rows scanned, or pairs found by an index. Unlike comparisons they do not depend on how often a hash
        table has grown in this process."""
        self._scans = step.access.path == "scan" or not step.driver
        self._looked_up = [bound_column(c, step.stream) for c in step.driver]
        self._index = tuple(w.name for w in step.indexed)
        self._candidates = _Candidates()
        self._counting = threading.Lock()

    def run(
        self, partials: PartialMatches, bounds: tuple[Array, Array], first: int, end: int | None = None
    ) -> Iterator[tuple[Array, Array]]:
        """Pairs (partial match, row of the step's window inside its time bounds), in batches. Only rows at
        positions from `first` to before `end`, if given. There may be several time bounds for each partial
        match: those of all in a first interval, then those of all in a second, and so on."""
        count = len(partials)
        if count == 0 or (end is not None and first >= end):
            return
        values, copies = self._bound(partials), len(bounds[0]) // count
        if copies > 1:
            values = [np.tile(column, copies) for column in values]
        for kernel in self._kernels(bounds, first, values, end):
            for which, found in self._drain(kernel):
                if end is not None and end < self.window.end:
                    before = found < end
                    which, found = which[before], found[before]
                yield which % count if copies > 1 else which, found

    def _bound(self, partials: PartialMatches) -> list[Array]:
        """Values to look up: a column per driving condition, or the positions of rows with sets."""
        columns = self._looked_up
        if self.step.access.path == "inverted":
            return [partials.rows[columns[0].stream]]
        return [partials.values(w.stream, self.windows[w.stream].column(w.name)) for w in columns]

    def _kernels(
        self, bounds: tuple[Array, Array], first: int, values: list[Array], end: int | None
    ) -> Iterator[Kernel]:
        """Kernel calls for lookups with these time bounds: one, or one per segment. Scans and lookups by hash
        stop before position `end`."""
        step, window, ts = self.step, self.window, self.window.ts
        extent = (first, window.end if end is None else end, window.ordered)
        if step.access.path == "inverted":
            yield from self._inverted(bounds, first, values[0])
            return
        if step.access.path == "hash":
            index = window.indexes[self._index]
            sides = (mix_columns(values), *bounds, index.head, index.back, index.keys, ts)
            # Bounds are narrow only in a slice. Elsewhere it takes longer to read the time of every row of a
            # chain.
            by_time = True if end is not None and window.ordered else None
            yield _bind(probe_index.probe_hash, *sides, *extent[:2], by_time)
            return
        if not step.driver:
            yield _bind(probe_scan.probe_all, *bounds, ts, *extent)
            return
        ranges = [c for c in step.driver if not isinstance(c, SetSimilarity)]
        limits = lookup_range(ranges, step.stream, values)
        name = step.indexed[0].name
        if step.access.path == "scan":
            yield _bind(probe_scan.probe_scan, *limits, *bounds, window.column(name), ts, *extent)
            return
        # By ascending keys, so that each search in a run goes on near where the one before ended.
        order = np.argsort(limits[0])
        for segment in _segments(window, first, bounds):
            run, offset = segment.runs[name], window.offset_of(segment)
            sides = (order, *limits, *bounds, run.keys, run.rows)
            yield _bind(probe_index.probe_sorted, *sides, offset, ts, first)

    def _inverted(self, bounds: tuple[Array, Array], first: int, bound: Array) -> Iterator[Kernel]:
        """Lookups in each segment's postings inside the time bounds, for the sets of the bound rows."""
        similarity, window = self.step.driver[0], self.window
        assert isinstance(similarity, SetSimilarity)
        column = bound_column(similarity, self.step.stream)
        sets = self.windows[column.stream].sets(column.name, bound)
        share = float(similarity.threshold) if similarity.measure == "jaccard" else -1.0
        enough = (similarity.at_least, share, similarity.strict)
        name = self.step.indexed[0].name
        # Shared by all segments: each lookup resets the counts it changes.
        longest = max((s.rows for s in window.segments), default=0)
        space = (np.zeros(longest, np.int32), np.empty(longest, np.int32))
        for segment in _segments(window, first, bounds):
            sides = (sets, *bounds, segment.sets[name], window.offset_of(segment), window.ts)
            yield _bind(inverted_index.probe_inverted, *sides, first, window.ordered, enough, space)

    def _drain(self, probe: Kernel) -> Iterator[tuple[Array, Array]]:
        """Call a kernel until it has finished all probes."""
        state, out = probe_index.fresh_state(), self._candidates
        more = True
        while more:
            more, found, compared = probe(state, out.probe, out.row)
            with self._counting:
                self.comparisons += compared
                self.counted += compared if self._scans else found
            if found:
                yield out.probe[:found], out.row[:found]


def _segments(window: WindowStore, first: int, bounds: tuple[Array, Array]) -> list[Segment]:
    """Segments with rows from position `first` on inside the time bounds of any probe."""
    earliest, latest = int(bounds[0].min()), int(bounds[1].max())
    return [
        s
        for s in window.segments
        if window.offset_of(s) + s.rows > first and s.newest >= earliest and s.oldest <= latest
    ]


def _bind(kernel: Any, *arguments: Any) -> Kernel:
    return lambda state, out_probe, out_row: kernel(state, *arguments, out_probe, out_row)
