"""Cost of a call on this machine, learned from the last calls.

    seconds  =  pace * (base + work)

Work is rows admitted, rows compared and results built, each at its usual cost. The three are correlated, so
calls do not show the cost of each. They do show the fixed cost of a call: the base, as an amount of work. It
is the intercept of a resistant line (Tukey), through the medians of the third of the calls with least work
and of the third with most. It keeps its value while work does not vary. The pace is the median of the last
few calls, so it follows the machine within three of them. Medians ignore calls that waited for a compilation
or for another process.

The fixed cost counts for at most four fifths of the time there is, whatever the line says. Planning then
converges on the work that fits even if the fixed cost is wrong: while recent calls take too long, the next
does less, but a wrong line alone never leaves time for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TypeVar

import numpy as np

from windrow.kernels.harvest.call_load import cost_line
from windrow.model.stateful import Stateful

REMEMBERED, RECENT = 32, 5
"""Number of calls that the base and the pace are learned from."""
MOST_FIXED = 0.8
"""Fixed cost as a fraction of the time there is, at most."""
Amount = TypeVar("Amount", float, np.ndarray)
ROW, COMPARE, RESULT = 1e-7, 5e-9, 3e-8
"""Usual costs in seconds; within a factor of ten on any recent machine."""


def work_of(rows: Amount, compared: Amount, built: Amount) -> Amount:
    """Work of a call, or of several."""
    return ROW * rows + COMPARE * compared + RESULT * built


@dataclass(frozen=True)
class Costs:
    """Seconds of a call: fixed, and per row, comparison and result."""

    fixed: float
    row: float
    compare: float
    result: float

    @property
    def pace(self) -> float:
        """Seconds per unit of work."""
        return self.row / ROW

    def seconds(self, rows: float, compared: float, built: float) -> float:
        return self.fixed + self.row * rows + self.compare * compared + self.result * built


USUAL = Costs(0.0, ROW, COMPARE, RESULT)


class CallCosts(Stateful):
    saved = ("seen", "_base", "_first")

    def __init__(self) -> None:
        self.seen = np.empty((0, 2))
        """Seconds and work of calls, the latest last."""
        self._base = -1.0
        """Negative until work has varied."""
        self._first = True

    def __len__(self) -> int:
        return len(self.seen)

    def add(self, seconds: float, rows: float, compared: float, built: float) -> None:
        """Learn from a call. The first is left out: it may have waited for compilation."""
        if self._first:
            self._first = False
            return
        before = self.seen[1 - REMEMBERED :]
        self.seen = np.empty((len(before) + 1, 2))
        self.seen[:-1] = before
        self.seen[-1] = seconds, work_of(rows, compared, built)

    def clear(self) -> None:
        self.seen = self.seen[:0]

    def median(self, calls: int) -> float:
        """Median seconds of the last few."""
        return float(np.median(self.seen[-calls:, 0]))

    def fitted(self, seconds: float = inf) -> Costs:
        """The current estimate of the costs, for a call that has this many seconds; the usual ones before any
        call."""
        if len(self.seen) == 0:
            return USUAL
        most = MOST_FIXED * max(seconds, 1e-9)
        self._base, base, pace = cost_line(self.seen, self._base, RECENT, most)
        return Costs(pace * base, pace * ROW, pace * COMPARE, pace * RESULT)
