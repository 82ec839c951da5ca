"""A query's metrics in Prometheus' text format, version 0.0.4."""

from __future__ import annotations

import windrow
from windrow.model.metric_fields import Metric, metrics_of
from windrow.model.metrics import JoinCounts, StreamCounts
from windrow.ui.batch_point import limit_in_rows
from windrow.ui.history import History, JoinHistory

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
FAMILIES = {
    "info": ("gauge", "Always 1; the version is a label."),
    "up": ("gauge", "1 while the query runs, 0 when it waits for its first batch or has ended."),
    "batches_total": ("counter", "Batches that ended."),
    "results_late_total": ("counter", "Results that arrived too late for the aggregation."),
    "offsets_behind": ("gauge", "Unread rows of the source, in the partition that is furthest behind."),
    "memory_limit_bytes": ("gauge", "Memory limit of the windows, where it is in bytes."),
    "memory_limit_rows": ("gauge", "Memory limit of the windows, where it is in rows."),
    "batch_seconds": ("gauge", "Seconds of the last batch, as Spark reports it."),
    "slowest_partition_seconds": (
        "gauge",
        "Seconds of the slowest partition of the join, in the last batch.",
    ),
    "deadline_seconds": ("gauge", "Deadline of a partition, in seconds."),
    "recall": (
        "gauge",
        "Fraction of true results found in the last batch, estimated; late rows aside.",
    ),
    "recall_low": ("gauge", "Lower end of its 95 % interval."),
    "recall_high": ("gauge", "Upper end of its 95 % interval."),
    "run_recall": (
        "gauge",
        "Fraction of true results found since the start, estimated; late rows aside.",
    ),
    "partition_skew": ("gauge", "Rows of the fullest partition over the mean, in the last batch."),
    "partition_window_rows": ("gauge", "Rows in the windows of a partition."),
    "query_results_total": ("counter", "Results of a query that shares the join."),
    "query_response_seconds": ("gauge", "Response time of a query's results in the last batch."),
    "query_backlog_rows": ("gauge", "Rows whose results for a query are not finished."),
}
"""Metrics in addition to the declared ones."""


def family_name(metric: Metric) -> str:
    """The name of a declared metric in Prometheus."""
    return f"{metric.name}_total" if metric.counter else metric.name


class _Samples:
    """Samples of all metrics, and their text."""

    def __init__(self) -> None:
        declared = metrics_of(JoinCounts)
        kinds = {family_name(m): ("counter" if m.counter else "gauge", m.help) for m in declared}
        self._families = FAMILIES | kinds
        self._lines: dict[str, list[str]] = {name: [] for name in self._families}

    def add(self, family: str, value: float | None, **labels: str) -> None:
        """Add a sample, unless it is None."""
        if value is not None:
            named = ",".join(f'{name}="{escaped(text)}"' for name, text in labels.items())
            self._lines[family].append(f"windrow_{family}{{{named}}} {_number(float(value))}")

    def __str__(self) -> str:
        found = []
        for name, lines in self._lines.items():
            if lines:
                kind, help = self._families[name]
                found += [f"# HELP windrow_{name} {help}", f"# TYPE windrow_{name} {kind}", *lines]
        return "\n".join(found) + "\n"


def exposition(history: History) -> str:
    """All metrics, as text."""
    samples = _Samples()
    add = samples.add
    with history.lock:
        add("info", 1, version=windrow.__version__, query=history.name)
        add("up", history.state == "running", query=history.name)
        add("batches_total", history.batches, query=history.name)
        add("results_late_total", history.results_late, query=history.name)
        for name, join in history.joins.items():
            _add_join(samples, name, join)
    return str(samples)


def _add_join(samples: _Samples, name: str, join: JoinHistory) -> None:
    add, total, latest = samples.add, join.total, join.latest
    assert total is not None and latest is not None
    by_stream = metrics_of(StreamCounts)
    for metric in metrics_of(JoinCounts):
        source = total if metric.counter else latest
        if metric in by_stream:
            for alias, stream in source.streams.items():
                add(family_name(metric), getattr(stream, metric.name), join=name, stream=alias)
        else:
            add(family_name(metric), getattr(source, metric.name), join=name)
    add("offsets_behind", latest.offsets_behind, join=name)
    add("batch_seconds", latest.seconds, join=name)
    add("slowest_partition_seconds", latest.slowest_partition_seconds, join=name)
    add("deadline_seconds", latest.deadline_seconds, join=name)
    add("partition_skew", latest.skew, join=name)
    unit = "rows" if limit_in_rows(join.partitions.values()) else "bytes"
    add(f"memory_limit_{unit}", latest.memory_limit_size, join=name)
    estimate, low, high = latest.recall or (float("nan"), 0.0, 1.0)
    add("recall", estimate, join=name)
    add("recall_low", low, join=name)
    add("recall_high", high, join=name)
    add("run_recall", total.recall[0] if total.recall else float("nan"), join=name)
    for number, part in sorted(join.partitions.items()):
        add("partition_window_rows", part["window_rows"], join=name, partition=str(number))
    for query, point in total.queries.items():
        add("query_results_total", point.results, join=name, query=query)
    for query, point in latest.queries.items():
        add("query_response_seconds", point.response_mean, join=name, query=query, stat="mean")
        add("query_response_seconds", point.response_p99, join=name, query=query, stat="p99")
        add("query_backlog_rows", point.backlog_rows, join=name, query=query)


def escaped(text: str) -> str:
    """A label's value, escaped.

    >>> print(escaped('a "b"'))
    a \\"b\\"
    """
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", " ")


def _number(value: float) -> str:
    if value != value:
        return "NaN"
    return str(int(value)) if value == int(value) else repr(value)
