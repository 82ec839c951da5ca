"""Random cases in which streams have a `late` of their own and source partitions that progress unevenly."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from queries import Case, cases, rows_of

SOURCES = ("j", "s", "flag")
"""Columns of few values, and nulls, that serve as source partitions."""


def dropped(case: Case) -> set[tuple[str, int]]:
    """Alias and id of the rows that are late."""
    kept = {(a, row["id"]) for call in case.admitted().calls for a, rows in call.items() for row in rows}
    timed = {
        (a, n)
        for a, table in case.tables.items()
        for n, row in enumerate(rows_of(table))
        if row["ts"] is not None
    }
    arrived = {(a, n) for call in case.calls for a, own in call.items() for n in own}
    return (timed & arrived) - kept


def behind(
    rng: Random, table: pa.Table, own: Mapping[Any, int], column: str, late: int
) -> list[tuple[int, float, int]]:
    """When each row arrives: its source partition's delay later than its time, and up to `late` more."""
    parts, times = table.column(column).to_pylist(), [row["ts"] or 0 for row in rows_of(table)]
    return [
        (t + own.get(p, 0) + rng.randint(0, late), rng.random(), n)
        for n, (p, t) in enumerate(zip(parts, times, strict=True))
    ]


@st.composite
def source_cases(draw: st.DrawFn, counted: bool = False, most_streams: int = 3) -> Case:
    plain = draw(cases(counted=counted, most_streams=most_streams))
    source = {
        a: draw(st.sampled_from(SOURCES)) for a in plain.tables if draw(st.sampled_from([True, True, False]))
    }
    step = max(1, min((w for w in plain.windows.values() if isinstance(w, int)), default=1_000_000))
    delays_of = st.sampled_from([0, 1, step, 4 * step])
    late: Any = {a: draw(delays_of) for a in plain.tables if draw(st.booleans())}
    rng = Random(draw(st.integers(0, 2**32)))
    queue = []
    for alias, table in plain.tables.items():
        column = source.get(alias, "j")
        values = list(dict.fromkeys(table.column(column).to_pylist()))
        delays = {v: rng.choice([0, 0, step, 5 * step, 40 * step]) for v in values}
        queue += [(*when, alias) for when in behind(rng, table, delays, column, late.get(alias, 0))]
    queue.sort()
    ends = sorted(rng.randint(0, len(queue)) for _ in range(draw(st.integers(0, 8))))
    calls: list[dict[str, list[int]]] = [{a: [] for a in plain.tables} for _ in range(len(ends) + 1)]
    for position, (_, _, number, alias) in enumerate(queue):
        calls[sum(end <= position for end in ends)][alias].append(number)
    options = {**plain.options, "late": late if late or draw(st.booleans()) else 0}
    snapshots = frozenset(n for n in range(len(calls)) if rng.random() < 0.3)
    return Case(plain.windows, plain.terms, plain.tables, calls, options, plain.access, snapshots, source)
