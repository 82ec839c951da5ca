"""Console output: the pipeline with its plan, and its progress."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from windrow.model.metric_fields import in_turn, losses, recall_text
from windrow.model.metrics import JoinCounts
from windrow.model.units import format_bytes
from windrow.pipeline.builder import BuiltPipeline
from windrow.redaction import redacted
from windrow.spark.metrics import PartitionMetrics
from windrow.spark.query_progress import BatchProgress


def check_facts(built: BuiltPipeline) -> dict[str, Any]:
    """Streams, windows, partitioning, plan and sink of a pipeline that has not been started, for JSON."""
    p = built.pipeline
    return {
        "name": p.run.name,
        "on": p.query.on,
        "streams": {
            source.name: {
                "from": source.origin,
                "filter": source.filter,
                "time": p.query.streams[source.name].time,
                "window": str(p.query.streams[source.name].window),
                "columns": {f.name: f.dataType.simpleString() for f in frame.fields},
            }
            for source, frame in zip(p.sources, built.prepared.frames, strict=True)
        },
        "partitions": built.prepared.partitioning.splitlines(),
        "trigger": str(p.run.trigger),
        "aggregate": p.aggregate and f"{', '.join(p.aggregate.aggregates)} over {p.aggregate.groups}",
        "sink": {"format": p.sink.format, "path": _shown(p.sink.path), "mode": p.mode},
        "columns": list(built.output.frame.columns),
        "checkpoint": _shown(p.run.checkpoint),
        "state": _shown(p.execution.state),
        "plan": built.plan.to_dict(),
    }


def print_check(console: Console, facts: Mapping[str, Any]) -> None:
    """Print the result of `check_facts`."""
    console.print(f"{facts['name']}  {facts['on']}", highlight=False, style="bold")
    rows = []
    for name, stream in facts["streams"].items():
        source = stream["from"] + (f" where {stream['filter']}" if stream["filter"] else "")
        columns = ", ".join(f"{column} {kind}" for column, kind in stream["columns"].items())
        rows.append((name, source, stream["time"], stream["window"], columns))
    console.print(_table(("stream", "from", "time", "window", "columns"), rows))
    sink = facts["sink"]
    shown = {
        "partitions": "\n".join(facts["partitions"]),
        "trigger": facts["trigger"],
        "aggregate": facts["aggregate"],
        "sink": f"{sink['format']} {sink['path'] or ''} ({sink['mode']})",
        "columns": ", ".join(facts["columns"]),
        "checkpoint": facts["checkpoint"],
        "state": facts["state"],
    }
    console.print(_pairs({name: value for name, value in shown.items() if value}))
    console.print("plan, at one row per second of each stream; a running join measures the rates:")
    console.print(Text(facts["plan"]["text"]), soft_wrap=True)


def _shown(path: str | None) -> str | None:
    return None if path is None else redacted(path)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[str] = ()) -> Table:
    table = Table(box=None, header_style="dim")
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _pairs(shown: dict[str, str]) -> Table:
    table = Table(box=None, show_header=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in shown.items():
        table.add_row(name, Text(value))
    return table


@dataclass
class Totals:
    """Counts since this process started, and the current contents of the windows.

    Partitions without rows do not report. Their last report counts.
    """

    batches: int = 0
    seconds: float = 0.0
    counts: JoinCounts = field(default_factory=JoinCounts)
    results_late: int = 0
    last: BatchProgress | None = None
    partitions: dict[tuple[str, int], PartitionMetrics] = field(default_factory=dict)

    def add(self, progress: BatchProgress) -> None:
        self.batches += 1
        self.seconds += progress.seconds
        self.results_late += progress.results_late
        self.last = progress
        for join in progress.joins:
            rows = [self.counts.rows_in, join.rows_in]
            self.counts = JoinCounts(**in_turn(JoinCounts, self.counts, join, rows))
            self.partitions |= {(join.join, p.partition): p for p in join.partitions}

    @property
    def window_rows(self) -> int:
        return sum(p.window_rows for p in self.partitions.values())

    @property
    def memory_bytes(self) -> int:
        return sum(p.memory_bytes for p in self.partitions.values())

    def lost(self) -> str:
        late = f"{self.results_late:,} results too late for the aggregation" if self.results_late else ""
        return ", ".join(filter(None, [losses(JoinCounts, self.counts), late])) or "none"

    def __str__(self) -> str:
        return (
            f"{self.batches:,} batches in {self.seconds:.1f} s: {self.counts.rows_in:,} rows in, "
            f"{self.counts.results:,} results; lost: {self.lost()}; windows hold {self.window_rows:,} rows "
            f"in {format_bytes(self.memory_bytes)}"
        )


class ConsoleView:
    """A live panel on a terminal, a line per batch elsewhere, nothing if quiet."""

    def __init__(self, console: Console, name: str, quiet: bool, per_partition: bool) -> None:
        self.totals = Totals()
        self._console = console
        self._name = name
        self._quiet = quiet
        self._per_partition = per_partition
        self._began = time.monotonic()
        live = console.is_terminal and not quiet
        self._live = Live(self._render(), console=console, auto_refresh=False) if live else None

    def __enter__(self) -> ConsoleView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.update(self._render(), refresh=True)
            self._live.stop()

    def update(self, news: Sequence[BatchProgress]) -> None:
        for progress in news:
            self.totals.add(progress)
            if self._live is None and not self._quiet:
                self._print(progress)
        if self._live is not None:
            self._live.update(self._render(), refresh=True)

    def _print(self, progress: BatchProgress) -> None:
        for join in progress.joins:
            self._console.print(str(join), highlight=False, markup=False, soft_wrap=True)
            for p in join.partitions if self._per_partition else ():
                shown = (
                    f"  partition {p.partition}: {p.rows_in:,} rows in, {p.results:,} results, windows hold "
                    f"{p.window_rows:,} rows in {format_bytes(p.memory_bytes)}"
                )
                self._console.print(shown, highlight=False, soft_wrap=True)
        if not progress.joins:
            self._console.print(
                f"{self._name} batch {progress.batch}: no rows in {progress.seconds:.2f} s", highlight=False
            )

    def _render(self) -> RenderableType:
        t, last = self.totals, self.totals.last
        elapsed = int(time.monotonic() - self._began)
        head = Text(f"{self._name}  {elapsed // 60}:{elapsed % 60:02}  Ctrl-C stops it", style="bold")
        if last is None:
            return Group(head, Text("  waiting for the first batch", style="dim"))
        rate = sum(join.rows_in for join in last.joins) / max(last.seconds, 1e-9)
        shown = {
            "batch": f"{last.batch:,} in {last.seconds:.2f} s (mean {t.seconds / t.batches:.2f} s)",
            "rows in": f"{t.counts.rows_in:,}, {rate:,.0f}/s in the last batch, "
            f"{t.counts.rows_in / max(t.seconds, 1e-9):,.0f}/s in all",
            "results": f"{t.counts.results:,}",
            "lost": t.lost(),
            "windows": f"{t.window_rows:,} rows, {format_bytes(t.memory_bytes)}",
        }
        for join in last.joins:
            if any(p.deadline for p in join.partitions):
                shown["throttle"] = f"{join.throttle_fraction:.1%} of the work in the last batch"
            if join.has_limits:
                shown["recall"] = f"{recall_text(join.recall, join.rows_late)}, in the last batch"
            for reason in sorted({r for p in join.partitions for r in p.control_errors}):
                shown["not followed"] = reason
            if join.changes:
                shown["changed"] = "\n".join(join.changes)
        parts: list[RenderableType] = [head, _pairs(shown), self._streams()]
        return Group(*parts, self._partitions()) if self._per_partition else Group(*parts)

    def _streams(self) -> Table:
        """Window contents and max event time per stream."""
        rows, held = [], list(self.totals.partitions.values())
        for alias in held[0].streams if held else ():
            parts = [p.streams[alias] for p in held]
            newest = max((s.max_event_time for s in parts if s.max_event_time is not None), default=None)
            shown = "" if newest is None else f"{datetime.fromtimestamp(newest / 1e6, UTC):%Y-%m-%d %H:%M:%S}"
            size = format_bytes(sum(s.memory_bytes for s in parts))
            rows.append((alias, f"{sum(s.window_rows for s in parts):,}", size, shown))
        return _table(("stream", "window rows", "memory", "max event time"), rows, ("window rows", "memory"))

    def _partitions(self) -> Table:
        columns = ("partition", "rows in", "results", "window rows", "memory", "join s", "hottest key")
        rows = []
        for _, p in sorted(self.totals.partitions.items()):
            hot = f"{p.hot_key} ({p.hot_key_share:.0%})" if p.hot_key is not None else ""
            counts = [f"{n:,}" for n in (p.partition, p.rows_in, p.results, p.window_rows)]
            rows.append((*counts, format_bytes(p.memory_bytes), f"{p.seconds_process:.2f}", hot))
        return _table(columns, rows, right=columns)
