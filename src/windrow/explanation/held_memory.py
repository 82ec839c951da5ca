"""Memory held by the windows of all partitions, measured: their joins run over the sample, call by call.

A model of bytes per row misses what small windows are made of: spare capacity, one set of arrays and indexes
per partition, and copies of rows that a layout sends to several partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import pyarrow as pa

from windrow.engine.runner import JoinRunner
from windrow.explanation.dry_run import Sample
from windrow.model.limits import MemoryLimit
from windrow.model.query import Query

CALLS = 16
"""Calls that the sample arrives in where nothing is known of them."""


@dataclass(frozen=True)
class Partitions:
    """How rows reach the partitions of a join."""

    split: Callable[[str, pa.Table], Sequence[pa.Table]]
    """The rows of a stream, by alias, as one table per partition."""
    calls: int | None = None
    """Micro-batches that the sample arrives in; None if unknown."""


@dataclass(frozen=True)
class HeldMemory:
    streams: tuple[float, ...]
    """Bytes held for each stream when the windows were largest."""
    shrunk: float
    """The most bytes held at once, without spare capacity, which a memory limit does without."""


def held_memory(query: Query, sample: Sample, max_seconds: float, partitions: Partitions) -> HeldMemory:
    """The most that the partitions hold together at the end of a call; only of the calls that fit into about
    `max_seconds` seconds."""
    began = perf_counter()
    # Under a limit rows also have the policy's row state.
    limit = None if query.memory_limit is None else MemoryLimit(query.memory_limit.kind, 2**50)
    exact = replace(query, memory=limit, deadline=None)
    start = min(int(times[0]) for times in sample.times.values())
    calls = partitions.calls or CALLS
    runners = list[JoinRunner]()
    held, shrunk = np.zeros(len(query.aliases)), 0.0
    for rows in sample.calls(np.linspace(start, int(sample.edges[-1]), calls + 1).astype(np.int64)[1:]):
        parts = {alias: partitions.split(alias, table) for alias, table in rows.items()}
        if not runners:
            runners = [JoinRunner(exact, sample.schemas) for _ in next(iter(parts.values()))]
        for number, runner in enumerate(runners):
            runner.process({alias: tables[number] for alias, tables in parts.items()})
        metrics = [runner.metrics().streams for runner in runners]
        now = np.array([sum(m[alias].memory_bytes for m in metrics) for alias in query.aliases], float)
        held = max(held, now, key=np.sum)
        joins = [runner.join for runner in runners]
        shrunk = max(shrunk, sum(float(w.nbytes_shrunk) for join in joins if join for w in join.windows))
        if perf_counter() - began > max_seconds:
            break
    return HeldMemory(tuple(held.tolist()), shrunk)
