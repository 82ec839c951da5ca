"""What an operator has seen and done so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class StreamMeasurements:
    """Of one stream."""

    rows_in: int
    rows_late: int
    rows_ahead: int
    """Rows set aside because their time was too far ahead of the clock."""
    rows_null_time: int
    rows_filtered: int
    """Rows that no result can contain: a condition on them alone is false, or a joined value is missing."""
    rows_expired: int
    rows_shed: int
    """Rows that went before they expired, for lack of memory."""
    rows_dropped: int
    """Rows that were never let in, for lack of time."""
    window_rows: int
    memory_bytes: int
    rate: float
    """Rows per second of event time, lately."""
    newest: int | None
    """Newest event time seen, in microseconds since 1970."""


@dataclass(frozen=True)
class Quality:
    """How good the answer is, from the operator's start on. What does not apply is None."""

    recall: float
    """Part of the true results that was found; an estimate, with its 95 % interval. NaN if nothing tells."""
    low: float
    high: float
    watched_rows: int = 0
    """Rows that stay until they expire to know the recall, whatever the policy thinks of them; those that it
    would have let go are what the estimate costs."""
    found: float = 0.0
    """Results the estimate knows of, the true number it comes to, and the variance of that: sums, so that
    those of several operators, or the change between two moments, can be had."""
    true: float = 0.0
    variance: float = 0.0
    unit: float = 0.0
    """What one row more would stand for, had it been seen among those that tell what is missed: where nothing
    missed was seen, something may be all the same. 0 if nothing was ever left out, for lack of memory or of
    time."""
    importance: float | None = None
    """Total importance of the results."""
    importance_recall: float | None = None
    """Its part of the true total, with its interval."""
    importance_low: float | None = None
    importance_high: float | None = None
    fairness: float | None = None
    """Jain's index of the time rows stayed: 1 if all stayed equally long."""
    importance_missing: int | None = None
    """Rows without an importance, which were taken for unimportant."""
    recomputations: int | None = None
    """How often the priorities of a stream's rows were computed."""
    sampling: float | None = None
    """Part of the results that is sampled at present."""


@dataclass(frozen=True)
class Measurements:
    """Of the whole operator. Counters run from its start, or from the start of what it was restored from."""

    rows_in: int
    rows_late: int
    rows_ahead: int
    """Rows set aside because their time was too far ahead of the clock."""
    rows_null_time: int
    rows_filtered: int
    rows_shed: int
    rows_dropped: int
    rows_waiting: int
    """Rows held back until their place in the order is certain (windows counted in rows, with `late`), or
    until there is time for them (a policy with a buffer)."""
    results: int
    window_rows: int
    memory_bytes: int
    comparisons: int
    """Rows compared while probing."""
    evaluations: int
    """Quanta processed."""
    expiry_passes: int
    replans: int
    """How often the join order was chosen anew because the streams had changed."""
    throttle: float
    """The part of the full work that there was time for in the last call; 1 without a deadline."""
    overruns: int
    """Calls that took more than a fifth longer than the deadline."""
    recall: float
    recall_low: float
    recall_high: float
    quality: Quality
    streams: Mapping[str, StreamMeasurements]

    def __str__(self) -> str:
        lines = [
            f"{self.rows_in:,} rows in, {self.results:,} results, recall {self.recall:.3f} "
            f"[{self.recall_low:.3f}, {self.recall_high:.3f}]",
            f"windows hold {self.window_rows:,} rows in {self.memory_bytes / 2**20:.1f} MiB; "
            f"{self.comparisons:,} comparisons in {self.evaluations:,} evaluations",
        ]
        lost = {
            "late": self.rows_late,
            "too far ahead": self.rows_ahead,
            "without time": self.rows_null_time,
            "filtered": self.rows_filtered,
            "shed": self.rows_shed,
            "dropped": self.rows_dropped,
            "waiting": self.rows_waiting,
        }
        told = ", ".join(f"{count:,} {name}" for name, count in lost.items() if count)
        if told:
            lines.append(f"rows {told}")
        if self.throttle < 1 or self.overruns:
            lines.append(
                f"time for {self.throttle:.1%} of the work; {self.overruns:,} calls past the deadline"
            )
        for alias, s in self.streams.items():
            lines.append(
                f"  {alias}: {s.rows_in:,} rows in at {s.rate:,.0f}/s, {s.window_rows:,} in the window"
            )
        return "\n".join(lines)
