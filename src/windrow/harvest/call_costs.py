"""What a call costs on this machine: learned from the last calls.

    seconds  =  fixed  +  slope * work

Work is rows admitted, rows compared and results built, each by its usual cost.
Rows, comparisons and results rise and fall together for the most part, so that calls do not tell what each of
them costs; what they do tell is how much a call takes whatever is in it, and how much with its work. What is
fixed is taken to be as before while work does not vary, and is seen as soon as some of it is shed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.kernels.harvest.call_load import fit
from windrow.model.stateful import Stateful

REMEMBERED = 32
"""Calls that are learned from."""
FEW = 4
"""Calls that tell too little for what is fixed to be remembered."""
ROW, COMPARE, RESULT = 1e-7, 5e-9, 3e-8
"""Usual costs, in seconds; of any recent machine within a factor of ten."""
USUALLY_FIXED = 0.05
"""The part of a call's time, to begin with. Rather too little: a call with less work shows what is fixed, but
work that is thought to save nothing is not shed."""
_FADE = 0.9
_RIDGE = 0.01
_UNUSUAL = 0.3
_FOLLOW = 0.3


@dataclass(frozen=True)
class Costs:
    """Seconds of a call: whatever is in it, and for one of each."""

    fixed: float
    row: float
    compare: float
    result: float

    def seconds(self, rows: float, compared: float, built: float) -> float:
        return self.fixed + self.row * rows + self.compare * compared + self.result * built


class CallCosts(Stateful):
    saved = ("_seen", "_fixed", "_slope", "_stale", "_bias", "_first")

    def __init__(self) -> None:
        self._seen: list[tuple[float, float]] = []
        """Seconds and work of calls, the latest last."""
        self._fixed, self._slope = 0.0, 1.0
        self._stale = False
        """Whether calls were added since these were fitted."""
        self._bias = 1.0
        """How much longer than their work explains calls take of late."""
        self._first = True

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, seconds: float, rows: float, compared: float, built: float, follow: bool = True) -> None:
        """A call took so many seconds; if it is to `follow`, the next ones are taken to differ from what work
        explains as it does. The first is left out: it may have waited for compilation."""
        if self._first:
            self._first = False
            return
        if follow and self._seen:
            explained = max(self.fitted.seconds(rows, compared, built) / self._bias, 1e-9)
            self._bias *= (min(2.0, max(0.5, seconds / explained)) / self._bias) ** _FOLLOW
        work = ROW * rows + COMPARE * compared + RESULT * built
        self._seen = [*self._seen[1 - REMEMBERED :], (float(seconds), work)]
        self._stale = True

    @property
    def fitted(self) -> Costs:
        """By what is known now; while nothing is, what is usual."""
        if self._stale:
            seen = np.array(self._seen)
            before = self._fixed, self._slope
            if len(seen) < FEW:
                # The fastest for its work: others may have waited for compilation.
                seconds, work = seen[np.argmin(seen[:, 0] / np.maximum(seen[:, 1], 1e-12))]
                before = USUALLY_FIXED * seconds, (1 - USUALLY_FIXED) * seconds / work if work else 1.0
            self._fixed, self._slope = fit(seen, _FADE, *before, _RIDGE, _UNUSUAL)
            self._stale = False
        slope = self._bias * self._slope
        return Costs(self._bias * self._fixed, slope * ROW, slope * COMPARE, slope * RESULT)
