"""Metrics of the queries that share a join."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windrow.model.metric_fields import counter, gauge, in_turn, largest_known, mean_known, merged
from windrow.model.metrics import OperatorMetrics
from windrow.model.notebook import html_fields, html_text, short_repr


@dataclass(frozen=True, kw_only=True)
class QueryCounts:
    """Counters of one query; response times are None without results."""

    results: int = counter("Results of a query that shares the join.", unit="results")
    response_mean: float | None = gauge(
        "Mean response time of a query's results.", unit="seconds", merge=mean_known, default=None
    )
    response_p99: float | None = gauge(
        "Their 99th percentile, accurate to within a fifth; over several partitions, that of the slowest.",
        unit="seconds", merge=largest_known, default=None,
    )  # fmt: skip
    response_max: float | None = gauge(
        "The longest of them.", unit="seconds", merge=largest_known, default=None
    )
    backlog_rows: int = gauge("Rows whose results for a query are not finished.", last=True)
    complete_from: int | None = gauge(
        "Event time from which a query's results are complete; None for its start.",
        unit="microseconds", merge=largest_known, default=None,
    )  # fmt: skip

    __repr__ = short_repr
    _repr_html_ = html_fields

    def __str__(self) -> str:
        shown = f"{self.results:,} results"
        if self.response_mean is not None:
            shown += f", response {self.response_mean:.3g} s on average, at most {self.response_max:.3g} s"
        return shown + (f", {self.backlog_rows:,} rows behind" if self.backlog_rows else "")


@dataclass(frozen=True, kw_only=True, repr=False)
class BatchQueryMetrics(QueryCounts):
    """Metrics of one query, in one partition and micro-batch or over several.

    A response time runs from the start of the micro-batch in which the newest row of a result arrives to the
    end of the one that delivers the result.
    """

    @classmethod
    def together(cls, parts: Sequence[BatchQueryMetrics]) -> BatchQueryMetrics:
        """The metrics over several partitions."""
        return cls(**merged(cls, [vars(p) for p in parts], [p.results for p in parts]))

    def and_then(self, later: BatchQueryMetrics) -> BatchQueryMetrics:
        """The metrics over two successive spans of time."""
        return BatchQueryMetrics(**in_turn(QueryCounts, self, later, [self.results, later.results]))


@dataclass(frozen=True, kw_only=True, repr=False)
class QueryMetrics(QueryCounts):
    """Metrics of one query since its start. A response time runs from the arrival of a result's newest row to
    the end of the call that delivers the result or, unit by unit, to its release. It is in seconds of the
    operator's clock."""

    since: int | None
    """Event time of the first results it gets, in microseconds; None for its start."""
    until: int | None
    """Event time from which it gets none; None if it has no end."""


@dataclass(frozen=True)
class SearchProgress:
    """How far the search for results has come, and what waits."""

    rows_probed: int
    """Rows found by an index, or scanned."""
    found: int
    """Results found."""
    backlog_rows: int
    """Rows that have not been searched for in all windows."""
    results_held: int
    """Results that some query will get but may not have yet."""


@dataclass(frozen=True)
class SharedMetrics:
    """Metrics of all joins and queries."""

    joins: tuple[OperatorMetrics, ...]
    queries: Mapping[str, QueryMetrics]
    control_errors: tuple[str, ...] = ()
    """Why queries that were added before the columns were known were removed."""

    __repr__ = short_repr
    _repr_html_ = html_text

    def __str__(self) -> str:
        lines = [f"join {k}: {m}" for k, m in enumerate(self.joins, 1)]
        lines += [f"  {name}: {query}" for name, query in self.queries.items()]
        lines += [f"  control error: {reason}" for reason in self.control_errors]
        return "\n".join(lines)
