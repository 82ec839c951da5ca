"""A query's figures as Prometheus reads them: the text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import windrow
from windrow.model.metric_fields import Metric, metrics_of
from windrow.model.metrics import JoinCounts, StreamCounts
from windrow.ui.batch_point import limit_in_rows
from windrow.ui.history import History, JoinHistory

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]


class AddSample(Protocol):
    """Adds a sample to a metric; None is none."""

    def __call__(self, family: str, value: float | None, **labels: str) -> None: ...


@dataclass
class MetricFamily:
    """One metric with its samples."""

    name: str
    kind: str
    help: str
    samples: list[tuple[Labels, float]] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in self.samples:
            named = ",".join(f'{name}="{escaped(text)}"' for name, text in labels.items())
            yield f"{self.name}{{{named}}} {_number(value)}" if named else f"{self.name} {_number(value)}"


FAMILIES = {
    "info": ("gauge", "Always 1; the version is a label."),
    "up": ("gauge", "1 while the query runs, 0 when it waits for its first batch or has ended."),
    "batches_total": ("counter", "Batches that ended."),
    "results_late_total": ("counter", "Results that came too late for the aggregation."),
    "offsets_behind": ("gauge", "Rows the source still holds, in its partition that is furthest back."),
    "memory_limit_bytes": ("gauge", "Memory limit of the windows, where it is in bytes."),
    "memory_limit_rows": ("gauge", "Memory limit of the windows, where it is in rows."),
    "batch_seconds": ("gauge", "Seconds of the last batch, as Spark tells it."),
    "slowest_partition_seconds": (
        "gauge",
        "Seconds of the slowest partition of the join, in the last batch.",
    ),
    "deadline_seconds": ("gauge", "Seconds it may take."),
    "recall": ("gauge", "Fraction of the true results that was found in the last batch, estimated."),
    "recall_low": ("gauge", "Lower end of its 95 % interval."),
    "recall_high": ("gauge", "Upper end of its 95 % interval."),
    "run_recall": ("gauge", "Fraction of the true results found since the start, estimated."),
    "partition_skew": ("gauge", "Rows of the fullest partition over the mean, in the last batch."),
    "partition_window_rows": ("gauge", "Rows in the windows of a partition."),
    "query_results_total": ("counter", "Results of a query that shares the join."),
    "query_response_seconds": ("gauge", "Response time of a query's results in the last batch."),
    "query_backlog_rows": ("gauge", "Rows whose results for a query are not finished."),
}
"""Beside the declared metrics."""


def family_name(metric: Metric) -> str:
    """As Prometheus calls a declared metric."""
    return f"{metric.name}_total" if metric.counter else metric.name


def exposition(history: History) -> str:
    """Everything, as text."""
    declared = {family_name(m): ("counter" if m.counter else "gauge", m.help) for m in metrics_of(JoinCounts)}
    families = {name: MetricFamily(f"windrow_{name}", *told) for name, told in (FAMILIES | declared).items()}

    def tell(family: str, value: float | None, **labels: str) -> None:
        if value is not None:
            families[family].samples.append((labels, float(value)))

    with history.lock:
        tell("info", 1, version=windrow.__version__, query=history.name)
        tell("up", history.state == "running", query=history.name)
        tell("batches_total", history.batches, query=history.name)
        tell("results_late_total", history.results_late, query=history.name)
        for name, join in history.joins.items():
            _tell_join(tell, name, join)
    return "\n".join(line for family in families.values() if family.samples for line in family.lines()) + "\n"


def _tell_join(tell: AddSample, name: str, join: JoinHistory) -> None:
    total, latest = join.total, join.latest
    assert total is not None and latest is not None
    by_stream = metrics_of(StreamCounts)
    for metric in metrics_of(JoinCounts):
        source = total if metric.counter else latest
        if metric in by_stream:
            for alias, stream in source.streams.items():
                tell(family_name(metric), getattr(stream, metric.name), join=name, stream=alias)
        else:
            tell(family_name(metric), getattr(source, metric.name), join=name)
    tell("offsets_behind", latest.behind, join=name)
    tell("batch_seconds", latest.seconds, join=name)
    tell("slowest_partition_seconds", latest.slowest_partition_seconds, join=name)
    tell("deadline_seconds", latest.deadline_seconds, join=name)
    tell("partition_skew", latest.skew, join=name)
    unit = "rows" if limit_in_rows(join.partitions.values()) else "bytes"
    tell(f"memory_limit_{unit}", latest.memory_limit_size, join=name)
    estimate, low, high = latest.recall or (float("nan"), 0.0, 1.0)
    tell("recall", estimate, join=name)
    tell("recall_low", low, join=name)
    tell("recall_high", high, join=name)
    tell("run_recall", total.recall[0] if total.recall else float("nan"), join=name)
    for number, part in sorted(join.partitions.items()):
        tell("partition_window_rows", part["window_rows"], join=name, partition=str(number))
    for query, point in total.queries.items():
        tell("query_results_total", point.results, join=name, query=query)
    for query, point in latest.queries.items():
        tell("query_response_seconds", point.mean, join=name, query=query, stat="mean")
        tell("query_response_seconds", point.p99, join=name, query=query, stat="p99")
        tell("query_backlog_rows", point.backlog_rows, join=name, query=query)


def escaped(text: str) -> str:
    """A label's value as the format wants it.

    >>> print(escaped('a "b"'))
    a \\"b\\"
    """
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", " ")


def _number(value: float) -> str:
    if value != value:
        return "NaN"
    return str(int(value)) if value == int(value) else repr(value)
