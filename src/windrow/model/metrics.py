"""Metrics of an operator: declared counters and gauges, and the quality of its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windrow.model.metric_fields import counter, gauge, largest, losses, mean_over_rows, recall_text
from windrow.model.notebook import html_fields, html_text, short_repr
from windrow.model.units import format_bytes


@dataclass(frozen=True, kw_only=True)
class StreamCounts:
    """Counters per stream; a join's are their sum."""

    rows_in: int = counter("Rows that arrived.")
    rows_copied: int = counter("Copies of rows beyond the first, where partitions share a stream's rows.")
    rows_late: int = counter("Rows older than the watermark; dropped.", lost="late")
    rows_ahead: int = counter("Rows too far ahead of the clock; dropped.", lost="too far ahead")
    rows_null_time: int = counter("Rows without an event time; dropped.", lost="without time")
    files_skipped: int = counter(
        "Files that could not be read, or had vanished, and were skipped.", unit="files", lost="files skipped"
    )
    rows_filtered: int = counter(
        "Rows no result can contain: a condition on them is false, or a key is null.", copies=True
    )
    rows_failed: int = counter(
        "Rows with an expression over them alone that failed, such as a cast, and was taken as null.",
        lost="failed",
    )
    rows_expired: int = counter("Rows removed because no later row can join them.", copies=True)
    rows_evicted: int = counter("Rows evicted to stay inside the memory limit.", lost="evicted", copies=True)
    rows_dropped: int = counter("Rows never admitted, for lack of time.", lost="dropped", copies=True)
    window_rows: int = gauge("Rows in the windows.", held=True, copies=True)
    memory_bytes: int = gauge("Memory of the windows.", unit="bytes", held=True, copies=True)
    spilled_bytes: int = gauge(
        "Bytes of the windows that are in local files and not in memory.",
        unit="bytes",
        held=True,
        copies=True,
    )


@dataclass(frozen=True, kw_only=True)
class JoinCounts(StreamCounts):
    """Counters of a join."""

    rows_buffered: int = gauge("Rows that wait until their order is known or there is time.", held=True)
    results: int = counter("Results.", unit="results")
    results_unmatched: int = counter(
        "Results of an outer or anti join that lack a row of some stream.", unit="results"
    )
    results_uncertain: int = counter(
        "Results that may be false, because a row that was shed could have matched.", unit="results"
    )
    combinations_parked: int = gauge(
        "Combinations of an outer, semi, anti or as-of join that wait until no row can match them.",
        unit="combinations", held=True,
    )  # fmt: skip
    combinations_given_up: int = counter(
        "Combinations that were never decided, because a row of their own was evicted.", unit="combinations"
    )
    combinations_failed: int = counter(
        "Combinations of rows on which a condition over several streams failed and was taken as null.",
        unit="combinations", lost="combinations failed",
    )  # fmt: skip
    comparisons: int = counter("Rows compared while probing.")
    sub_batches: int = counter("Sub-batches processed.", unit="sub-batches")
    expiry_passes: int = counter("Removals of expired rows.", unit="passes")
    replans: int = counter("Changes of the join order because the streams had changed.", unit="plans")
    missed_deadlines: int = counter("Calls that took over 1.2 times the deadline.", unit="calls")
    throttle_fraction: float = gauge(
        "Fraction of the full work there was time for in the last call; 1 without a deadline.",
        unit="fraction", merge=mean_over_rows, default=1.0,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ResultCounts:
    """Sums behind the recall estimate: they can be added over operators and subtracted between moments."""

    results_found: float = counter("Results the estimate of the recall knows of.", unit="results")
    results_estimated: float = counter("The true number of results, estimated.", unit="results")
    results_variance: float = counter("Variance of that estimate.", unit="results squared")
    results_max_weight: float = gauge(
        "The most missed results one unsampled row can represent; 0 if nothing was ever lost.",
        unit="results", merge=largest,
    )  # fmt: skip
    rows_null_importance: int = counter("Rows without an importance, which count as unimportant.")


@dataclass(frozen=True, kw_only=True)
class BatchCounts(JoinCounts, ResultCounts):
    """Counters of a micro-batch."""


@dataclass(frozen=True, kw_only=True)
class StreamMetrics(StreamCounts):
    """Metrics of one stream."""

    rate: float
    """Recent rows per second of event time."""
    max_event_time: int | None
    """Newest event time seen, in microseconds since 1970."""

    __repr__ = short_repr
    _repr_html_ = html_fields

    def __str__(self) -> str:
        return f"{self.rows_in:,} rows in at {self.rate:,.0f}/s, {self.window_rows:,} in the window"


@dataclass(frozen=True, kw_only=True)
class Quality(ResultCounts):
    """Quality of the results since the operator's start. Fields that do not apply are None."""

    recall: float = 1.0
    """Estimated fraction of the true results that was found, with its 95 % interval. NaN if unknown. Results
    that late rows would have had are not among the true ones."""
    recall_low: float = 1.0
    recall_high: float = 1.0
    monitored_rows: int = 0
    """Rows kept until they expire, even if the policy would evict them, to measure loss."""
    importance: float | None = None
    """Total importance of the results."""
    importance_recall: float | None = None
    """Its fraction of the true total, with its interval."""
    importance_recall_low: float | None = None
    importance_recall_high: float | None = None
    fairness: float | None = None
    """Jain's index of residence times: 1 if all rows stayed equally long."""
    priority_recomputations: int | None = None
    """How often the priorities of a stream's rows were computed."""
    sampling_fraction: float | None = None
    """Fraction of the results that is currently sampled."""

    __repr__ = short_repr

    def __str__(self) -> str:
        return f"recall {recall_text((self.recall, self.recall_low, self.recall_high), 0)}"

    def _repr_html_(self) -> str:
        return html_fields(self, "Quality (late rows are not counted)")


@dataclass(frozen=True, kw_only=True)
class OperatorMetrics(JoinCounts):
    """Metrics of an operator. Counters run from its start, or that of the one it was restored from."""

    quality: Quality
    complete_from: int | None = None
    """Event time in microseconds from which results are complete, where a restart with larger windows or with
    another limit lacked rows; None if none are missing, the largest integer if it is not known yet."""
    streams: Mapping[str, StreamMetrics]

    @property
    def recall(self) -> float:
        return self.quality.recall

    @property
    def recall_low(self) -> float:
        return self.quality.recall_low

    @property
    def recall_high(self) -> float:
        return self.quality.recall_high

    __repr__ = short_repr
    _repr_html_ = html_text

    def __str__(self) -> str:
        lost = losses(JoinCounts, self)
        lines = [
            f"{self.rows_in:,} rows in{lost and ', '}{lost}, {self.results:,} results, recall "
            + recall_text((self.recall, self.recall_low, self.recall_high), self.rows_late),
            f"windows hold {self.window_rows:,} rows in {format_bytes(self.memory_bytes)}"
            + (f" and {format_bytes(self.spilled_bytes)} on disk" if self.spilled_bytes else "")
            + (f"; {self.rows_filtered:,} rows filtered" if self.rows_filtered else "")
            + (f"; {self.rows_buffered:,} rows buffered" if self.rows_buffered else "")
            + f"; {self.comparisons:,} comparisons in {self.sub_batches:,} sub-batches",
        ]
        if self.throttle_fraction < 1 or self.missed_deadlines:
            lines.append(f"throttle {self.throttle_fraction:.1%}; {self.missed_deadlines:,} missed deadlines")
        return "\n".join([*lines, *(f"  {alias}: {stream}" for alias, stream in self.streams.items())])
