"""Decayed rates: recent events per second of event time; older events count less.

Policies and load shedding forget in this way. A count and the time in which it was made decay alike, so their
ratio is a rate. The half-life says how quickly the rate follows a change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from windrow.eviction.window_view import WindowView
from windrow.model.query import Window
from windrow.model.stateful import Stateful
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
HALF_LIFE = 0.5
"""Half-life of arrival rates, in windows. There are many rows, so rates may follow changes quickly."""


class DecayedTime(Stateful):
    """Elapsed event time, decayed: the denominator of a rate. With `steps`, time decays between calls of
    `advance` only, not also while it passes."""

    saved = ("seconds",)

    def __init__(self, steps: bool = False) -> None:
        self.seconds = 0.0
        self.steps = steps

    def advance(self, seconds: float, half_life: float, counted: float | None = None) -> float:
        """Advances time. Only the last `counted` seconds of it were observed (None: all). Returns the factor
        by which every count decays."""
        decay = 0.5 ** (seconds / half_life)
        if self.steps:
            self.seconds = self.seconds * decay + seconds
            return float(decay)
        # Time decays while it passes: this integrates the decaying weight over the observed time.
        over = decay if counted is None else 0.5 ** (min(counted, seconds) / half_life)
        self.seconds = self.seconds * decay + (1 - over) * half_life / np.log(2)
        return float(decay)


class ArrivalRates(Stateful):
    """Recent arrival rate of each stream. With `steps`, the rows of a sub-batch and its time count in full;
    otherwise they decay within it as well."""

    saved = ("_rows", "_new_rows", "_time")
    version = 2

    def __init__(self, streams: int, steps: bool = False) -> None:
        self._rows = [0.0] * streams
        self._new_rows = [0] * streams
        """Rows since the last call of `advance`."""
        self._time = DecayedTime(steps)

    def add(self, stream: int, rows: int) -> None:
        self._new_rows[stream] += rows

    def advance(self, seconds: float, half_life: float) -> float:
        """Event time passes, in which the rows added since the last call arrived. Returns the factor by which
        earlier rows decay."""
        if seconds <= 0 and not self._time.steps:
            return 1.0
        before = self._time.seconds
        decay = self._time.advance(seconds, max(half_life, 1e-6))
        # Without steps, rows are assumed to have arrived evenly over the time, and decay as it does.
        kept = 1.0 if self._time.steps else (self._time.seconds - before * decay) / seconds
        self._rows = [old * decay + new * kept for old, new in zip(self._rows, self._new_rows, strict=True)]
        self._new_rows = [0] * len(self._rows)
        return decay

    @property
    def known(self) -> bool:
        """Whether any time has passed, so that there are rates."""
        return self._time.seconds > 0

    def rate(self, stream: int) -> float:
        """Rows per second; 0 before any time has passed."""
        return self._rows[stream] / self._time.seconds if self.known else 0.0

    def rates(self, least_seconds: float) -> Array:
        """Rows per second of all streams, over no less time than this."""
        return np.array(self._rows) / max(self._time.seconds, least_seconds)

    def residence_time(self, view: WindowView) -> float:
        """Seconds a row of the view stays on average, at most its window.

        By Little's law it is the number of rows held divided by their arrival rate, whatever the policy. So
        it is the natural unit for thresholds that must fit both the memory and the streams.
        """
        span, rate = view.window_length / 1e6, self.rate(view.stream)
        return min(span, len(view) / rate) if rate > 0 else span


class WindowDemand(Stateful):
    """Number of rows in complete windows, from recent arrival rates."""

    saved = ("rates", "_spans")
    formerly = (("_rates", "rates"),)

    def __init__(self, bound: BoundQuery) -> None:
        self._windows: list[Window] = [stream.window for stream in bound.query.streams.values()]
        self.rates = ArrivalRates(len(self._windows))
        self._spans = [0.0] * len(self._windows)

    def on_arrival(self, view: WindowView) -> None:
        self._spans[view.stream] = view.window_length / 1e6
        self.rates.add(view.stream, view.new_count)

    def end_sub_batch(self, views: Sequence[WindowView]) -> None:
        self.rates.advance(views[0].elapsed, HALF_LIFE * max(self._spans))

    def span(self, stream: int) -> float:
        """Seconds a row stays in a complete window."""
        window, rate = self._windows[stream], self.rates.rate(stream)
        if window.kind == "rows" and rate > 0:
            return window.size / rate
        return self._spans[stream]

    def rows(self, view: WindowView, weights: Callable[[WindowView], Array]) -> float:
        """Rows of a complete window; for a row window per key, the rows that the held ones represent."""
        if self._windows[view.stream].kind == "rows per key":
            return float(weights(view).sum())
        return self.rates.rate(view.stream) * self.span(view.stream)
