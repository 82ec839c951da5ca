"""Metrics of one partition in one micro-batch, computed from measurements before and after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from windrow.estimation.recall import UNKNOWN
from windrow.model.limits import MemoryLimit
from windrow.model.metric_fields import between, merged
from windrow.model.metrics import JoinCounts, OperatorMetrics, ResultCounts, StreamCounts
from windrow.model.query import Query
from windrow.spark.metrics import PartitionMetrics, PartitionQueryMetrics, PartitionStreamMetrics


@dataclass(frozen=True)
class PartitionReport:
    """
    Parameters
    ----------
    before, after
        Metrics at the start and at the end of the micro-batch.
    counted
        For streams whose rows are copied: counts of first copies only, by name.
    seconds
        Time to read input, load state, process, and commit state.
    allowed
        The partition's share of the deadline, in seconds.
    limit
        Its memory share.
    hot
        The most frequent key of a sample, and its share of the sample.
    """

    batch: int | None
    partition: int
    before: OperatorMetrics
    after: OperatorMetrics
    counted: Mapping[str, Mapping[str, int]]
    seconds: tuple[float, float, float, float]
    allowed: float | None
    limit: MemoryLimit | None
    control_errors: tuple[str, ...]
    hot: tuple[str | None, float]
    queries: Mapping[str, PartitionQueryMetrics] = field(default_factory=dict)
    learned_models: Mapping[str, Any] | None = None
    state_cache_hit: bool = False
    changes: tuple[str, ...] = ()

    def metrics(self, query: Query) -> PartitionMetrics:
        before, after = self.before, self.after
        streams = stream_metrics(before, after, self.counted)
        then, now = before.quality, after.quality
        counts = (
            between(JoinCounts, before, after)
            | between(ResultCounts, then, now)
            | merged(StreamCounts, [vars(stream) for stream in streams.values()])
            | ({} if self._may_miss else {"results_max_weight": 0.0})
        )
        return PartitionMetrics(
            **counts,
            batch=self.batch,
            partition=self.partition,
            memory_limit=None if self.limit is None else str(self.limit),
            memory_limit_size=None if self.limit is None else self.limit.size,
            deadline=None if query.time_limit is None else str(query.time_limit),
            deadline_seconds=self.allowed,
            monitored_rows=now.monitored_rows,
            importance=None if now.importance is None else now.importance - (then.importance or 0.0),
            fairness=now.fairness,
            sampling_fraction=now.sampling_fraction,
            control_errors=self.control_errors,
            state_cache_hit=self.state_cache_hit,
            changes=self.changes,
            complete_from=after.complete_from,
            hot_key=self.hot[0],
            hot_key_share=self.hot[1],
            seconds_read_input=self.seconds[0],
            seconds_load_state=self.seconds[1],
            seconds_process=self.seconds[2],
            seconds_commit_state=self.seconds[3],
            streams=streams,
            queries=self.queries,
            learned_models=self.learned_models,
        )

    @property
    def _may_miss(self) -> bool:
        """Whether this micro-batch may have missed results beyond those that were counted."""
        then, now = self.before, self.after
        weight = now.quality.results_max_weight
        changed = weight >= UNKNOWN or weight != then.quality.results_max_weight
        return self.limit is not None or now.throttle_fraction < 1 or changed


def stream_metrics(
    before: OperatorMetrics, after: OperatorMetrics, counted: Mapping[str, Mapping[str, int]]
) -> dict[str, PartitionStreamMetrics]:
    """Metrics of each stream between two measurements; `counted` as in `PartitionReport`."""
    found = {}
    for alias, now in after.streams.items():
        counts = between(StreamCounts, before.streams[alias], now)
        arrived = counts["rows_in"]
        counts |= counted.get(alias, {})
        counts["rows_copied"] = arrived - counts["rows_in"]
        found[alias] = PartitionStreamMetrics(**counts, max_event_time=now.max_event_time)
    return found
