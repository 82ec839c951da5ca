"""Metrics, each declared once: as a field of the record that carries it.

The declaration holds the help text, the unit, and how the values of several partitions or streams are merged.
All code that merges, subtracts, shows, exports or documents metrics reads it. A counter only grows: its value
in a micro-batch is the difference of two measurements, and micro-batches add up. A gauge is an instantaneous
value: over several micro-batches the largest counts, or the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

Merge = Callable[[Sequence[Any], Sequence[float]], Any]
"""Merges the values of several partitions, given the rows of each, or the results of a query."""


def total(values: Sequence[Any], rows: Sequence[float]) -> Any:
    return sum(values)


def largest(values: Sequence[Any], rows: Sequence[float]) -> Any:
    return max(values, default=0)


def largest_known(values: Sequence[Any], rows: Sequence[float]) -> Any:
    """The largest; None if all are None."""
    return max((v for v in values if v is not None), default=None)


def mean_over_rows(values: Sequence[float], rows: Sequence[float]) -> float:
    """Mean weighted by rows; 1 without rows."""
    return sum(v * n for v, n in zip(values, rows, strict=True)) / sum(rows) if sum(rows) else 1.0


def mean_known(values: Sequence[float | None], rows: Sequence[float]) -> float | None:
    """The mean by rows of those that are not None; None without any."""
    known = [(v, n) for v, n in zip(values, rows, strict=True) if v is not None and n]
    return sum(v * n for v, n in known) / sum(n for _, n in known) if known else None


@dataclass(frozen=True)
class Metric:
    """The declaration of one metric."""

    help: str
    unit: str
    merge: Merge
    counter: bool
    lost: str = ""
    """Name for what this counts as lost; empty if it counts no loss."""
    copies: bool = False
    """Whether it counts the copies of rows that partitions share, not rows: each stores or loses its own."""
    held: bool = False
    """Whether a partition without rows in a micro-batch keeps its value."""
    last: bool = False
    """Whether over several micro-batches the last value counts."""
    name: str = ""


def counter(help: str, unit: str = "rows", lost: str = "", copies: bool = False) -> Any:
    """Declare a field that counts from the operator's start."""
    return field(default=0, metadata={"metric": Metric(help, unit, total, True, lost, copies)})


def gauge(
    help: str,
    unit: str = "rows",
    held: bool = False,
    merge: Merge = total,
    default: Any = 0,
    copies: bool = False,
    last: bool = False,
) -> Any:
    """Declare a field that holds an instantaneous value."""
    metric = Metric(help, unit, merge, False, copies=copies, held=held, last=last)
    return field(default=default, metadata={"metric": metric})


@cache
def metrics_of(record: type) -> tuple[Metric, ...]:
    """The metrics a record declares or inherits."""
    return tuple(replace(f.metadata["metric"], name=f.name) for f in fields(record) if "metric" in f.metadata)


def merged(record: type, values: Sequence[Mapping[str, Any]], rows: Sequence[float] = ()) -> dict[str, Any]:
    """The metrics of `record` over several partitions or streams, each merged by its own rule."""
    return {m.name: m.merge([v[m.name] for v in values], rows) for m in metrics_of(record)}


def between(record: type, before: Any, after: Any) -> dict[str, Any]:
    """The metrics of `record` between two measurements."""
    return {
        m.name: getattr(after, m.name) - (getattr(before, m.name) if m.counter else 0)
        for m in metrics_of(record)
    }


def in_turn(record: type, first: Any, second: Any, rows: Sequence[float]) -> dict[str, Any]:
    """The metrics of `record` over two successive spans of time."""

    def both(m: Metric) -> Any:
        if m.last:
            return getattr(second, m.name)
        # A gauge adds up over partitions, but not over time.
        rule = largest if m.merge is total and not m.counter else m.merge
        return rule([getattr(first, m.name), getattr(second, m.name)], rows)

    return {m.name: both(m) for m in metrics_of(record)}


def recall_text(recall: Sequence[float], rows_late: int) -> str:
    """A recall with its interval. Results that late rows would have had are not in it, so that their number
    is shown beside it.

    >>> recall_text((0.914, 0.9052, 0.922), 12)
    '0.914 [0.905, 0.922], not counting 12 late rows'
    >>> recall_text((math.nan, 0.0, 1.0), 0)
    'unknown [0.000, 1.000]'
    """
    estimate, low, high = recall
    late = f", not counting {rows_late:,} late row{'s' * (rows_late > 1)}" if rows_late else ""
    shown = "unknown" if math.isnan(estimate) else f"{estimate:.3f}"
    return f"{shown} [{low:.3f}, {high:.3f}]{late}"


def lost_rows(record: type, values: Any) -> dict[str, int]:
    """Rows lost, by cause.

    A row is lost in part if some of its copies are: three of four copies evicted are three quarters of a row.
    So these are never more rows than arrived.

    >>> from windrow.model.metrics import StreamCounts
    >>> counts = StreamCounts(rows_in=100, rows_copied=300, rows_late=2, rows_evicted=40)
    >>> {cause: rows for cause, rows in lost_rows(StreamCounts, counts).items() if rows}
    {'late': 2, 'evicted': 10}
    """
    share = values.rows_in / (values.rows_in + values.rows_copied) if values.rows_in else 1.0
    return {
        m.lost: round(getattr(values, m.name) * (share if m.copies else 1))
        for m in metrics_of(record)
        if m.lost and m.unit == "rows"
    }


def losses(record: type, values: Any) -> str:
    """Losses by cause, as text; empty without losses.

    >>> from windrow.model.metrics import StreamCounts
    >>> losses(StreamCounts, StreamCounts(rows_late=1200, rows_evicted=3, files_skipped=1))
    '1,200 late, 3 evicted, 1 files skipped'
    """
    others = {m.lost: getattr(values, m.name) for m in metrics_of(record) if m.lost and m.unit != "rows"}
    found = lost_rows(record, values) | others
    return ", ".join(f"{count:,} {cause}" for cause, count in found.items() if count)
