"""One step of probing: partial results in, longer partial results out, a bounded batch at a time.

The kernels write into buffers that are used again and again, so that memory for candidates is bounded
whatever the join multiplies to, and no time goes into fresh pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from windrow.engine.bounds import lookup_range
from windrow.engine.partials import Partials
from windrow.kernels import probing
from windrow.model.plan import Step, bound_word
from windrow.model.predicate import Word
from windrow.window.hash_index import mix_words
from windrow.window.window import Window

Array = np.ndarray
CANDIDATES = 1 << 17


class Buffers:
    """Where kernels put the pairs they find. Grows only when one row alone has more matches."""

    def __init__(self, room: int = CANDIDATES) -> None:
        self.probe = np.empty(room, np.int64)
        self.row = np.empty(room, np.int64)

    def grow(self) -> None:
        room = 2 * len(self.probe)
        self.probe, self.row = np.empty(room, np.int64), np.empty(room, np.int64)


class Search:
    """Carries out one step of a direction.

    Parameters
    ----------
    step
        What to look up.
    numbers
        For each stream, which column of its window holds a word.
    """

    def __init__(self, step: Step, numbers: dict[Word, int]) -> None:
        self.step = step
        self.numbers = numbers
        self.compared = 0
        self._buffers = Buffers()

    def run(self, partials: Partials, windows: list[Window], first: int) -> Iterator[tuple[Array, Array]]:
        """Pairs (partial result, row of the step's window at `first` or later), in batches."""
        window = windows[self.step.stream]
        values = [
            windows[w.stream].column(self.numbers[w])[partials.rows[w.stream]]
            for w in (bound_word(c, self.step.stream) for c in self.step.driver)
        ]
        for probe, count in self._probes(partials, window, first, values):
            yield from self._drain(probe, count)

    def _probes(
        self, partials: Partials, window: Window, first: int, values: list[Array]
    ) -> Iterator[tuple[Callable[..., Any], int]]:
        step, ts, span, end = self.step, window.ts, window.time_span, window.end
        bounds = (partials.newest, partials.latest)
        count = len(partials)
        if step.access.path == "hash":
            own = tuple(self.numbers[w] for w in step.indexed)
            index = window.indexes[own]
            keys = mix_words(values)
            yield (
                lambda i, *out: probing.probe_hash(
                    i, keys, *bounds, index.head, index.back, index.keys, ts, first, span, *out
                ),
                count,
            )
            return
        if not step.driver:
            yield (
                lambda i, *out: probing.probe_all(i, *bounds, ts, first, end, window.ordered, span, *out),
                count,
            )
            return
        low, high = lookup_range(step.driver, step.stream, values)
        word = self.numbers[step.indexed[0]]
        if step.access.path == "scan":
            yield (
                lambda i, *out: probing.probe_scan(
                    i, low, high, *bounds, window.column(word), ts, first, end, window.ordered, span, *out
                ),
                count,
            )
            return
        for segment in window.segments:
            run, offset = segment.runs[word], window.offset_of(segment)
            if offset + segment.rows <= first:
                continue
            yield (
                lambda i, *out, run=run, offset=offset: probing.probe_sorted(
                    i, low, high, *bounds, run.keys, run.rows, offset, ts, first, span, *out
                ),
                count,
            )

    def _drain(self, probe: Callable[..., Any], count: int) -> Iterator[tuple[Array, Array]]:
        """Calls a kernel until all probes are through."""
        at = 0
        while at < count:
            stopped, found, compared = probe(at, self._buffers.probe, self._buffers.row)
            self.compared += compared
            if found:
                yield self._buffers.probe[:found], self._buffers.row[:found]
            elif stopped == at:
                self._buffers.grow()
            at = stopped
