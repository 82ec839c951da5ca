"""A join's metrics of one micro-batch, or of several merged, as the dashboard draws them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from windrow.estimation.recall import batch_recall
from windrow.model.metric_fields import counter, gauge, in_turn, lost_rows, metrics_of
from windrow.model.metrics import BatchCounts, ResultCounts, StreamCounts
from windrow.model.query_metrics import BatchQueryMetrics
from windrow.model.units import json_value

DIGITS = 5
"""Enough for a chart."""


@dataclass(frozen=True, kw_only=True)
class BatchPoint(BatchCounts):
    """What the batch counted, and what is known of it beside its join. Memory and its limit are both in the
    limit's unit, bytes or rows."""

    batch: int
    at: float
    """End of the micro-batch, in milliseconds since 1970."""
    span: float = counter("From the start of the previous batch to that of this one.", unit="seconds")
    seconds: float = gauge("Seconds of the last batch, as Spark reports it.", unit="seconds")
    slowest_partition_seconds: float = gauge(
        "Seconds of the slowest partition of the join, in the last batch.", unit="seconds"
    )
    deadline_seconds: float | None
    """The deadline of that partition."""
    results_late: int = counter("Results that arrived too late for the aggregation.", unit="results")
    offsets_behind: float | None = gauge(
        "Unread rows of the source, in the partition that is furthest behind.", last=True
    )
    memory_size: float = gauge("Memory of the windows.", unit="bytes or rows")
    memory_limit_size: float | None = gauge("Its limit.", unit="bytes or rows", last=True)
    has_limits: bool
    skew: float = gauge("Rows of the fullest partition over the mean, in the last batch.", unit="fraction")
    streams: Mapping[str, StreamCounts]
    queries: Mapping[str, BatchQueryMetrics]
    batches: int = counter("Batches that ended.", unit="batches")

    @classmethod
    def read(
        cls,
        report: Mapping[str, Any],
        join: Mapping[str, Any],
        at: float,
        span: float,
        known: Sequence[Mapping[str, Any]],
    ) -> BatchPoint:
        """Read a point from the report of a micro-batch (`BatchProgress.to_dict`) and its part about a join.

        `known` are the last reports of all partitions of the join.
        """
        parts = join["partitions"]
        slowest = max(parts, key=lambda part: part["seconds"])
        aliases = dict.fromkeys(alias for part in known for alias in part["streams"])
        limits = [part["memory_limit_size"] for part in known]
        counts = _counts(BatchCounts, [join], known)
        return cls(
            **counts,
            batch=report["batch"],
            at=at,
            span=span,
            seconds=report["seconds"],
            slowest_partition_seconds=slowest["seconds"],
            deadline_seconds=slowest["deadline_seconds"],
            results_late=report["results_late"],
            offsets_behind=report["offsets_behind"],
            memory_size=counts["window_rows" if limit_in_rows(known) else "memory_bytes"],
            memory_limit_size=sum(limits) if limits and None not in limits else None,
            batches=1,
            has_limits=any(part["memory_limit"] or part["deadline"] for part in parts),
            skew=join["skew"],
            streams={
                alias: StreamCounts(
                    **_counts(
                        StreamCounts,
                        [part["streams"][alias] for part in parts],
                        [part["streams"][alias] for part in known],
                    )
                )
                for alias in aliases
            },
            queries={name: BatchQueryMetrics(**query) for name, query in join["queries"].items()},
        )

    @property
    def lost(self) -> dict[str, int]:
        """Rows lost, by cause."""
        return lost_rows(BatchCounts, self)

    @property
    def recall(self) -> tuple[float, float, float] | None:
        """Estimate and interval; None if unknown."""
        recall = batch_recall(self, self.results, self.has_limits)
        return None if math.isnan(recall[0]) else recall

    def and_then(self, later: BatchPoint) -> BatchPoint:
        """Merge with a later point."""
        rows = [self.rows_in, later.rows_in]
        slower = self if self.slowest_partition_seconds > later.slowest_partition_seconds else later
        return replace(
            later,
            **in_turn(BatchPoint, self, later, rows),
            deadline_seconds=slower.deadline_seconds,
            has_limits=self.has_limits or later.has_limits,
            streams=_merged(
                self.streams, later.streams, lambda a, b: StreamCounts(**in_turn(StreamCounts, a, b, rows))
            ),
            queries=_merged(self.queries, later.queries, BatchQueryMetrics.and_then),
        )

    @cached_property
    def plain(self) -> dict[str, Any]:
        """The values that the page's scripts read."""
        hidden = ("at", "streams", "queries", *(m.name for m in metrics_of(ResultCounts)))
        shown: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in hidden}
        shown |= {
            "input_rates": {alias: s.rows_in / max(self.span, 1e-3) for alias, s in self.streams.items()},
            "lost": self.lost,
            "output_rate": self.results / max(self.span, 1e-3),
            "recall": self.recall if self.has_limits else None,
            "queries": {name: vars(query) for name, query in self.queries.items()},
        }
        rounded: dict[str, Any] = json_value(shown, DIGITS)
        return rounded | {"at": round(self.at)}


def limit_in_rows(parts: Iterable[Mapping[str, Any]]) -> bool:
    return any((part["memory_limit"] or "").endswith("rows") for part in parts)


def _counts(
    record: type, batch: Sequence[Mapping[str, Any]], known: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Counts of a micro-batch from its reports; gauges from the last reports of all partitions."""
    return {
        m.name: m.merge([part[m.name] for part in (known if m.held else batch)], [1.0] * len(batch))
        for m in metrics_of(record)
    }


def _merged(one: Mapping[str, Any], other: Mapping[str, Any], both: Callable[[Any, Any], Any]) -> dict:
    return {
        key: both(one[key], other[key]) if key in one and key in other else one.get(key, other.get(key))
        for key in (*one, *(k for k in other if k not in one))
    }
