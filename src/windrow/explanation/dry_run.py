"""A dry run: the join runs over a sample in this process, and learns.

To learn models of memory and time it runs under limits that it cannot reach. Rows are processed in order of
event time, up to the end of the sample that ends first. A run that takes too long is stopped; its models are
used.

After that, the query's own policy processes the same rows under a few memory limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.rows import check_time_column, event_times
from windrow.engine.runner import JoinRunner
from windrow.errors import Option, QueryError, unknown
from windrow.harvest.time_curve import format_seconds
from windrow.model.limits import Deadline, MemoryLimit
from windrow.model.policies.learned import Age, Auto, Frequency
from windrow.model.query import Query
from windrow.model.units import SECOND, format_time

Array = np.ndarray
Progress = Callable[[int, int], None]
PARTS = 192
"""Calls in which the sample is processed."""
WARM_UP = 16
"""The first calls, in which windows fill and kernels load."""
MAX_SECONDS = 20.0
"""Approximate maximum of a dry run. Trying limits may take as long again."""
TRIED = (0.25, 0.5, 0.1)
"""Limits to try besides the query's own, as fractions of the maximum that complete windows held."""
MIN_WINDOWS = 2.0
"""Windows that a sample must cover for limits to be tried on it: one to fill, and one to lose rows in."""
_NEVER = Deadline(micros=10**15)
_MODELLED = (Age, Auto, Frequency)
"""Policies that forecast recall by memory."""


