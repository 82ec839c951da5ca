"""The number of rows in complete windows over time. Results cluster in peaks, and a limit binds in peaks.

All arriving rows are counted, kept or not, in cells of a fraction of the window; their sum is the number of
rows in complete windows. A histogram over that number (eight bins per doubling) collects the time and the
results found; it decays over many windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from windrow.model.stateful import Stateful

Array = np.ndarray
CELLS = 64
"""Parts of a window in which arrivals are counted."""
STEPS, DOUBLINGS = 8, 40
"""Bins per doubling, and maximum number of doublings."""
HALF_LIFE = 128.0
"""In windows."""


@dataclass(frozen=True, eq=False)
class WindowContents:
    """Rows that complete windows held, ascending, with the fraction of time and of results at each number."""

    rows: Array
    time: Array
    results: Array

    def scaled(self, by: float) -> WindowContents:
        """In another unit, or for streams that arrive `by` times as fast."""
        return WindowContents(self.rows * by, self.time, self.results)

    def binding_fraction(self, limit: float) -> float:
        """The fraction of time in which complete windows would hold more."""
        return float(self.time[self.rows > limit].sum())


@dataclass
class WindowContentsOverTime(Stateful):
    saved: ClassVar[tuple[str, ...]] = ("_cells", "_begun", "_seconds", "_results", "_limits", "_passed")
    streams: int
    _cells: Array = field(init=False)
    """Arrivals by stream and cell, the newest cell last."""
    _begun: Array = field(init=False)
    """By stream, seconds since its newest cell began."""
    _seconds: Array = field(default_factory=lambda: np.zeros(STEPS * DOUBLINGS))
    _results: Array = field(default_factory=lambda: np.zeros(STEPS * DOUBLINGS))
    _limits: Array = field(default_factory=lambda: np.zeros(2))
    """Results so far, and the sum of the limits they were found under."""
    _passed: float = 0.0
    """Windows since the start. While windows fill for the first time, nothing is recorded."""

    def __post_init__(self) -> None:
        self._cells, self._begun = np.zeros((self.streams, CELLS + 1)), np.zeros(self.streams)

    def on_arrival(self, stream: int, rows: int) -> None:
        self._cells[stream, -1] += rows

    def end_sub_batch(self, seconds: float, spans: Sequence[float], results: float, limit: float) -> None:
        """A sub-batch ends: `seconds` of event time and `results` under this limit; `spans` are the windows
        in seconds."""
        self._limits += results * np.array([1.0, limit])
        held = 0.0
        for stream, span in enumerate(spans):
            self._advance(stream, seconds, span / CELLS)
            cells = self._cells[stream]
            # The oldest cell has left the window by the fraction to which the newest is filled.
            gone = min(1.0, self._begun[stream] * CELLS / span) if span > 0 else 1.0
            held += float(cells.sum() - gone * cells[0])
        passed = seconds / max(*spans, 1e-9)
        self._passed += passed
        if self._passed < 1.0:
            return
        decay = 0.5 ** (passed / HALF_LIFE)
        step = min(int(STEPS * np.log2(max(held, 1.0))), STEPS * DOUBLINGS - 1)
        for sums, new in ((self._seconds, seconds), (self._results, results)):
            sums *= decay
            sums[step] += new

    def _advance(self, stream: int, seconds: float, width: float) -> None:
        self._begun[stream] += seconds
        if width <= 0 or self._begun[stream] < width:
            return
        passed = int(self._begun[stream] / width)
        self._begun[stream] -= passed * width
        cells, kept = self._cells[stream], max(0, CELLS + 1 - passed)
        cells[:kept] = cells[len(cells) - kept :]
        cells[kept:] = 0.0

    @property
    def limit(self) -> float:
        """The limit, averaged over results: on Spark a partition's share changes."""
        return float(self._limits[1] / max(self._limits[0], 1e-300))

    def known(self, faster: float = 1.0) -> WindowContents | None:
        """The histogram, for streams `faster` times as fast; None before the first result."""
        if self._results.sum() <= 0 or self._seconds.sum() <= 0:
            return None
        at = np.flatnonzero((self._seconds > 0) | (self._results > 0))
        rows = faster * 2.0 ** ((at + 0.5) / STEPS)
        return WindowContents(
            rows, self._seconds[at] / self._seconds.sum(), self._results[at] / self._results.sum()
        )
