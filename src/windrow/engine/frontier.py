"""How far each stream has come, and so which rows can still arrive.

A later row of stream i is never older than `earliest(i)`: the newest seen on it, less `late`. A silent
stream is taken to have come as far as the newest of any stream less `idle`. Where windows are counted in
rows all streams share one order, so there the newest of any stream counts for all.
"""

from __future__ import annotations

from collections.abc import Sequence


class Frontier:
    def __init__(self, streams: int, late: int, idle: int | None, shared: bool) -> None:
        self.late = late
        self.idle = idle
        self.shared = shared
        self.newest: list[int | None] = [None] * streams
        self.settled: int | None = None
        """Everything up to here has been given out for good: nothing earlier is taken any more."""

    def advance(self, stream: int, newest: int) -> None:
        known = self.newest[stream]
        self.newest[stream] = newest if known is None else max(known, newest)

    def set_back(self, stream: int, newest: int) -> None:
        known = self.newest[stream]
        self.newest[stream] = known if known is None else min(known, newest)
        if self.settled is not None:
            self.settled = min(self.settled, newest)

    @property
    def newest_of_all(self) -> int | None:
        return max((t for t in self.newest if t is not None), default=None)

    def earliest(self, stream: int) -> int | None:
        """The oldest time a later row of `stream` can have; None while nothing is known."""
        reached = self.newest_of_all if self.shared else self.newest[stream]
        top = self.newest_of_all
        if self.idle is not None and top is not None:
            reached = top - self.idle if reached is None else max(reached, top - self.idle)
        if reached is None:
            return None
        return reached - self.late if self.settled is None else max(reached - self.late, self.settled)

    def settle(self) -> None:
        """Nothing earlier than what was seen will be taken."""
        self.settled = self.newest_of_all


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
