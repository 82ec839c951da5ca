"""A dry run: the join runs over a sample in this process without limits, and learns.

To learn models of memory and time it runs under limits that it cannot reach. Rows are read in order of event
time, up to where the first stream's sample ends; a run that takes too long is stopped, and what it has
learned counts.

Then a few memory limits are tried: the same rows again, under the query's own policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from time import perf_counter

import numpy as np
import pyarrow as pa

from windrow.engine.operator import Operator
from windrow.engine.rows import check_time_column, event_times
from windrow.errors import QueryError, unknown
from windrow.harvest.time_curve import format_seconds
from windrow.model.limits import Deadline, MemoryLimit
from windrow.model.policies.learned import Age, Auto, Frequency
from windrow.model.query import Query

Array = np.ndarray
SECOND = 1_000_000
PARTS = 192
"""Calls in which the sample is processed."""
WARM = 16
"""The first calls, in which windows fill and kernels load."""
PATIENCE = 20.0
"""Seconds a dry run takes at most, about; trying limits may take as long again."""
TRIED = (0.25, 0.5, 0.1)
"""Limits that are tried besides the query's own, as fractions of the most that complete windows held."""
LONG = 2.0
"""Windows a sample must cover for limits to be tried on it: one to fill them, and one to lose rows in."""
_NEVER = Deadline(micros=10**15)
_MODELLED = (Age, Auto, Frequency)
"""Policies that forecast recall by memory."""


