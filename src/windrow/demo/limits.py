"""The second half of the demo: the same join with less memory and with less time than it needs.

Runs the operator in this process: first without limits, to learn the exact answer and what it takes, then
with fractions of that memory and time. The reported recall of each run is shown beside the true one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from windrow.draw.terminal import table
from windrow.engine.operator import Operator
from windrow.model.query import Query

WARM_UP = 3
"""Calls that are not timed: kernels are loaded and windows fill."""
WIDTH = 20
"""Characters of a bar for a recall of 1."""
Calls = Sequence[Mapping[str, pa.Table]]


@dataclass(frozen=True)
class LimitedRun:
    """The results of one run, and the recall it reported."""

    budget: str
    results: int
    reported: tuple[float, float, float]
    """Estimated recall, and the ends of its 95 % interval."""
    true: float


def compare_limits(calls: Calls, query: Mapping[str, Any]) -> list[LimitedRun]:
    """Run the query exactly, then with fractions of the memory and time that this took."""
    exact = Operator(Query(**query), clock=time.process_time)
    memory, seconds, results = 0, [], 0
    for call in calls:
        began = time.process_time()
        results += exact.process(call).num_rows
        seconds.append(time.process_time() - began)
        memory = max(memory, exact.metrics().memory_bytes)
    deadline = median(seconds[min(WARM_UP, len(seconds) - 1) :])
    budgets: list[tuple[str, dict[str, Any]]] = [
        (f"{name} memory, {memory * part / 2**20:.1f} MiB", {"memory": int(memory * part)})
        for name, part in (("1/2", 0.5), ("1/4", 0.25), ("1/10", 0.1))
    ]
    budgets.append((f"1/2 time, {deadline * 500:.1f} ms/call", {"deadline": f"{deadline / 2} s"}))
    found = [LimitedRun("no limit", results, (1.0, 1.0, 1.0), 1.0)]
    for budget, limit in budgets:
        operator = Operator(Query(**query, **limit), clock=time.process_time)
        count = sum(operator.process(call).num_rows for call in calls)
        m = operator.metrics()
        found.append(LimitedRun(budget, count, (m.recall, m.recall_low, m.recall_high), count / results))
    return found


def show_limits(console: Console, runs: Sequence[LimitedRun]) -> None:
    console.print(
        "[bold]The same join, without Spark, with less memory or time than it needs[/bold]\n"
        "Each run reports how much of the answer it found: recall, with a 95 % interval.\n"
        "The true recall is known here because the answer without limits is.",
        highlight=False,
    )
    columns = ("limit", "recall reported", "true", f"0{'recall':^{WIDTH - 2}}1")
    rows = []
    for run in runs:
        estimate, low, high = run.reported
        reported = "exact" if low == high == 1.0 else f"{estimate:.3f} [{low:.3f}, {high:.3f}]"
        rows.append((run.budget, reported, f"{run.true:.3f}", _bar(run)))
    console.print(table(columns, rows, right=columns[1:3], caption="━ reported interval, ● true recall"))


def _bar(run: LimitedRun) -> Text:
    """The interval as a line, the true recall as a dot."""
    _, low, high = run.reported
    first, last, dot = (min(WIDTH - 1, round(each * (WIDTH - 1))) for each in (low, high, run.true))
    bar = Text("".join("━" if first <= k <= last else "·" for k in range(WIDTH)), "dim")
    bar.stylize("cyan not dim", first, last + 1)
    return Text.assemble(
        bar[:dot], ("●", "bold green" if first <= dot <= last else "bold red"), bar[dot + 1 :]
    )
