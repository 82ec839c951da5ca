"""Whether exact calls take longer than the deadline, by what the last ones took.

One slow call proves nothing: it may have waited for a compilation or for another process. The fewer calls are
looked at, the further most of them must exceed the deadline. A deadline that exact calls meet with a fifth to
spare then holds through noise, and one they miss by far is recognised after two calls.
"""

from __future__ import annotations

from statistics import median_low

from windrow.harvest.call_costs import Costs
from windrow.model.stateful import Stateful

EVIDENCE = ((2, 3.0), (4, 2.0), (8, 1.4), (16, 1.15), (32, 1.05))
"""Last exact calls, and the multiple of the deadline that most of them must exceed."""
REMEMBERED = EVIDENCE[-1][0]


class ExactCalls(Stateful):
    saved = ("_seen",)

    def __init__(self) -> None:
        self._seen: list[tuple[float, float, float, float]] = []
        """Seconds, rows, comparisons and results of exact calls, the latest last."""

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, seconds: float, rows: float, compared: float, built: float) -> None:
        self._seen = [*self._seen[1 - REMEMBERED :], (seconds, rows, compared, built)]

    def clear(self) -> None:
        self._seen = []

    def miss(self, seconds: float, predicted: float, costs: Costs) -> bool:
        """Whether an exact call that `costs` predicts to take `predicted` exceeds `seconds`, judging by how
        the last exact calls compare with what `costs` predicts for them."""
        ratios = [took * predicted / costs.seconds(*amounts) for took, *amounts in self._seen]
        return any(
            len(ratios) >= calls and median_low(ratios[-calls:]) > factor * seconds
            for calls, factor in EVIDENCE
        )
