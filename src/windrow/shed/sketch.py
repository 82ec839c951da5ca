"""How often values come, per second of event time, in bounded memory and with older rows counting less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from windrow.kernels import sketch

Array = np.ndarray
ROWS = 3
SMALLEST_UNIT = 1e-6


class Passed:
    """Event time that passed, with older time counting less: the measure rates are taken over."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def go(self, seconds: float, half_life: float, counted: float | None = None) -> float:
        """So much time passes, of which the last `counted` seconds count (None: all); returns by how much
        everything counted so far shrinks."""
        fade = 0.5 ** (seconds / half_life)
        # The integral of the fading weight over the time that counts.
        over = fade if counted is None else 0.5 ** (min(counted, seconds) / half_life)
        self.seconds = self.seconds * fade + (1 - over) * half_life / np.log(2)
        return float(fade)


class CountSketch:
    """Counts of values of any kind, as words.

    Cells do not fade one by one: they are in a unit that grows as what was counted fades, so that newer
    counts weigh more.
    """

    def __init__(self, width: int) -> None:
        self._cells = np.zeros((ROWS, width))
        self.total = 0.0
        self._unit = 1.0

    def add(self, words: Array, amount: float = 1.0) -> None:
        sketch.add(self._cells, words.view(np.int64), amount / self._unit)
        self.total += amount * len(words)

    def estimate(self, words: Array) -> Array:
        """The count of each word."""
        out = np.ones(len(words))
        self.multiply(words, 1.0, out)
        return out

    def multiply(self, words: Array, times: float, out: Array) -> None:
        """Multiplies `out` by `times` the count of each word."""
        total = self.total / self._unit
        sketch.estimate(self._cells, total, words.view(np.int64), times * self._unit, out)

    def fade(self, by: float) -> None:
        self.total *= by
        self._unit *= by
        if self._unit < SMALLEST_UNIT:
            self._cells *= self._unit
            self._unit = 1.0

    def save(self) -> tuple[dict[str, Any], pa.RecordBatch]:
        cells = pa.record_batch({"cells": self._cells.ravel()})
        return {"total": self.total, "unit": self._unit, "width": self._cells.shape[1]}, cells

    @classmethod
    def load(cls, plain: dict[str, Any], part: pa.RecordBatch) -> CountSketch:
        made = cls(plain["width"])
        made._cells[:] = part.column(0).to_numpy().reshape(made._cells.shape)
        made.total, made._unit = plain["total"], plain["unit"]
        return made
