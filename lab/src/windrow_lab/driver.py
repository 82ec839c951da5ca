"""Runs an operator over rows: piece by piece on a clock, or all at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter

import numpy as np
import pyarrow as pa

import windrow as wr
from windrow_lab.clock import WorkClock
from windrow_lab.timed_rows import handed_over


def drive(
    query: wr.Query,
    tables: Mapping[str, pa.Table],
    bounds: Sequence[float] | np.ndarray,
    clock: WorkClock | None = None,
) -> Iterator[tuple[wr.Operator, pa.Table]]:
    """Hands over the rows between each two bounds, in seconds, and yields the operator and what it found."""
    schemas = {alias: table.schema for alias, table in tables.items()}
    operator = wr.Operator(query, schemas, clock=clock or perf_counter)
    if clock is not None:
        clock.operator = operator
    names = {alias: stream.time for alias, stream in query.streams.items()}
    for rows in handed_over(tables, bounds, names):
        yield operator, operator.process(rows)


def run_whole(query: wr.Query, tables: Mapping[str, pa.Table]) -> tuple[wr.Operator, pa.Table]:
    """All rows in one call."""
    operator = wr.Operator(query)
    return operator, operator.process(tables)
