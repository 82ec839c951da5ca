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
"""Pairs found at a time."""

Kernel = Callable[[Array, Array, Array], tuple[bool, int, int]]


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
        self._out_probe = np.empty(CANDIDATES, np.int64)
        self._out_row = np.empty(CANDIDATES, np.int64)

    def run(self, partials: Partials, windows: list[Window], first: int) -> Iterator[tuple[Array, Array]]:
        """Pairs (partial result, row of the step's window at `first` or later), in batches."""
        window = windows[self.step.stream]
        values = [
            partials.values(w.stream, windows[w.stream].column(self.numbers[w]))
            for w in (bound_word(c, self.step.stream) for c in self.step.driver)
        ]
        for kernel in self._kernels(partials, window, first, values):
            yield from self._drain(kernel)

    def _kernels(
        self, partials: Partials, window: Window, first: int, values: list[Array]
    ) -> Iterator[Kernel]:
        """The kernel calls that cover the window: one, or one per sorted run."""
        step, ts, span, end = self.step, window.ts, window.time_span, window.end
        bounds = (partials.newest, partials.latest)
        if step.access.path == "hash":
            index = window.indexes[tuple(self.numbers[w] for w in step.indexed)]
            table = (index.head, index.back, index.keys)
            yield _bind(probing.probe_hash, mix_words(values), *bounds, *table, ts, first, span)
            return
        extent = (first, end, window.ordered, span)
        if not step.driver:
            yield _bind(probing.probe_all, *bounds, ts, *extent)
            return
        limits = lookup_range(step.driver, step.stream, values)
        word = self.numbers[step.indexed[0]]
        if step.access.path == "scan":
            yield _bind(probing.probe_scan, *limits, *bounds, window.column(word), ts, *extent)
            return
        order = np.argsort(limits[0])
        for segment in window.segments:
            run, offset = segment.runs[word], window.offset_of(segment)
            if offset + segment.rows > first:
                sides = (order, *limits, *bounds, run.keys, run.rows)
                yield _bind(probing.probe_sorted, *sides, offset, ts, first, span)

    def _drain(self, probe: Kernel) -> Iterator[tuple[Array, Array]]:
        """Calls a kernel until all probes are through."""
        state = probing.fresh_state()
        more = True
        while more:
            more, found, compared = probe(state, self._out_probe, self._out_row)
            self.compared += compared
            if found:
                yield self._out_probe[:found], self._out_row[:found]


def _bind(kernel: Any, *arguments: Any) -> Kernel:
    return lambda state, out_probe, out_row: kernel(state, *arguments, out_probe, out_row)
