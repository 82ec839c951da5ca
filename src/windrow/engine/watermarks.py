"""Watermarks: the oldest event time each stream can still deliver, and the expiry of old rows.

A later row of stream i is never older than `watermark(i)`: the stream's max event time less `late`. An idle
stream is assumed to have reached the max event time of all streams less `idle`. In a join with row windows
all streams share one order, so the max event time of all streams applies to each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windrow.engine.windows import Windows
from windrow.model.interval import Interval
from windrow.model.stateful import Stateful

END = 1 << 62
"""Later than the event time of any row."""


class Watermarks(Stateful):
    saved = ("max_event_times", "closed_at")

    def __init__(self, streams: int, late: int, idle: int | None, shared: bool) -> None:
        self.late = late
        self.idle = idle
        self.shared = shared
        self.max_event_times: list[int | None] = [None] * streams
        self.closed_at: int | None = None
        """Results up to here are final: no earlier row is admitted."""

    def advance(self, stream: int, newest: int) -> None:
        known = self.max_event_times[stream]
        self.max_event_times[stream] = newest if known is None else max(known, newest)

    def set_back(self, stream: int, newest: int) -> None:
        known = self.max_event_times[stream]
        self.max_event_times[stream] = known if known is None else min(known, newest)
        if self.closed_at is not None:
            self.closed_at = min(self.closed_at, newest)

    @property
    def max_event_time(self) -> int | None:
        return max((t for t in self.max_event_times if t is not None), default=None)

    def watermark(self, stream: int) -> int | None:
        """The oldest time a later row of `stream` can have; None while nothing is known."""
        reached = self.max_event_time if self.shared else self.max_event_times[stream]
        if self.idle is not None and (top := self.max_event_time) is not None:
            reached = top - self.idle if reached is None else max(reached, top - self.idle)
        if reached is None:
            return self.closed_at
        return reached - self.late if self.closed_at is None else max(reached - self.late, self.closed_at)

    def close(self) -> None:
        """Admit no row earlier than those seen."""
        self.closed_at = self.max_event_time


def horizons(earliest: Sequence[int | None], spans: Sequence[int | None]) -> list[int | None]:
    """Per stream, the time before which its rows can join nothing more; None to keep all.

    A row is needed until every other stream has passed the end of its window.
    """
    found: list[int | None] = []
    for stream, span in enumerate(spans):
        others = [t for other, t in enumerate(earliest) if other != stream]
        if span is None or any(t is None for t in others):
            found.append(None)
        else:
            found.append(min(t for t in others if t is not None) - span)
    return found


class Expiry(Stateful):
    """Decides when rows expire: before every sub-batch, or at an interval of event time or rows."""

    saved = ("passes", "_last_time", "_last_rows")

    def __init__(self, interval: Interval | None) -> None:
        self._interval = interval
        self._last_time: int | None = None
        self._last_rows = 0
        self.passes = 0

    def due(self, earliest: Sequence[int | None], stored: Callable[[], int]) -> bool:
        """Whether to expire now. `earliest` is the oldest time that can still arrive, per stream. `stored`
        counts the rows stored so far and is called only if the interval is in rows."""
        known = [t for t in earliest if t is not None]
        if self._interval is None or not known:
            return bool(known)
        if self._interval.rows:
            rows = stored()
            if rows - self._last_rows < self._interval.rows and self.passes:
                return False
            self._last_rows = rows
            return True
        now = min(known)
        if self._last_time is not None and now - self._last_time < (self._interval.time or 0):
            return False
        self._last_time = now
        return True

    def set_back(self) -> None:
        """Make the next pass due at once, after event time was set back."""
        self._last_time = None

    def run(self, windows: Windows, earliest: Sequence[int | None], seq: int) -> list[int]:
        """Expire rows of all windows; return how many, per stream."""
        self.passes += 1
        return windows.expire(horizons(earliest, [w.span for w in windows]), seq)