@dataclass(frozen=True)
class DryRun:
    """What an explanation was learned from."""

    rows: Mapping[str, int]
    """Processed, by alias."""
    read: Mapping[str, int]
    """In the sample, by alias."""
    span: float
    """Seconds of event time they cover."""
    seconds: float
    """How long it took."""
    results: int
    complete: bool = True
    """Whether there was time for all rows."""
    short: tuple[str, ...] = ()
    """Streams whose windows are longer than the sample."""
    sample: Sample | None = field(default=None, repr=False, compare=False)
    found: tuple[int, ...] = ()
    """Results after each call."""
    windows: float = 0.0
    """How many of the longest window the sample covers."""

    def __str__(self) -> str:
        rows = ", ".join(f"{rows:,} rows of {alias}" for alias, rows in self.rows.items())
        left = sum(self.read.values()) - sum(self.rows.values())
        spent = format_seconds(self.seconds)
        text = f"Learned from {rows}: {format_seconds(self.span)} of event time, in {spent}"
        if left:
            why = (
                "one of the samples ends there" if self.complete else f"no more than {PATIENCE:g} s are spent"
            )
            text += f"; {left:,} later rows were left out, since {why}"
        if self.short:
            text += (
                f";\n  the windows of {', '.join(self.short)} are longer than the sample: what older rows "
                "find is not known"
            )
        return text


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows by alias in order of event time, up to where the first stream ends, and how calls cut them."""

    tables: Mapping[str, pa.Table]
    times: Mapping[str, Array]
    edges: Array

    @classmethod
    def of(cls, query: Query, data: Mapping[str, pa.Table | pa.RecordBatch]) -> Sample:
        """From rows by alias, in any order."""
        tables, times = _sorted(query, data)
        end = min(int(t[-1]) for t in times.values())
        used = {alias: int(np.searchsorted(t, end, side="right")) for alias, t in times.items()}
        if not all(used.values()):
            shown = ", ".join(f"{a} {_clock(int(t[0]))} to {_clock(int(t[-1]))}" for a, t in times.items())
            raise QueryError(f"sample: the streams do not meet in time: {shown}; state rates instead")
        total = sum(used.values())
        everything = np.sort(np.concatenate([t[: used[a]] for a, t in times.items()]))
        return cls(tables, times, np.unique(everything[np.linspace(0, total - 1, PARTS + 1).astype(int)[1:]]))

    def run(
        self, query: Query, patience: float, tell: Callable[[int, int], None] = lambda done, of: None
    ) -> tuple[Operator, list[int]]:
        """Runs the query over these rows for about so many seconds; returns its results after each call."""
        operator = Operator(query, {alias: table.schema for alias, table in self.tables.items()})
        began, at, found = perf_counter(), dict.fromkeys(self.tables, 0), [0]
        total = sum(self.upto(self.edges[-1]).values())
        for number, edge in enumerate(self.edges):
            upto = self.upto(edge)
            parts = {a: table.slice(at[a], upto[a] - at[a]) for a, table in self.tables.items()}
            found.append(found[-1] + operator.process(parts).num_rows)
            at = upto
            tell(sum(upto.values()), total)
            if number >= WARM and perf_counter() - began > patience:
                break
        return operator, found[1:]

    def upto(self, edge: int) -> dict[str, int]:
        """Rows by alias up to this time."""
        return {a: int(np.searchsorted(t, edge, side="right")) for a, t in self.times.items()}


def dry_run(
    query: Query,
    data: Mapping[str, pa.Table | pa.RecordBatch],
    tell: Callable[[int, int], None] = lambda done, of: None,
    patience: float = PATIENCE,
) -> tuple[Operator, DryRun]:
    """Runs an operator over the sample; returns it and what it saw.

    Parameters
    ----------
    data
        Alias to rows, in any order.
    tell
        Called with the rows processed so far, and how many there are.
    """
    sample, began = Sample.of(query, data), perf_counter()
    operator, found = sample.run(under_limits(query), patience, tell)
    assert operator.runner.join is not None
    edge = sample.edges[len(found) - 1]
    span = max(int(edge) - min(int(t[0]) for t in sample.times.values()), 1) / SECOND
    windows = {a: s.window for a, s in query.streams.items()}
    return operator, DryRun(
        rows=sample.upto(edge),
        read={alias: len(t) for alias, t in sample.times.items()},
        span=span,
        seconds=perf_counter() - began,
        results=operator.metrics().results,
        complete=len(found) == len(sample.edges),
        short=tuple(a for a, w in windows.items() if w.is_time and w.size / SECOND > span),
        sample=sample,
        found=tuple(found),
        windows=span * SECOND / max((w.covers for w in operator.runner.join.windows), default=1),
    )


def tried(query: Query, rehearsed: DryRun, most: float, patience: float = PATIENCE) -> dict[float, float]:
    """Recall by memory: runs the query over the sample under its own limit, and under fractions of the `most`
    that complete windows held, as far as there is time. A limit too small to run under is left out."""
    sample, began = rehearsed.sample, perf_counter()
    assert sample is not None
    kind = query.memory_limit.kind if query.memory_limit is not None else "bytes"
    amounts = [part * most for part in TRIED]
    if query.memory_limit is not None and query.memory_limit.size < most:
        amounts.insert(0, float(query.memory_limit.size))
    recall = {}
    for number, amount in enumerate(amounts):
        left = (patience - perf_counter() + began) / (len(amounts) - number)
        limit = MemoryLimit(kind, max(round(amount), len(query.streams)))
        try:
            found = sample.run(replace(query, memory=limit, deadline=None), left)[1][: len(rehearsed.found)]
        except QueryError:
            continue
        if exact := rehearsed.found[len(found) - 1]:
            recall[amount] = min(1.0, found[-1] / exact)
    return recall


def under_limits(query: Query) -> Query:
    """The same join under limits it cannot reach, so that it learns what they would cost."""
    kind = query.memory_limit.kind if query.memory_limit is not None else "bytes"
    policy = query.memory_policy if isinstance(query.memory_policy, _MODELLED) else Auto()
    eager = query.algorithm == "eager"
    return replace(
        query,
        memory=MemoryLimit(kind, 2**50),
        deadline=_NEVER if eager else None,
        shed=(policy, replace(query.time_policy, buffer=None, interval=None)),
    )


def _sorted(
    query: Query, data: Mapping[str, pa.Table | pa.RecordBatch]
) -> tuple[dict[str, pa.Table], dict[str, Array]]:
    """Tables and times by alias, in order of time, without rows that have none."""
    for alias in data:
        if alias not in query.streams:
            raise QueryError(f"data: {unknown('stream', alias, query.streams)}")
    tables, times = {}, {}
    for alias, stream in query.streams.items():
        if alias not in data:
            raise QueryError(f"data: rows of stream '{alias}' are missing")
        given = data[alias]
        table = given if isinstance(given, pa.Table) else pa.Table.from_batches([given])
        check_time_column(alias, table.schema, stream.time)
        table = table.filter(table[stream.time].is_valid())
        if not table.num_rows:
            raise QueryError(
                f"data: there are no rows of stream '{alias}' to learn from; state rates instead"
            )
        moments = event_times(table[stream.time].combine_chunks())
        order = np.argsort(moments, kind="stable")
        tables[alias], times[alias] = table.take(order), moments[order]
    return tables, times


def _clock(micros: int) -> str:
    return f"{datetime.fromtimestamp(micros / SECOND, UTC):%Y-%m-%d %H:%M:%S}"