@dataclass(frozen=True)
class DryRun:
    """The sample and the run that an explanation was learned from."""

    rows: Mapping[str, int]
    """Rows processed, by alias."""
    read: Mapping[str, int]
    """Rows in the sample, by alias."""
    span: float
    """Seconds of event time that the processed rows cover."""
    seconds: float
    """Duration of the run."""
    results: int
    complete: bool = True
    """Whether all rows were processed in time."""
    short: tuple[str, ...] = ()
    """Streams whose windows are longer than the sample."""
    sample: Sample | None = field(default=None, repr=False, compare=False)
    found: tuple[int, ...] = ()
    """Results after each call."""
    windows: float = 0.0
    """Event time of the sample, as a multiple of the longest window."""

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "rows": dict(self.rows),
            "rows_read": dict(self.read),
            "seconds_of_event_time": self.span,
            "seconds": self.seconds,
            "results": self.results,
            "whole": self.complete,
            "windows_longer_than_sample": self.short,
        }

    def __str__(self) -> str:
        rows = ", ".join(f"{rows:,} rows of {alias}" for alias, rows in self.rows.items())
        left = sum(self.read.values()) - sum(self.rows.values())
        took = format_seconds(self.seconds)
        text = f"Learned from {rows}: {format_seconds(self.span)} of event time, in {took}"
        if left:
            why = (
                "one of the samples ends there"
                if self.complete
                else f"a run takes no more than {MAX_SECONDS:g} s"
            )
            text += f"; {left:,} later rows were left out, since {why}"
        if self.short:
            text += (
                f";\n  the windows of {', '.join(self.short)} are longer than the sample: results of older "
                "rows are unknown"
            )
        return text


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows by alias in order of event time, and the event times at which calls end."""

    tables: Mapping[str, pa.Table]
    times: Mapping[str, Array]
    edges: Array

    @classmethod
    def of(cls, query: Query, data: Mapping[str, pa.Table | pa.RecordBatch]) -> Sample:
        """The sample of rows by alias, in any order."""
        tables, times = _sorted(query, data)
        end = min(int(t[-1]) for t in times.values())
        used = {alias: int(np.searchsorted(t, end, side="right")) for alias, t in times.items()}
        if not all(used.values()):
            shown = ", ".join(
                f"{a} {format_time(int(t[0]))} to {format_time(int(t[-1]))}" for a, t in times.items()
            )
            raise QueryError(
                f"the streams do not overlap in time: {shown}; state rates instead", Option("sample")
            )
        total = sum(used.values())
        # Calls end at quantiles of the event times, so that each has about the same number of rows.
        everything = np.sort(np.concatenate([t[: used[a]] for a, t in times.items()]))
        return cls(tables, times, np.unique(everything[np.linspace(0, total - 1, PARTS + 1).astype(int)[1:]]))

    def run(
        self, query: Query, max_seconds: float, progress: Progress = lambda done, of: None
    ) -> tuple[JoinRunner, list[int]]:
        """Run the query over these rows for about `max_seconds`. Returns the number of results after each
        call."""
        runner = JoinRunner(query, self.schemas)
        began, found, done = perf_counter(), [0], 0
        total = sum(self.upto(self.edges[-1]).values())
        for rows in self.calls(self.edges):
            found.append(found[-1] + runner.process(rows).num_rows)
            done += sum(table.num_rows for table in rows.values())
            progress(done, total)
            if len(found) > WARM_UP + 1 and perf_counter() - began > max_seconds:
                break
        return runner, found[1:]

    @property
    def schemas(self) -> dict[str, pa.Schema]:
        return {alias: table.schema for alias, table in self.tables.items()}

    def calls(self, edges: Iterable[int]) -> Iterator[dict[str, pa.Table]]:
        """The rows of each call, by alias, if calls end at these event times."""
        at = dict.fromkeys(self.tables, 0)
        for edge in edges:
            upto = self.upto(edge)
            yield {a: table.slice(at[a], upto[a] - at[a]) for a, table in self.tables.items()}
            at = upto

    def upto(self, edge: int) -> dict[str, int]:
        """Number of rows up to this time, by alias."""
        return {a: int(np.searchsorted(t, edge, side="right")) for a, t in self.times.items()}


def dry_run(
    query: Query,
    data: Mapping[str, pa.Table | pa.RecordBatch],
    progress: Progress = lambda done, of: None,
    max_seconds: float = MAX_SECONDS,
) -> tuple[JoinRunner, DryRun]:
    """Run a join over the sample.

    Parameters
    ----------
    data
        Alias to rows, in any order.
    progress
        Called with the number of rows processed so far, and their total.
    """
    sample, began = Sample.of(query, data), perf_counter()
    runner, found = sample.run(under_limits(query), max_seconds, progress)
    assert runner.join is not None
    edge = sample.edges[len(found) - 1]
    span = max(int(edge) - min(int(t[0]) for t in sample.times.values()), 1) / SECOND
    windows = {a: s.window for a, s in query.streams.items()}
    return runner, DryRun(
        rows=sample.upto(edge),
        read={alias: len(t) for alias, t in sample.times.items()},
        span=span,
        seconds=perf_counter() - began,
        results=runner.metrics().results,
        complete=len(found) == len(sample.edges),
        short=tuple(a for a, w in windows.items() if w.is_time and w.size / SECOND > span),
        sample=sample,
        found=tuple(found),
        windows=span * SECOND / max((w.covers for w in runner.join.windows), default=1),
    )


def tried(query: Query, ran: DryRun, complete: float, max_seconds: float = MAX_SECONDS) -> dict[float, float]:
    """Recall by memory: runs the query over the sample under its own limit, and under fractions of the memory
    of `complete` windows, as far as there is time. A limit that is too small to run is left out."""
    sample, began = ran.sample, perf_counter()
    assert sample is not None
    kind = query.memory_limit.kind if query.memory_limit is not None else "bytes"
    amounts = [fraction * complete for fraction in TRIED]
    if query.memory_limit is not None and query.memory_limit.size < complete:
        amounts.insert(0, float(query.memory_limit.size))
    recall = {}
    for number, amount in enumerate(amounts):
        left = (max_seconds - perf_counter() + began) / (len(amounts) - number)
        limit = MemoryLimit(kind, max(round(amount), len(query.streams)))
        try:
            found = sample.run(replace(query, memory=limit, deadline=None), left)[1]
        except QueryError:
            continue
        calls = min(len(found), len(ran.found))  # either run may have been stopped
        if exact := ran.found[calls - 1]:
            recall[amount] = min(1.0, found[calls - 1] / exact)
    return recall


def under_limits(query: Query) -> Query:
    """The same join under limits that it cannot reach, so that it learns the models that limits need."""
    kind = query.memory_limit.kind if query.memory_limit is not None else "bytes"
    policy = query.memory_policy if isinstance(query.memory_policy, _MODELLED) else Auto()
    eager = query.algorithm == "eager"
    return replace(
        query,
        memory=MemoryLimit(kind, 2**50),
        deadline=_NEVER if eager else None,
        shed=(policy, replace(query.time_policy, buffer_rows=None, adaptation_interval=None)),
    )


def _sorted(
    query: Query, data: Mapping[str, pa.Table | pa.RecordBatch]
) -> tuple[dict[str, pa.Table], dict[str, Array]]:
    """Tables and event times by alias, sorted by time, without rows that have a null time."""
    for alias in data:
        if alias not in query.streams:
            raise QueryError(unknown("stream", alias, query.streams), Option("sample"))
    tables, times = {}, {}
    for alias, stream in query.streams.items():
        if alias not in data:
            raise QueryError(f"rows of stream '{alias}' are missing", Option("sample"))
        given = data[alias]
        table = given if isinstance(given, pa.Table) else pa.Table.from_batches([given])
        check_time_column(alias, table.schema, stream.time)
        table = table.filter(table[stream.time].is_valid())
        if not table.num_rows:
            raise QueryError(
                f"there are no rows of stream '{alias}' to learn from; state rates instead", Option("sample")
            )
        moments = event_times(table[stream.time].combine_chunks())
        order = np.argsort(moments, kind="stable")
        tables[alias], times[alias] = table.take(order), moments[order]
    return tables, times
