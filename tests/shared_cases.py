"""Random sets of queries over one join, and what each must get: what it gets alone, call by call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import windrow as wr
from queries import Case, cases, window_text
from terms import filters

Ids = list[tuple]


@dataclass(frozen=True, repr=False)
class Asked:
    """One of the queries: windows, and a condition of its own on single streams."""

    windows: Mapping[str, int | tuple[int, bool]]
    above: str | None

    def query(self, case: Case) -> wr.Query:
        streams = {
            alias: wr.Stream(time="ts", within=window_text(window), access=case.access.get(alias))
            for alias, window in self.windows.items()
        }
        on = case.sql if self.above is None else f"{self.above} and {case.sql}"
        return case.query(streams=streams, on=on)

    def __repr__(self) -> str:
        return f"Asked({dict(self.windows)}, {self.above})"


@st.composite
def windows_like(draw: st.DrawFn, case: Case) -> dict[str, Any]:
    """Windows of the same kinds, smaller or larger; for all streams together, or each as it likes."""
    together = draw(st.booleans())
    scale = draw(st.sampled_from([1, 2, 3, 5, 10]))
    found: dict[str, Any] = {}
    for alias, window in case.windows.items():
        own = scale if together else draw(st.sampled_from([1, 2, 3, 5, 10]))
        if isinstance(window, tuple):
            found[alias] = (own, window[1])
        else:
            found[alias] = max(1, window * own // 5)
    return found


@st.composite
def asked(draw: st.DrawFn, case: Case) -> Asked:
    conditions = [f.sql for alias in case.windows for f in filters(alias)]
    above = draw(st.none() | st.sampled_from(conditions))
    return Asked(draw(windows_like(case)), above)


@st.composite
def shared_cases(draw: st.DrawFn, counted: bool = False) -> tuple[Case, dict[str, Asked]]:
    case = draw(cases(counted=counted, most_streams=4, snapshots=False))
    count = draw(st.integers(1, 5))
    return case, {f"q{k}": draw(asked(case)) for k in range(count)}


def ids_in_order(table: pa.Table) -> Ids:
    if table.num_rows == 0:
        return []
    return list(
        zip(
            *(table.column(n).combine_chunks().field("id").to_pylist() for n in table.column_names),
            strict=True,
        )
    )


def newest_in_order(table: pa.Table) -> list[int]:
    if table.num_rows == 0:
        return []
    columns = [
        table.column(n).combine_chunks().field("ts").cast(pa.int64()).to_pylist() for n in table.column_names
    ]
    return [max(times) for times in zip(*columns, strict=True)]


def schemas_of(case: Case) -> dict[str, pa.Schema]:
    return {alias: table.schema for alias, table in case.tables.items()}


def run_alone(case: Case, query: wr.Query) -> list[pa.Table]:
    """The outputs of one query alone in a join of its own, call by call, then of `finish`."""
    op = wr.SharedOperator({"alone": query}, schemas=schemas_of(case))
    outputs = [op.process(call)["alone"] for call in case.inputs()]
    return [*outputs, op.finish()["alone"]]


def ticking(step: float = 1.0) -> Callable[[], float]:
    """A clock on which every look takes so long."""
    now = [0.0]

    def clock() -> float:
        now[0] += step
        return now[0]

    return clock


def flat(outputs: Sequence[pa.Table]) -> Ids:
    return [row for table in outputs for row in ids_in_order(table)]
