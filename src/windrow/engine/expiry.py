"""When old rows expire: before every sub-batch, or at an interval of event time or rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windrow.engine.join import Join
from windrow.engine.watermarks import horizons
from windrow.model.interval import Interval
from windrow.model.stateful import Stateful


class Expiry(Stateful):
    saved = ("passes", "_last_time", "_last_rows")

    def __init__(self, interval: Interval | None) -> None:
        self._interval = interval
        self._last_time: int | None = None
        self._last_rows = 0
        self.passes = 0

    def due(self, earliest: Sequence[int | None], stored: Callable[[], int]) -> bool:
        """`earliest` is the oldest time that can still come per stream; `stored` tells how many rows were."""
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
        """Event time has been set back: the next pass is due at once."""
        self._last_time = None

    def run(self, join: Join, earliest: Sequence[int | None], seq: int) -> list[int]:
        """One pass over all windows; returns how many rows went, per stream."""
        self.passes += 1
        return join.expire(horizons(earliest, [w.span for w in join.windows]), seq)
