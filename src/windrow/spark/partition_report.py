"""Metrics of one partition in one micro-batch, computed from measurements before and after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windrow.estimation.recall import UNKNOWN
from windrow.model.limits import MemoryLimit
from windrow.model.metric_fields import between, merged
from windrow.model.metrics import JoinCounts, OperatorMetrics, ResultCounts, StreamCounts
from windrow.model.query import Query
from windrow.spark.metrics import PartitionMetrics, PartitionStreamMetrics


def partition_metrics(
    query: Query,
    before: OperatorMetrics,
    after: OperatorMetrics,
    counted: Mapping[str, Mapping[str, int]],
    limit: MemoryLimit | None,
    allowed: float | None,
    **own: Any,
) -> PartitionMetrics:
    """
    Parameters
    ----------
    before, after
        Metrics at the start and at the end of the micro-batch.
    counted
        For streams whose rows are copied: counts of first copies only, by name.
    limit
        The partition's memory share.
    allowed
        Its share of the deadline, in seconds.
    own
        The fields that these do not determine.
    """
    streams = _stream_metrics(before, after, counted)
    then, now = before.quality, after.quality
    weight = now.results_max_weight
    # Whether this micro-batch may have missed results beyond those that were counted.
    may_miss = limit is not None or after.throttle_fraction < 1
    may_miss |= weight >= UNKNOWN or weight != then.results_max_weight
    counts = (
        between(JoinCounts, before, after)
        | between(ResultCounts, then, now)
        | merged(StreamCounts, [vars(stream) for stream in streams.values()])
        | ({} if may_miss else {"results_max_weight": 0.0})
    )
    return PartitionMetrics(
        **counts,
        memory_limit=None if limit is None else str(limit),
        memory_limit_size=None if limit is None else limit.size,
        deadline=None if query.time_limit is None else str(query.time_limit),
        deadline_seconds=allowed,
        monitored_rows=now.monitored_rows,
        importance=None if now.importance is None else now.importance - (then.importance or 0.0),
        fairness=now.fairness,
        sampling_fraction=now.sampling_fraction,
        complete_from=after.complete_from,
        streams=streams,
        **own,
    )


def _stream_metrics(
    before: OperatorMetrics, after: OperatorMetrics, counted: Mapping[str, Mapping[str, int]]
) -> dict[str, PartitionStreamMetrics]:
    found = {}
    for alias, now in after.streams.items():
        counts = between(StreamCounts, before.streams[alias], now)
        arrived = counts["rows_in"]
        counts |= counted.get(alias, {})
        counts["rows_copied"] = arrived - counts["rows_in"]
        found[alias] = PartitionStreamMetrics(**counts, max_event_time=now.max_event_time)
    return found
