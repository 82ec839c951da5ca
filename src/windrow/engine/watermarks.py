"""Watermarks: the oldest event time each stream can still deliver.

A later row of stream i is never older than `earliest(i)`: the newest seen on it, less `late`. A silent
stream is taken to have come as far as the newest of any stream less `idle`. Where windows are counted in
rows all streams share one order, so there the newest of any stream counts for all.
"""

from __future__ import annotations

from collections.abc import Sequence

from windrow.model.stateful import Stateful

END = 1 << 62
"""After the event time of any row."""


class Watermarks(Stateful):
    saved = ("max_event_times", "closed_at")

    def __init__(self, streams: int, late: int, idle: int | None, shared: bool) -> None:
        self.late = late
        self.idle = idle
        self.shared = shared
        self.max_event_times: list[int | None] = [None] * streams
        self.closed_at: int | None = None
        """Everything up to here has been given out for good: nothing earlier is taken any more."""

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
        """Nothing earlier than what was seen will be taken."""
        self.closed_at = self.max_event_time


def horizons(earliest: Sequence[int | None], spans: Sequence[int | None]) -> list[int | None]:
    """For each stream the time before which its rows can join nothing more; None: keep all.

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
