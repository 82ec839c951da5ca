"""Whether exact calls take longer than the deadline, by what the last ones took.

One slow call proves nothing: it may have waited for a compilation or for another process. The fewer calls are
looked at, the further most of them must exceed the deadline. A deadline that exact calls meet with a fifth to
spare then holds through noise, and one they miss by far is recognised after two calls. Without noise, four
calls that take equally long suffice.
"""

from __future__ import annotations

import numpy as np

from windrow.harvest.call_costs import Costs, work_of
from windrow.kernels.harvest.call_load import mostly_exceed
from windrow.model.stateful import Stateful

EVIDENCE = np.array([(2, 3.0), (4, 1.5), (8, 1.4), (12, 1.2), (32, 1.05)])
"""Last exact calls, and the multiple of the deadline that most of them must exceed."""
ON_TRIAL = np.array([(2, 1.0)])
"""The same for calls that are exact on trial."""
IN_SCANS = np.array([(5, 1.0)])
"""The same where windows are scanned: what is shed there is shed for one call, so a mistake costs little."""
MOST_SCALED = 3.0
"""Multiple of its work that an earlier call may stand for: what a few rows took says little about thousands.
In scans, where comparisons grow with the square of the rows, any."""
REMEMBERED = int(EVIDENCE[-1, 0])


class ExactCalls(Stateful):
    saved = ("_seen",)

    def __init__(self) -> None:
        self._seen = np.empty((0, 2))
        """Seconds and work of exact calls, the latest last."""

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, seconds: float, rows: float, compared: float, built: float) -> None:
        self._seen = np.vstack((self._seen[1 - REMEMBERED :], (seconds, work_of(rows, compared, built))))

    def clear(self) -> None:
        self._seen = self._seen[:0]

    @property
    def median(self) -> float:
        """Median seconds of the last few."""
        return float(np.median(self._seen[-5:, 0]))

    def miss(self, seconds: float, predicted: float, costs: Costs, evidence: np.ndarray = EVIDENCE) -> bool:
        """Whether an exact call that `costs` predicts to take `predicted` exceeds `seconds`, judging by how
        the last exact calls compare with what `costs` predicts for them."""
        most = np.inf if evidence is IN_SCANS else MOST_SCALED
        return bool(mostly_exceed(self._seen, costs.fixed, costs.pace, predicted, seconds, evidence, most))
