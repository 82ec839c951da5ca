"""Metrics of the queries that share a join."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class BatchQueryMetrics:
    """Metrics of one query, in one partition and micro-batch or over several.

    A response time runs from the start of the micro-batch in which the newest row of a result arrives to the
    end of the one that delivers the result, in seconds. None without results.
    """

    results: int = 0
    response_mean: float | None = None
    response_p99: float | None = None
    """Accurate to within a fifth. Over several partitions, that of the slowest."""
    response_max: float | None = None
    backlog_rows: int = 0
    """Rows whose results are deferred."""
    complete_from: int | None = None
    """Event time from which results are complete, in microseconds; None for the query's start."""

    @classmethod
    def together(cls, parts: Sequence[BatchQueryMetrics]) -> BatchQueryMetrics:
        """The metrics over several partitions."""
        results = sum(p.results for p in parts)
        means = [(p.response_mean, p.results) for p in parts if p.response_mean is not None]

        def largest(values: Iterable[Any]) -> Any:
            return max((v for v in values if v is not None), default=None)

        return cls(
            results,
            sum(mean * n for mean, n in means) / results if results else None,
            largest(p.response_p99 for p in parts),
            largest(p.response_max for p in parts),
            sum(p.backlog_rows for p in parts),
            largest(p.complete_from for p in parts),
        )

    def and_then(self, later: BatchQueryMetrics) -> BatchQueryMetrics:
        """The metrics over two successive spans of time."""
        return replace(BatchQueryMetrics.together([self, later]), backlog_rows=later.backlog_rows)
