"""Groups of results: a window of their time, and further keys.

SQL's GROUP BY and a pipeline's `[aggregate]` describe the same groups, so both are checked here.
"""

from __future__ import annotations

from dataclasses import dataclass

from windrow.errors import Option, QueryError
from windrow.model.settings import duration, optional, setting
from windrow.model.units import format_duration


@dataclass(frozen=True)
class ResultGroups:
    """Results of the same window and the same keys form a group."""

    time: str
    """SQL over the result that yields a timestamp: "b.bid_at"."""
    window: int
    """Microseconds."""
    slide: int | None = None
    keys: tuple[str, ...] = ()
    """SQL over the result."""
    aggregate_watermark_delay: int | None = setting(
        optional(duration()),
        "How long a window of GROUP BY waits for results on a stream; None for `late` plus the longest "
        "window.",
        default=None,
    )

    def __post_init__(self) -> None:
        if self.slide is not None and self.slide > self.window:
            window, slide = format_duration(self.window), format_duration(self.slide)
            raise QueryError(f"must not exceed the window of {window}, got {slide}", Option("slide"))

    def __str__(self) -> str:
        every = f" every {format_duration(self.slide)}" if self.slide else ""
        return ", ".join((f"windows of {format_duration(self.window)}{every} of {self.time}", *self.keys))
