"""Decayed arrival rates: rows per window, the time rows stay, and the rows complete windows would hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from windrow.eviction.context import Context
from windrow.eviction.models.key_sketch import DecayedTime
from windrow.eviction.window_view import WindowView
from windrow.model.query import Window
from windrow.model.stateful import Stateful

Array = np.ndarray
HALF_LIFE = 0.5
"""Of `WindowDemand`'s rates, in windows: rows are many, so rates may follow a change quickly."""


class ArrivalRates(Stateful):
    """How fast rows of each stream arrive lately."""

    saved = ("_rows", "_seconds")

    def __init__(self, streams: int) -> None:
        self._rows = [0.0] * streams
        """Rows per stream: those of a window ago count half."""
        self._seconds = 0.0
        """That they came in, faded alike."""

    def add(self, stream: int, rows: int) -> None:
        self._rows[stream] += rows

    def advance(self, seconds: float, window: float) -> None:
        """Event time goes on by so much; the longest window has so many seconds, or 0 if none has any."""
        fade = 0.5 ** (seconds / window) if window else 0.5
        self._rows = [count * fade for count in self._rows]
        self._seconds = self._seconds * fade + seconds

    def in_window(self, stream: int, seconds: float) -> float:
        """Rows of a complete window so long; 0 before any time has passed."""
        return self._rows[stream] / self._seconds * seconds if self._seconds else 0.0


class ResidenceTime(Stateful):
    """How long a row of a stream can stay: the rows held over the rate at which they arrive.

    By Little's law that is the mean time rows stay, whatever the policy; so it is the natural unit for
    thresholds that have to fit the memory there is and the streams as they are.
    """

    saved = ("_rows", "_seconds", "_until")
    clocks = ("_until",)

    def __init__(self, streams: int) -> None:
        self._rows = [0.0] * streams
        self._seconds = 0.0
        """Event time in which these rows came. Of both, what lies a window back counts 1/e."""
        self._until: int | None = None

    def end_sub_batch(self, views: Sequence[WindowView], now: int) -> None:
        """A sub-batch's rows have come, and event time has come to `now`."""
        if self._until is not None:  # of the first rows it is not known in what time they came
            passed = (now - self._until) / 1e6
            fade = math.exp(-passed * 1e6 / max(view.window_length for view in views))
            self._seconds = self._seconds * fade + passed
            self._rows = [
                rows * fade + len(v) - v.first_new for rows, v in zip(self._rows, views, strict=True)
            ]
        self._until = now

    def seconds(self, view: WindowView) -> float:
        """At most the window itself."""
        span, rows = view.window_length / 1e6, self._rows[view.stream]
        return min(span, len(view) * self._seconds / rows) if rows * self._seconds > 0 else span


class WindowDemand(Stateful):
    """Rows that complete windows would hold, from recent arrival rates."""

    saved = ("_rows", "_new_rows", "_spans", "_elapsed", "_until")
    clocks = ("_until",)

    def __init__(self, context: Context) -> None:
        self._windows: list[Window] = [stream.window for stream in context.query.streams.values()]
        self._rows = [0.0] * len(self._windows)
        self._new_rows = [0] * len(self._windows)
        """Rows that came since `_until`."""
        self._spans = [0.0] * len(self._windows)
        self._elapsed = DecayedTime()
        self._until: int | None = None

    def on_arrival(self, view: WindowView) -> None:
        """Rows came."""
        self._spans[view.stream] = view.window_length / 1e6
        self._new_rows[view.stream] += len(view) - view.first_new
        if not self.known:
            first = int(view.ts[view.first_new])
            self._until = first if self._until is None else min(first, self._until)

    def end_sub_batch(self, now: int) -> None:
        """Event time has come to `now`."""
        if self._until is None or now <= self._until:
            return
        seconds, before = (now - self._until) / 1e6, self._elapsed.seconds
        fade = self._elapsed.advance(seconds, max(HALF_LIFE * max(self._spans), 1e-6))
        # Rows that came in this time came evenly over it, and so fade as the time itself does.
        kept = (self._elapsed.seconds - before * fade) / seconds
        self._rows = [old * fade + new * kept for old, new in zip(self._rows, self._new_rows, strict=True)]
        self._new_rows = [0] * len(self._rows)
        self._until = now

    @property
    def known(self) -> bool:
        """Whether any time has passed, so that there are rates."""
        return self._elapsed.seconds > 0

    def rate(self, stream: int) -> float:
        """Rows per second."""
        return self._rows[stream] / max(self._elapsed.seconds, 1e-9)

    def span(self, stream: int) -> float:
        """Seconds a row stays in a complete window."""
        window = self._windows[stream]
        if window.kind == "rows" and self.rate(stream) > 0:
            return window.size / self.rate(stream)
        return self._spans[stream]

    def rows(self, view: WindowView, weights: Callable[[WindowView], Array]) -> float:
        """Rows of a complete window; for windows counted per key as many as the rows held stand for."""
        if self._windows[view.stream].kind == "rows per key":
            return float(weights(view).sum())
        return self.rate(view.stream) * self.span(view.stream)
