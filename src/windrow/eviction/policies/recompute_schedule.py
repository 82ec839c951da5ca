"""When residence priorities are recomputed (iJoin, section 4.8), per stream.

Successive: at every load-shedding decision. k-successive: at every k-th. Adaptive: when the quality of the
join, the importance of its results per evaluation, has fallen by more than a tolerated fraction since
priorities were last computed. Evaluations differ by chance, most where results are few, so the quality is
smoothed over several of them.
"""

from __future__ import annotations

from windrow.model.stateful import Stateful

SMOOTHING = 1 / 16
"""Weight of the newest evaluation."""


class RecomputeSchedule(Stateful):
    saved = ("recomputed", "_decisions", "_quality", "_best")

    def __init__(self, kind: str, k: int, tolerance: float, streams: int) -> None:
        self.kind = kind
        self.recomputed = 0
        """Recomputations so far, over all streams."""
        self._k = k
        self._tolerance = tolerance
        self._decisions = [0] * streams
        self._quality = 0.0
        self._best: list[float | None] = [None] * streams
        """The highest quality since the last recomputation; None before the first."""

    def evaluated(self, importance: float) -> None:
        """Records the total importance of an evaluation's results."""
        self._quality += SMOOTHING * (importance - self._quality)
        self._best = [None if best is None else max(best, self._quality) for best in self._best]

    def due(self, stream: int) -> bool:
        """Whether priorities must be recomputed for the next load-shedding decision."""
        self._decisions[stream] += 1
        if self.kind == "successive":
            due = True
        elif self.kind == "k-successive":
            due = self._decisions[stream] % self._k == 1 % self._k
        else:
            best = self._best[stream]
            due = best is None or self._quality < best * (1 - self._tolerance)
        if due:
            self.recomputed += 1
            self._best[stream] = self._quality
        return due
