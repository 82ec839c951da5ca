"""Whether calls shed load: until exact ones are late, and again once they would not be.

One slow call proves nothing: it may have waited for a compilation or for another process. The fewer exact
calls are looked at, the further most of them must exceed the deadline. A deadline that they meet with a fifth
to spare then holds through noise, and one they miss by far is recognised after two calls. Without noise, four
calls that take equally long suffice.

From then on calls shed until several in a row would have been in time: one small call proves nothing either.
Now and then exact calls are tried again. Where windows are scanned each call is judged on its own: what is
shed there is shed for one call, so a mistake costs little.
"""

from __future__ import annotations

import numpy as np

from windrow.harvest.call_costs import RECENT, CallCosts, Costs
from windrow.kernels.harvest.call_load import mostly_exceed
from windrow.model.stateful import Stateful

Array = np.ndarray
EVIDENCE = np.array([(2, 3.0), (4, 1.5), (8, 1.4), (12, 1.2), (32, 1.05)])
"""Last exact calls, and the multiple of the deadline that most of them must exceed."""
ON_TRIAL = np.array([(2, 1.0)])
"""The same for calls that are exact on trial."""
IN_SCANS = np.array([(5, 1.0)])
"""The same where windows are scanned."""
MOST_SCALED = 3.0
"""Multiple of its work that an earlier call may stand for: what a few rows took says little about thousands.
In scans, where comparisons grow with the square of the rows, any."""
IN_TIME = 5
"""Calls in a row that would be in time before calls are exact again without a trial."""
RETRY, RETRY_BELOW = (48, 512), 2.0
"""Calls that shed before exact ones are tried again, twice as many after each trial that fails. Exact calls
that took less than twice the deadline may have been slow by chance, and in short calls shedding itself may
take the time that would be left."""


class Overload(Stateful):
    saved = ("exact", "cold", "_calls", "_overloaded", "_in_time", "_on_trial", "_retry_at", "_patience")

    def __init__(self) -> None:
        self.exact = CallCosts()
        """The last exact calls."""
        self.cold = True
        """Whether no call has shed since calls were exact. The first is slow: its code is not in caches."""
        self._calls = 0
        self._overloaded = False
        self._in_time = 0
        self._on_trial = False
        self._retry_at, self._patience = 0, RETRY[0]
        """Call at which exact calls are tried again, and the calls until the next trial."""

    def sheds(self, seconds: float, predicted: float, costs: Costs, scans: bool) -> bool:
        """Whether the next call sheds load, if it has this many seconds and would take `predicted` if exact,
        by the costs of calls."""
        self._calls += 1
        late = predicted > seconds
        if scans:
            known = len(self.exact) >= IN_SCANS[0, 0]
            return late and (not known or self._exceed(seconds, predicted, costs, IN_SCANS, np.inf))
        if self._overloaded:
            self._on_trial = self._calls >= self._retry_at
            self._in_time = 0 if late else self._in_time + 1
            self._overloaded = not self._on_trial and self._in_time < IN_TIME
            return late and not self._on_trial
        if not self._exceed(seconds, predicted, costs, ON_TRIAL if self._on_trial else EVIDENCE, MOST_SCALED):
            self._on_trial &= len(self.exact) < ON_TRIAL[0, 0]
            return False
        self._patience = min(2 * self._patience, RETRY[1]) if self._on_trial else RETRY[0]
        by_chance = self.exact.median(RECENT) < RETRY_BELOW * seconds
        self._retry_at = self._calls + (self._patience if by_chance else RETRY[1])
        self._overloaded, self._on_trial, self._in_time, self.cold = True, False, 0, True
        self.exact.clear()
        return True

    def _exceed(self, seconds: float, predicted: float, costs: Costs, evidence: Array, most: float) -> bool:
        """Whether most of the last exact calls, scaled to the work of one that is predicted to take
        `predicted`, exceed the time."""
        seen = self.exact.seen
        return bool(mostly_exceed(seen, costs.fixed, costs.pace, predicted, seconds, evidence, most))
