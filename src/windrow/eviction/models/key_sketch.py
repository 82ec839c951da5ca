"""Decayed arrival rates of values per second of event time, in bounded memory."""

from __future__ import annotations

import numpy as np

from windrow.kernels import count_min_sketch
from windrow.model.stateful import Stateful

Array = np.ndarray
ROWS = 3
SMALLEST_UNIT = 1e-6


class DecayedTime(Stateful):
    """Event time that passed, with older time counting less: the measure rates are taken over."""

    saved = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0

    def advance(self, seconds: float, half_life: float, counted: float | None = None) -> float:
        """So much time passes, of which the last `counted` seconds count (None: all); returns by how much
        everything counted so far shrinks."""
        fade = 0.5 ** (seconds / half_life)
        # The integral of the fading weight over the time that counts.
        over = fade if counted is None else 0.5 ** (min(counted, seconds) / half_life)
        self.seconds = self.seconds * fade + (1 - over) * half_life / np.log(2)
        return float(fade)


class CountSketch(Stateful):
    """Counts of values of any kind, as words.

    Cells do not fade one by one: they are in a unit that grows as what was counted fades, so that newer
    counts weigh more.
    """

    saved = ("_cells", "total", "_unit")

    def __init__(self, width: int) -> None:
        self._cells = np.zeros((ROWS, width))
        self.total = 0.0
        self._unit = 1.0

    def add(self, words: Array, amount: float = 1.0) -> None:
        count_min_sketch.add(self._cells, words.view(np.int64), amount / self._unit)
        self.total += amount * len(words)

    def estimate(self, words: Array) -> Array:
        """The count of each word."""
        out = np.ones(len(words))
        self.multiply(words, 1.0, out)
        return out

    def multiply(self, words: Array, times: float, out: Array) -> None:
        """Multiplies `out` by `times` the count of each word."""
        total = self.total / self._unit
        count_min_sketch.estimate(self._cells, total, words.view(np.int64), times * self._unit, out)

    def fade(self, by: float) -> None:
        self.total *= by
        self._unit *= by
        if self._unit < SMALLEST_UNIT:
            self._cells *= self._unit
            self._unit = 1.0
