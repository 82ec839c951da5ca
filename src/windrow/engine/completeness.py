"""The event time from which results are complete, if windows lack rows that the query needs.

A query lacks rows if it starts on running windows that are smaller than its own, and after a restart with
larger windows or with another limit: rows that have expired or were shed are not recovered.
"""

from __future__ import annotations

from collections.abc import Sequence

from windrow.engine.row_windows import NEVER
from windrow.engine.windows import Windows
from windrow.model.query import Window
from windrow.model.stateful import Stateful


class Completeness(Stateful):
    """Time windows are complete from event time `since` on; None for all times."""

    saved = ("since", "awaits")

    def __init__(self, since: int | None = None) -> None:
        self.since = since
        self.awaits: list[int] = []
        """Per stream, the rows that must have arrived before its row window is complete; NEVER if unknown, as
        for windows counted per key."""

    @property
    def complete_from(self) -> int | None:
        """Event time from which results are complete; None for all, NEVER if not yet known."""
        return NEVER if any(self.awaits) else self.since

    def lack_expired(self, windows: Windows, held: Sequence[Window], wanted: Sequence[Window]) -> None:
        """Windows held so far are continued as larger ones."""
        self._resize(len(windows))
        for stream, (before, window) in enumerate(zip(held, wanted, strict=True)):
            if window.size <= before.size:
                continue
            counted, horizon = windows.row_windows[stream], windows.complete_from[stream]
            if counted is None:
                if horizon is not None:
                    # A row at this time needs none from before the horizon.
                    self._begin(horizon + window.size)
            elif counted.keys is not None:
                self._await(stream, NEVER)
            elif counted.total > before.size:
                self._await(stream, counted.total - before.size + window.size)

    def lack_shed(self, windows: Windows, newest: int) -> None:
        """Rows of any stream up to event time `newest` may have been shed."""
        self._resize(len(windows))
        for stream, (window, counted) in enumerate(zip(windows, windows.row_windows, strict=True)):
            # A row after the window of the last row that may have been shed meets none of them.
            if counted is None:
                self._begin(newest + window.time_span + 1)
            else:
                self._await(stream, NEVER if counted.keys is not None else counted.total + counted.size)

    def note(self, windows: Windows, newest: int | None) -> None:
        """Row windows may have become complete; `newest` is the max event time of all streams."""
        if not any(self.awaits):
            return
        totals = [0 if counted is None else counted.total for counted in windows.row_windows]
        if all(rows >= due for rows, due in zip(totals, self.awaits, strict=True)):
            self.awaits = []
            # Rows of the last time may precede the row that completed the window.
            self._begin((newest or 0) + 1)

    def _resize(self, streams: int) -> None:
        self.awaits = self.awaits or [0] * streams

    def _begin(self, time: int) -> None:
        self.since = time if self.since is None else max(self.since, time)

    def _await(self, stream: int, rows: int) -> None:
        self.awaits[stream] = max(self.awaits[stream], rows)
