"""What whole windows would hold, from the rates at which rows come lately."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windrow.model.query import Window
from windrow.shed.context import Context
from windrow.shed.sketch import Passed
from windrow.shed.view import View

Array = np.ndarray
HALF_LIFE = 0.5
"""Of the rates, in windows: rows are many, so rates may follow a change quickly."""


class Need:
    def __init__(self, context: Context) -> None:
        self._windows: list[Window] = [stream.window for stream in context.query.streams.values()]
        self._rows = [0.0] * len(self._windows)
        self._fresh = [0] * len(self._windows)
        """Rows that came since `_until`."""
        self._spans = [0.0] * len(self._windows)
        self._passed = Passed()
        self._until: int | None = None

    def arrive(self, view: View) -> None:
        """Rows came."""
        self._spans[view.stream] = view.span / 1e6
        self._fresh[view.stream] += len(view) - view.fresh
        if not self.known:
            first = int(view.ts[view.fresh])
            self._until = first if self._until is None else min(first, self._until)

    def settle(self, now: int) -> None:
        """Event time has come to `now`."""
        if self._until is None or now <= self._until:
            return
        seconds, before = (now - self._until) / 1e6, self._passed.seconds
        fade = self._passed.go(seconds, max(HALF_LIFE * max(self._spans), 1e-6))
        # Rows that came in this time came evenly over it, and so fade as the time itself does.
        kept = (self._passed.seconds - before * fade) / seconds
        self._rows = [old * fade + new * kept for old, new in zip(self._rows, self._fresh, strict=True)]
        self._fresh = [0] * len(self._rows)
        self._until = now

    @property
    def known(self) -> bool:
        """Whether any time has passed, so that there are rates."""
        return self._passed.seconds > 0

    def rate(self, stream: int) -> float:
        """Rows per second."""
        return self._rows[stream] / max(self._passed.seconds, 1e-9)

    def span(self, stream: int) -> float:
        """Seconds a row stays in a whole window."""
        window = self._windows[stream]
        if window.kind == "rows" and self.rate(stream) > 0:
            return window.size / self.rate(stream)
        return self._spans[stream]

    def rows(self, view: View, weights: Callable[[View], Array]) -> float:
        """Rows of a whole window; for windows counted per key as many as the rows held stand for."""
        if self._windows[view.stream].kind == "rows per key":
            return float(weights(view).sum())
        return self.rate(view.stream) * self.span(view.stream)

    def save(self) -> dict[str, Any]:
        return {
            "rows": self._rows,
            "fresh": self._fresh,
            "spans": self._spans,
            "until": self._until,
            "passed": self._passed.seconds,
        }

    def load(self, plain: dict[str, Any]) -> None:
        self._rows, self._fresh = list(plain["rows"]), list(plain["fresh"])
        self._spans, self._until = list(plain["spans"]), plain["until"]
        self._passed.seconds = plain["passed"]
