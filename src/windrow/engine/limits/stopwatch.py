"""Seconds of a sub-batch by kind of work: appending rows, probing, building results."""

from __future__ import annotations

from collections.abc import Callable

TAKE, PROBE, BUILD = range(3)


class Stopwatch:
    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.spent = [0.0, 0.0, 0.0]
        self._at = 0.0

    @property
    def seconds(self) -> tuple[float, float, float]:
        """Of taking rows in, probing and building."""
        return self.spent[TAKE], self.spent[PROBE], self.spent[BUILD]

    def start(self) -> None:
        self.spent = [0.0, 0.0, 0.0]
        self._at = self.clock()

    def lap(self, kind: int) -> None:
        """What passed since the last was of this kind. A clock that is set back tells nothing."""
        now = self.clock()
        self.spent[kind] += max(0.0, now - self._at)
        self._at = now
