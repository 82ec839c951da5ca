"""Console output: the pipeline with its plan, and its progress."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from windrow.draw.terminal import name_values, table
from windrow.model.metric_fields import losses, merged, metrics_of, recall_text
from windrow.model.metrics import JoinCounts
from windrow.model.units import format_bytes, format_time
from windrow.pipeline.builder import BuiltPipeline
from windrow.redaction import redacted
from windrow.spark.metrics import PartitionMetrics
from windrow.spark.query_progress import BatchProgress
from windrow.ui.history import History


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
        "queries": built.prepared.title.splitlines() if p.queries else None,
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
    console.print(table(("stream", "from", "time", "window", "columns"), rows, box=None))
    sink = facts["sink"]
    shown = {
        "queries": "\n".join(facts["queries"] or ()),
        "partitions": "\n".join(facts["partitions"]),
        "trigger": facts["trigger"],
        "aggregate": facts["aggregate"],
        "sink": f"{sink['format']} {sink['path'] or ''} ({sink['mode']})",
        "columns": ", ".join(facts["columns"]),
        "checkpoint": facts["checkpoint"],
        "state": facts["state"],
    }
    console.print(name_values({name: value for name, value in shown.items() if value}))
    console.print("plan, at one row per second of each stream; a running join measures the rates:")
    console.print(Text(facts["plan"]["text"]), soft_wrap=True)


def _shown(path: str | None) -> str | None:
    return None if path is None else redacted(path)


class ConsoleView:
    """A live panel on a terminal, a line per batch elsewhere, nothing if quiet."""

    def __init__(self, console: Console, history: History, quiet: bool, per_partition: bool) -> None:
        self._history = history
        self._last: BatchProgress | None = None
        self._reports: dict[tuple[str, int], PartitionMetrics] = {}
        """Partitions without rows do not report. Their last report counts."""
        self._seconds = 0.0
        self._console = console
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
            self._last = progress
            self._seconds += progress.seconds
            for join in progress.joins:
                self._reports |= {(join.join, p.partition): p for p in join.partitions}
            if self._live is None and not self._quiet:
                self._print(progress)
        if self._live is not None:
            self._live.update(self._render(), refresh=True)

    @property
    def summary(self) -> str:
        """All micro-batches since this process started."""
        counts = self._counts
        return (
            f"{self._history.batches:,} batches in {self._seconds:.1f} s: {counts.rows_in:,} rows in, "
            f"{counts.results:,} results; lost: {self._lost()}; windows hold {counts.window_rows:,} rows "
            f"in {format_bytes(counts.memory_bytes)}"
        )

    @property
    def _counts(self) -> JoinCounts:
        """Counts since the start, and the current contents of the windows, of all joins."""
        held = {m.name: m.held for m in metrics_of(JoinCounts)}
        joins = self._history.joins.values()
        parts = [{n: getattr(j.latest if now else j.total, n) for n, now in held.items()} for j in joins]
        return JoinCounts(**merged(JoinCounts, parts, [part["rows_in"] for part in parts]))

    def _lost(self) -> str:
        late = self._history.results_late
        shown = f"{late:,} results too late for the aggregation" if late else ""
        return ", ".join(filter(None, [losses(JoinCounts, self._counts), shown])) or "none"

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
                f"{self._history.name} batch {progress.batch}: no rows in {progress.seconds:.2f} s",
                highlight=False,
            )

    def _render(self) -> RenderableType:
        history, last, counts = self._history, self._last, self._counts
        elapsed = int(time.monotonic() - self._began)
        head = Text(f"{history.name}  {elapsed // 60}:{elapsed % 60:02}  Ctrl-C stops it", style="bold")
        if last is None:
            return Group(head, Text("  waiting for the first batch", style="dim"))
        rate = sum(join.rows_in for join in last.joins) / max(last.seconds, 1e-9)
        shown = {
            "batch": f"{last.batch:,} in {last.seconds:.2f} s (mean {self._seconds / history.batches:.2f} s)",
            "rows in": f"{counts.rows_in:,}, {rate:,.0f}/s in the last batch, "
            f"{counts.rows_in / max(self._seconds, 1e-9):,.0f}/s in all",
            "results": f"{counts.results:,}",
            "lost": self._lost(),
            "windows": f"{counts.window_rows:,} rows, {format_bytes(counts.memory_bytes)}",
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
        parts: list[RenderableType] = [head, name_values(shown), self._streams()]
        return Group(*parts, self._partitions()) if self._per_partition else Group(*parts)

    def _streams(self) -> Table:
        """Window contents and max event time per stream."""
        rows, held = [], list(self._reports.values())
        for alias in held[0].streams if held else ():
            parts = [p.streams[alias] for p in held]
            newest = max((s.max_event_time for s in parts if s.max_event_time is not None), default=None)
            size = format_bytes(sum(s.memory_bytes for s in parts))
            rows.append((alias, f"{sum(s.window_rows for s in parts):,}", size, format_time(newest)))
        columns = ("stream", "window rows", "memory", "max event time")
        return table(columns, rows, right=columns[1:3], box=None)

    def _partitions(self) -> Table:
        columns = ("partition", "rows in", "results", "window rows", "memory", "join s", "hottest key")
        rows = []
        for _, p in sorted(self._reports.items()):
            hot = f"{p.hot_key} ({p.hot_key_share:.0%})" if p.hot_key is not None else ""
            counts = [f"{n:,}" for n in (p.partition, p.rows_in, p.results, p.window_rows)]
            rows.append((*counts, format_bytes(p.memory_bytes), f"{p.seconds_process:.2f}", hot))
        return table(columns, rows, right=columns, box=None)
