"""How one partition fared in one batch, put together from what was measured before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windrow.model.limit import MemoryLimit
from windrow.model.measurements import Measurements
from windrow.model.query import Query
from windrow.spark.metrics import PartitionMetrics, QueryMetrics, StreamMetrics

SUMMED = (
    "rows_in", "rows_copied", "rows_late", "rows_ahead", "rows_null_time", "rows_filtered",
    "rows_shed", "rows_dropped",
)  # fmt: skip


@dataclass(frozen=True)
class Account:
    """
    Parameters
    ----------
    before, after
        Measured as the batch began and ended.
    counted
        For streams whose rows are copied: counts of the first copies alone, by name.
    seconds
        Reading the rows, finding the windows, processing, keeping the windows.
    allowed
        The partition's part of the deadline, in seconds.
    limit
        Its part of the memory limit.
    hot
        The most frequent key of a sample, and its share.
    """

    batch: int | None
    partition: int
    before: Measurements
    after: Measurements
    counted: Mapping[str, Mapping[str, int]]
    seconds: tuple[float, float, float, float]
    allowed: float | None
    limit: MemoryLimit | None
    rejected: tuple[str, ...]
    hot: tuple[str | None, float]
    queries: Mapping[str, QueryMetrics] = field(default_factory=dict)
    learned: Mapping[str, Any] | None = None
    from_memory: bool = False

    def metrics(self, query: Query) -> PartitionMetrics:
        """As it is told."""
        before, after = self.before, self.after
        streams = between(before, after, self.counted)
        then, now = before.quality, after.quality
        return PartitionMetrics(
            batch=self.batch,
            partition=self.partition,
            **{name: sum(getattr(s, name) for s in streams.values()) for name in SUMMED},
            results=after.results - before.results,
            window_rows=after.window_rows,
            memory_bytes=after.memory_bytes,
            memory_limit=None if self.limit is None else str(self.limit),
            deadline=None if query.time_limit is None else str(query.time_limit),
            throttle=after.throttle,
            overran=after.overruns > before.overruns,
            results_found=now.found - then.found,
            results_true=now.true - then.true,
            results_variance=now.variance - then.variance,
            watched_rows=now.watched_rows,
            importance=None if now.importance is None else now.importance - (then.importance or 0.0),
            importance_missing=(now.importance_missing or 0) - (then.importance_missing or 0),
            fairness=now.fairness,
            sampling=now.sampling,
            rejected=self.rejected,
            comparisons=after.comparisons - before.comparisons,
            from_memory=self.from_memory,
            hot_key=self.hot[0],
            hot_share=self.hot[1],
            seconds_input=self.seconds[0],
            seconds_load=self.seconds[1],
            seconds_process=self.seconds[2],
            seconds_publish=self.seconds[3],
            streams=streams,
            queries=self.queries,
            rows_waiting=after.rows_waiting,
            memory_room=None if self.limit is None else self.limit.size,
            seconds_allowed=self.allowed,
            learned=self.learned,
            results_unit=now.unit if self._may_miss else 0.0,
        )

    @property
    def _may_miss(self) -> bool:
        """Whether anything can have been lost in this batch that was not seen to be."""
        then, now = self.before, self.after
        return self.limit is not None or now.throttle < 1 or now.quality.unit != then.quality.unit


def between(
    before: Measurements, after: Measurements, counted: Mapping[str, Mapping[str, int]]
) -> dict[str, StreamMetrics]:
    """What happened to each stream between two measurements.

    Parameters
    ----------
    counted
        For streams whose rows are copied: counts of the first copies alone, by name.
    """
    found = {}
    for alias, now in after.streams.items():
        then = before.streams[alias]
        names = [name for name in SUMMED if name != "rows_copied"]
        counts = {name: getattr(now, name) - getattr(then, name) for name in names}
        arrived = counts["rows_in"]
        counts |= counted.get(alias, {})
        found[alias] = StreamMetrics(
            **counts,
            rows_copied=arrived - counts["rows_in"],
            window_rows=now.window_rows,
            memory_bytes=now.memory_bytes,
            newest=now.newest,
        )
    return found
