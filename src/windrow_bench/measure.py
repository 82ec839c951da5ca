"""What benchmarks share: the queries they time, runs of an operator, and processes that print JSON."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from windrow.engine.operator import Operator
from windrow.errors import QueryError, WindrowError, unknown
from windrow.model.metrics import OperatorMetrics
from windrow.model.query import Query, Stream

Figures = list[dict[str, Any]]
Calls = Sequence[dict[str, pa.Table]]


def window_query(
    on: str, seconds: float, aliases: str = "ab", access: str | None = None, **options: Any
) -> Query:
    """A join of streams with windows of this length."""
    return Query({alias: Stream("ts", f"{seconds} s", access) for alias in aliases}, on, **options)


@dataclass(frozen=True)
class TimedRun:
    """A run of an operator over all calls."""

    seconds: float
    results: int
    metrics: OperatorMetrics
    peak_bytes: int
    """The most memory of the windows between calls."""


def timed(
    query: Query, calls: Calls, warm_up: bool = True, finish: bool = False, threads: int = 1
) -> TimedRun:
    """Only processing is timed. To warm up, another operator processes the first call."""
    if warm_up:
        Operator(query, threads=threads).process(calls[0])
    operator = Operator(query, threads=threads)
    seconds, results, peak = 0.0, 0, 0
    for call in calls:
        began = time.perf_counter()
        results += operator.process(call).num_rows
        seconds += time.perf_counter() - began
        peak = max(peak, operator.metrics().memory_bytes)
    if finish:
        began = time.perf_counter()
        results += operator.finish().num_rows
        seconds += time.perf_counter() - began
    return TimedRun(seconds, results, operator.metrics(), peak)


class Named(Protocol):
    @property
    def name(self) -> str: ...


Case = TypeVar("Case", bound=Named)


def chosen(cases: Sequence[Case], part: str | None) -> list[Case]:
    """All cases, or those whose names contain this."""
    found = [case for case in cases if part is None or part in case.name]
    if not found:
        raise QueryError(unknown("case", str(part), [case.name for case in cases]))
    return found


def printed(command: Sequence[str], name: str) -> Any:
    """The JSON that a command prints last. `name` is who has failed, if it fails."""
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return last_json(ran.returncode, ran.stdout, ran.stderr, name)


def last_json(code: int, out: str, errors: str, name: str) -> Any:
    if code:
        shown = "\n".join(line for line in errors.splitlines() if not line.startswith("\tat "))
        raise WindrowError(f"{name} failed: {shown.strip()[-2000:]}")
    return json.loads(out.strip().splitlines()[-1])
