"""A query's metrics in Prometheus' text format, version 0.0.4."""

from __future__ import annotations

import windrow
from windrow.model.metric_fields import Metric, metrics_of
from windrow.model.metrics import JoinCounts, StreamCounts
from windrow.model.query_metrics import QueryCounts
from windrow.ui.batch_point import BatchPoint, limit_in_rows
from windrow.ui.history import History, JoinHistory

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OF_RUN = ("batches", "results_late")
OF_BATCH = {
    "offsets_behind": "offsets_behind",
    "batch_seconds": "seconds",
    "slowest_partition_seconds": "slowest_partition_seconds",
    "partition_skew": "skew",
}
"""Metrics of the last batch, and their fields in `BatchPoint`."""
OF_QUERY = tuple(m for m in metrics_of(QueryCounts) if m.unit in ("results", "rows"))
"""Metrics of a query. Its response times are one metric here."""
UNDECLARED = {
    "info": "Always 1; the version is a label.",
    "up": "1 while the query runs, 0 when it waits for its first batch or has ended.",
    "memory_limit_bytes": "Memory limit of the windows, where it is in bytes.",
    "memory_limit_rows": "Memory limit of the windows, where it is in rows.",
    "deadline_seconds": "Deadline of a partition, in seconds.",
    "recall": "Fraction of true results found in the last batch, estimated; late rows aside.",
    "recall_low": "Lower end of its 95 % interval.",
    "recall_high": "Upper end of its 95 % interval.",
    "run_recall": "Fraction of true results found since the start, estimated; late rows aside.",
    "partition_window_rows": "Rows in the windows of a partition.",
    "query_response_seconds": "Response time of a query's results in the last batch.",
}
"""Gauges that are no field of their own."""


def family_name(metric: Metric) -> str:
    """The name of a declared metric in Prometheus."""
    return f"{metric.name}_total" if metric.counter else metric.name


def _families() -> dict[str, tuple[str, str]]:
    """Kind and help text by name."""
    of_point = {m.name: m for m in metrics_of(BatchPoint)}
    declared = {family: of_point[field] for family, field in OF_BATCH.items()}
    declared |= {family_name(of_point[name]): of_point[name] for name in OF_RUN}
    declared |= {f"query_{family_name(m)}": m for m in OF_QUERY}
    declared |= {family_name(m): m for m in metrics_of(JoinCounts)}
    found = {name: ("gauge", help) for name, help in UNDECLARED.items()}
    return found | {name: ("counter" if m.counter else "gauge", m.help) for name, m in declared.items()}


class _Samples:
    """Samples of all metrics, and their text."""

    def __init__(self) -> None:
        self._families = _families()
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
        for name in OF_RUN:
            add(f"{name}_total", getattr(history, name), query=history.name)
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
    for family, field in OF_BATCH.items():
        add(family, getattr(latest, field), join=name)
    add("deadline_seconds", latest.deadline_seconds, join=name)
    unit = "rows" if limit_in_rows(join.partitions.values()) else "bytes"
    add(f"memory_limit_{unit}", latest.memory_limit_size, join=name)
    estimate, low, high = latest.recall or (float("nan"), 0.0, 1.0)
    add("recall", estimate, join=name)
    add("recall_low", low, join=name)
    add("recall_high", high, join=name)
    add("run_recall", total.recall[0] if total.recall else float("nan"), join=name)
    for number, part in sorted(join.partitions.items()):
        add("partition_window_rows", part["window_rows"], join=name, partition=str(number))
    for metric in OF_QUERY:
        for query, point in (total if metric.counter else latest).queries.items():
            add(f"query_{family_name(metric)}", getattr(point, metric.name), join=name, query=query)
    for query, point in latest.queries.items():
        add("query_response_seconds", point.response_mean, join=name, query=query, stat="mean")
        add("query_response_seconds", point.response_p99, join=name, query=query, stat="p99")


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
