"""A query's figures as Prometheus reads them: the text format, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import windrow
from windrow.page.history import History, JoinHistory

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]


class Tell(Protocol):
    """Adds a sample to a metric; None is none."""

    def __call__(self, family: str, value: float | None, **labels: str) -> None: ...


@dataclass
class Family:
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
    "rows_total": ("counter", "Rows that came in."),
    "results_total": ("counter", "Results of the join."),
    "rows_late_total": ("counter", "Rows left out because they came too late."),
    "rows_ahead_total": ("counter", "Rows set aside because their time was too far ahead of the clock."),
    "rows_without_time_total": ("counter", "Rows left out because they have no event time."),
    "rows_shed_total": (
        "counter",
        "Rows that left a window before they expired, for memory; each copy.",
    ),
    "rows_dropped_total": ("counter", "Rows that were never let in, for lack of time; each copy."),
    "results_late_total": ("counter", "Results that came too late for the aggregation."),
    "rows_waiting": ("gauge", "Rows held back until their place is certain or there is time for them."),
    "offsets_behind": ("gauge", "Rows the source still holds, in its partition that is furthest back."),
    "window_rows": ("gauge", "Rows in the windows."),
    "memory_bytes": ("gauge", "What the windows take."),
    "memory_limit_bytes": ("gauge", "What they may take, where the limit is in bytes."),
    "memory_limit_rows": ("gauge", "Rows they may hold, where the limit is in rows."),
    "batch_seconds": ("gauge", "What the last batch took, as Spark tells it."),
    "join_seconds": ("gauge", "What the slowest partition of the join took in the last batch."),
    "deadline_seconds": ("gauge", "What it may take."),
    "throttle": ("gauge", "Part of the full work that there was time for in the last batch."),
    "recall": ("gauge", "Part of the true results that was found in the last batch, estimated."),
    "recall_low": ("gauge", "Lower end of its 95 % interval."),
    "recall_high": ("gauge", "Upper end of its 95 % interval."),
    "recall_of_run": ("gauge", "Part of the true results found since the start, estimated."),
    "partition_skew": ("gauge", "Rows of the fullest partition over the mean, in the last batch."),
    "partition_window_rows": ("gauge", "Rows in the windows of a partition."),
    "query_results_total": ("counter", "Results of a query that shares the join."),
    "query_response_seconds": ("gauge", "Response time of a query's results in the last batch."),
    "query_backlog_rows": ("gauge", "Rows whose results for a query are not finished."),
}


def exposition(history: History) -> str:
    """Everything, as text."""
    families = {name: Family(f"windrow_{name}", *told) for name, told in FAMILIES.items()}

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


def _tell_join(tell: Tell, name: str, join: JoinHistory) -> None:
    total, latest = join.total, join.latest
    assert total is not None and latest is not None
    for alias, rows in total.rows.items():
        tell("rows_total", rows, join=name, stream=alias)
    counters = {
        "rows_late": "late",
        "rows_ahead": "ahead",
        "rows_without_time": "untimed",
        "rows_shed": "shed",
    }
    counters |= {"rows_dropped": "dropped", "results": "results"}
    for family, attribute in counters.items():
        tell(f"{family}_total", getattr(total, attribute), join=name)
    gauges = {"rows_waiting": "waiting", "offsets_behind": "behind", "window_rows": "window_rows"}
    gauges |= {"batch_seconds": "seconds", "join_seconds": "busy", "deadline_seconds": "allowed"}
    gauges |= {"throttle": "throttle", "partition_skew": "skew"}
    for family, attribute in gauges.items():
        tell(family, getattr(latest, attribute), join=name)
    tell("memory_bytes", sum(p["memory_bytes"] for p in join.partitions.values()), join=name)
    in_rows = any((p["memory_limit"] or "").endswith("rows") for p in join.partitions.values())
    tell("memory_limit_rows" if in_rows else "memory_limit_bytes", latest.room, join=name)
    estimate, low, high = latest.recall or (float("nan"), 0.0, 1.0)
    tell("recall", estimate, join=name)
    tell("recall_low", low, join=name)
    tell("recall_high", high, join=name)
    tell("recall_of_run", total.recall[0] if total.recall else float("nan"), join=name)
    for number, part in sorted(join.partitions.items()):
        tell("partition_window_rows", part["window_rows"], join=name, partition=str(number))
    for query, point in total.queries.items():
        tell("query_results_total", point.results, join=name, query=query)
    for query, point in latest.queries.items():
        tell("query_response_seconds", point.mean, join=name, query=query, of="mean")
        tell("query_response_seconds", point.p99, join=name, query=query, of="p99")
        tell("query_backlog_rows", point.backlog, join=name, query=query)


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
