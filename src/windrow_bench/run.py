"""Running benchmarks: a table on the terminal, a JSON file for the record."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from windrow.draw.terminal import table
from windrow.errors import Option, QueryError, unknown
from windrow_bench import (
    access_paths,
    deadline,
    equality,
    eviction,
    harvest,
    memory,
    outer,
    overload,
    real,
    shared,
    spark,
    startup,
    state,
    state_requests,
)
from windrow_bench.measure import Figures
from windrow_bench.peers import run as peers

BENCHMARKS: dict[str, tuple[str, Callable[[int, Console], Figures]]] = {
    "equality": ("Equality joins, Arrow in and Arrow out, against bare index pairs and DuckDB", equality.run),
    "outer": ("Outer, semi, anti and as-of joins beside the inner join of the same streams", outer.run),
    "band": ("Band joins by sorted index: cost per probe as the window grows", access_paths.band),
    "scan": ("Scans against the bare loop", access_paths.scan),
    "sets": ("Set joins by inverted index against the scan of all pairs", access_paths.sets),
    "memory": ("Memory per window row, and cost per row over 1,000 small batches", memory.run),
    "shared": ("Many queries in one join, against the largest alone and each alone", shared.run),
    "shed": ("What a memory limit costs, by policy", eviction.run),
    "coverage": ("Intervals of the recall on real data: how often they hold, by policy", real.coverage),
    "forecast": ("Recall on real data: measured, explained and forecast", real.forecast),
    "policies": ("`auto` on real data against the best single policy", real.policies),
    "harvest": ("Choosing what to probe under a deadline: time and optimality, by method", harvest.run),
    "deadline": ("Recall at deadlines of parts and multiples of an exact call's time", deadline.run),
    "overload": ("Streams faster than the machine on Spark, a deadline for each micro-batch", overload.run),
    "spark": ("On Spark, against Spark's own stream-stream join, on the same files", spark.run),
    "peers": ("The same joins of the same files by Spark, Flink, DuckDB and Windrow", peers.run),
    "state": ("Stored windows: cold starts, what a commit costs, and windows that spill", state.run),
    "requests": ("Stored windows on an object store: requests by partitions", state_requests.run),
    "startup": ("First use compiles, later processes load from disk", startup.run),
}
CASE = Option("case")
ON_REQUEST = ("coverage", "forecast", "policies", "peers")
"""Run only by name: they take long, and fetch packages."""
WITH_CASES: dict[str, Callable[..., Figures]] = {
    "deadline": deadline.run,
    "spark": spark.run,
    "peers": peers.run,
    "state": state.run,
    "coverage": real.coverage,
    "forecast": real.forecast,
    "policies": real.policies,
}


def run_benchmarks(
    names: list[str], rows: int, out: Path, case: str | None = None, console: Console | None = None
) -> dict[str, Figures]:
    """The benchmarks of these names, or all but those on request; of those `WITH_CASES`, only the cases whose
    names contain `case`. Returns their figures."""
    for name in names:
        if name not in BENCHMARKS:
            raise QueryError(unknown("benchmark", name, BENCHMARKS))
    if case is not None and not (len(names) == 1 and names[0] in WITH_CASES):
        raise QueryError(f"goes with one of {list(WITH_CASES)}, whose cases have names; got {names}", CASE)
    console = console or Console()
    out.mkdir(parents=True, exist_ok=True)
    found = {}
    for name in names or [name for name in BENCHMARKS if name not in ON_REQUEST]:
        title, run = BENCHMARKS[name]
        console.print(f"[bold]{name}[/bold]: {title}")
        found[name] = figures = (run if case is None else partial(WITH_CASES[name], case=case))(rows, console)
        (out / f"{name}.json").write_text(json.dumps({"benchmark": name, "figures": figures}, indent=1))
        for _, alike in groupby(figures, key=tuple):
            console.print(_table(list(alike)))
    return found


def _table(figures: Figures) -> Table:
    """A line per figure, a column per case; or the other way round where there are more cases."""
    head, *lines = figures[0]
    if len(figures) > len(lines):
        return table((head, *lines), ([_text(case[line]) for line in (head, *lines)] for case in figures))
    cases = [_text(case[head]) for case in figures]
    rows = ([line, *(_text(case[line]) for case in figures)] for line in lines)
    return table((head, *cases), rows, right=cases)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "unknown"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
