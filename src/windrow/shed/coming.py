"""How fast rows of each stream come lately."""

from __future__ import annotations

from typing import Any


class Coming:
    def __init__(self, streams: int) -> None:
        self._rows = [0.0] * streams
        """Rows per stream: those of a window ago count half."""
        self._seconds = 0.0
        """That they came in, faded alike."""

    def add(self, stream: int, rows: int) -> None:
        self._rows[stream] += rows

    def go(self, seconds: float, window: float) -> None:
        """Event time goes on by so much; the longest window has so many seconds, or 0 if none has any."""
        fade = 0.5 ** (seconds / window) if window else 0.5
        self._rows = [count * fade for count in self._rows]
        self._seconds = self._seconds * fade + seconds

    def in_window(self, stream: int, seconds: float) -> float:
        """Rows of a whole window so long; 0 before any time has passed."""
        return self._rows[stream] / self._seconds * seconds if self._seconds else 0.0

    def save(self) -> dict[str, Any]:
        return {"came": self._rows, "passed": self._seconds}

    def load(self, plain: dict[str, Any]) -> None:
        self._rows, self._seconds = list(plain["came"]), plain["passed"]
