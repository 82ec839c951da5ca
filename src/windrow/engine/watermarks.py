"""Watermarks: the oldest event time each stream can still deliver, and the expiry of old rows.

A later row of stream i is never older than `watermark(i)`: the event time the stream has reached less its
`late`. A stream has reached its max event time or, where its source partitions are tracked, that of the
slowest source partition. An idle stream is assumed to have reached the max event time of all streams less
`idle`; an idle source partition does not count. In a join with row windows all streams share one order, so
what the furthest stream has reached applies to each.

A source partition that appears later counts from then on. It does not pull the watermark back: what a stream
has reached never decreases, unless it is set back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from windrow.engine.rows import ArrivingRows
from windrow.engine.source_partitions import PartitionTimes, latest
from windrow.engine.windows import Windows
from windrow.model.interval import Interval
from windrow.model.stateful import Stateful

EARLIEST, END = -(1 << 62), 1 << 62
"""Before and after the event time of any row."""


class Watermarks(Stateful):
    """`late` is by stream. Without `idle` a stream without rows holds the others back for good. `shared` says
    whether all streams share one order, `tracked` by stream whether time is tracked per source partition."""

    saved = ("max_event_times", "partition_times", "slowest", "closed_at")

    def __init__(
        self, late: Sequence[int], idle: int | None = None, shared: bool = False, tracked: Sequence[bool] = ()
    ) -> None:
        self.late = tuple(late)
        self.idle = idle
        self.shared = shared
        self.tracked = tuple(tracked) or (False,) * len(self.late)
        self.max_event_times: list[int | None] = [None] * len(self.late)
        self.partition_times: list[PartitionTimes] = [{} for _ in self.late]
        """Max event time by source partition, for streams that are tracked."""
        self.slowest: list[int | None] = [None] * len(self.late)
        """The event times that tracked streams have reached: see `settle`."""
        self.closed_at: list[int | None] = [None] * len(self.late)
        """Per stream: results up to here are final, and no earlier row is admitted."""

    def advance(self, stream: int, newest: int) -> None:
        known = self.max_event_times[stream]
        self.max_event_times[stream] = newest if known is None else max(known, newest)

    def advance_partitions(self, stream: int, newest: Mapping[str | None, int]) -> None:
        """Advance the source partitions of a tracked stream; `settle` makes it count."""
        self.partition_times[stream] = latest([self.partition_times[stream], newest])

    def settle(self) -> None:
        """Work out what tracked streams have reached. Only to be called when the rows of all source
        partitions up to now are known: one that is not would be overtaken."""
        for stream, times in enumerate(self.partition_times):
            active = [t for t in times.values() if not self._is_idle(t)]
            if active:
                known = self.slowest[stream]
                self.slowest[stream] = min(active) if known is None else max(known, min(active))

    def _is_idle(self, time: int) -> bool:
        top = self.max_event_time
        return self.idle is not None and top is not None and time < top - self.idle

    def set_back(self, stream: int, newest: int) -> None:
        for times in (self.max_event_times, self.slowest, self.closed_at):
            known = times[stream]
            times[stream] = known if known is None else min(known, newest)
        partitions = self.partition_times[stream]
        self.partition_times[stream] = {p: min(t, newest) for p, t in partitions.items()}

    @property
    def max_event_time(self) -> int | None:
        return max((t for t in self.max_event_times if t is not None), default=None)

    def reached(self, stream: int) -> int | None:
        """The event time that a stream has reached, or is assumed to have; None while nothing is known."""
        if not self.shared and self.idle is None:
            return self.slowest[stream] if self.tracked[stream] else self.max_event_times[stream]
        streams = range(len(self.late)) if self.shared else (stream,)
        own = [self.slowest[s] if self.tracked[s] else self.max_event_times[s] for s in streams]
        if self.idle is not None and (top := self.max_event_time) is not None:
            own.append(top - self.idle)
        return max((t for t in own if t is not None), default=None)

    def watermark(self, stream: int) -> int | None:
        """The oldest time a later row of `stream` can have; None while nothing is known."""
        reached, closed = self.reached(stream), self.closed_at[stream]
        if reached is None:
            return closed
        bound = reached - self.late[stream]
        return bound if closed is None else max(bound, closed)

    def bound(self, stream: int) -> tuple[int | None, int | None]:
        """(the watermark, the event time it is `late` behind). The latter is None if it is not measured from
        one: before the first row, and where `close` has set it."""
        bound, reached = self.watermark(stream), self.reached(stream)
        measured = reached is not None and bound == reached - self.late[stream]
        return bound, reached if measured else None

    @property
    def ordered_before(self) -> int | None:
        """In a join with row windows: rows older than this have their place in the order of all streams. None
        if all rows seen have."""
        if not any(self.late) and not any(self.tracked):
            return None
        reached = self.reached(0)
        return EARLIEST if reached is None else reached - max(self.late)

    def close(self, at: int | None = None) -> None:
        """Admit no row earlier than those seen, or than `at`."""
        self.closed_at = [self.max_event_time if at is None else at] * len(self.late)

    def continue_from(self, before: Watermarks) -> None:
        """Admit no row that other settings have ruled out: what followed from that is final."""
        self.closed_at = [before.watermark(stream) for stream in range(len(self.late))]


def earliest_to_come(
    watermarks: Watermarks, arrivals: Sequence[ArrivingRows], at: Sequence[int]
) -> list[int | None]:
    """Per stream, the oldest time that can still arrive, if rows from position `at` on of a call that is
    processed are yet to come; None for any."""
    earliest: list[int | None] = []
    ordered_before = watermarks.ordered_before if watermarks.shared else None
    for stream, (arrived, start) in enumerate(zip(arrivals, at, strict=True)):
        bound = watermarks.watermark(stream)
        if bound is not None and ordered_before is not None:
            # Rows of all streams are buffered until the latest of them is certain.
            bound = min(bound, ordered_before)
        if bound is not None and start < len(arrived.rows):
            bound = min(bound, int(arrived.rows.ts[start]))
        earliest.append(bound)
    return earliest


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
