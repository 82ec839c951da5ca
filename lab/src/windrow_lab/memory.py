"""Joins under a memory limit, beside the exact answer.

A trace is a join with all its rows. It is run once without a limit and then under limits in rows; results
have the time of their newest row, so that recall can be taken over any part of a run. Memory is stated as a
part of what whole windows hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import windrow as wr
from windrow.memory_models.age_curve import AgeCurve
from windrow.model.interval import Interval
from windrow.model.metrics import OperatorMetrics
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.parse import POLICIES
from windrow_lab.driver import run_whole
from windrow_lab.timed_rows import seconds, since_start

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class JoinWorkload:
    """A join and its rows.

    Parameters
    ----------
    tables
        By alias; the event time is `ts`.
    windows
        In seconds, by alias.
    on
        The predicate.
    probing
        Streams whose rows find others but are never found themselves, and so need no memory.
    """

    tables: Mapping[str, pa.Table]
    windows: Mapping[str, float]
    on: str = "a.k = b.k"
    probing: tuple[str, ...] = ()

    @property
    def stored(self) -> tuple[str, ...]:
        return tuple(alias for alias in self.tables if alias not in self.probing)

    @cached_property
    def rates(self) -> dict[str, float]:
        """Rows per second."""
        times = {alias: seconds(table) for alias, table in self.tables.items()}
        return {alias: (len(ts) - 1) / (ts[-1] - ts[0]) for alias, ts in times.items()}

    @property
    def whole(self) -> float:
        """Rows that the windows of stored streams hold without a limit."""
        return sum(self.rates[alias] * self.windows[alias] for alias in self.stored)

    @cached_property
    def exact(self) -> RunResults:
        """Everything there is to find."""
        return self._run(wr.Query(self.streams, on=self.on))

    def under(
        self,
        rows: float,
        shed: str | MemoryPolicy,
        seed: int = 0,
        evaluate: str | Interval | None = None,
    ) -> RunResults:
        """What is found with this many rows of memory for the stored streams."""
        return self._run(self.query(rows, shed, seed, evaluate))

    def query(
        self,
        rows: float,
        shed: str | MemoryPolicy,
        seed: int = 0,
        evaluate: str | Interval | None = None,
    ) -> wr.Query:
        """The join with this many rows of memory for the stored streams."""
        policy = POLICIES[shed]() if isinstance(shed, str) else shed
        size = max(round(rows), len(self.stored))
        if self.probing:
            # One row for a stream that is not stored, so that its rows take no one's place.
            shares = {alias: float(size) / len(self.stored) for alias in self.stored}
            policy = replace(policy, split=shares | dict.fromkeys(self.probing, 1.0))
            size += len(self.probing)
        return wr.Query(
            self.streams, on=self.on, memory=f"{size} rows", shed=policy, seed=seed, evaluate=evaluate
        )

    def curve(self, alias: str, spans: int) -> AgeCurve:
        """The age curve of a stream's rows, from its exact results; rows that came too late to be seen for a
        whole window are left out."""
        window, came = self.windows[alias], seconds(self.tables[alias])
        whole = came <= max(ts[-1] for ts in map(seconds, self.tables.values())) - window
        found = self.exact
        mine = (found.ages[alias] > 0) & (found.times - found.ages[alias] <= came[whole].max())
        counts, _ = np.histogram(found.ages[alias][mine], bins=spans, range=(0.0, window))
        return AgeCurve(tuple(counts / whole.sum()), window / spans)

    @property
    def streams(self) -> dict[str, wr.Stream]:
        return {alias: wr.Stream("ts", timedelta(seconds=span)) for alias, span in self.windows.items()}

    def _run(self, query: wr.Query) -> RunResults:
        operator, found = run_whole(query, self.tables)
        results = found.combine_chunks()
        ts = {alias: since_start(pc.struct_field(results[alias], "ts")) for alias in self.tables}
        newest = np.max(list(ts.values()), axis=0)
        return RunResults(newest, {alias: newest - each for alias, each in ts.items()}, operator.metrics())


@dataclass(frozen=True, eq=False)
class RunResults:
    """Results of a run."""

    times: Array
    """Seconds at which each result was found: when its newest row arrived."""
    ages: Mapping[str, Array]
    """By alias the age of the row each result had of that stream; 0 where that row was the newest."""
    measured: OperatorMetrics

    def count(self, since: float = 0.0, until: float = np.inf) -> int:
        return int(((self.times >= since) & (self.times < until)).sum())

    def recall(self, of: RunResults, since: float = 0.0, until: float = np.inf) -> float:
        """The part of another run's results that was found."""
        return self.count(since, until) / max(of.count(since, until), 1)
