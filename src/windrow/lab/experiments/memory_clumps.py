"""Claim B4 where results come in clumps: few keys make most of them, all the time or for a short while.

As `memory-coverage`, but what a limit loses is lost in clumps, and a dozen ghosts at a time see few of them.
Windows of time and of rows, two streams and three.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from windrow.lab.clumped_streams import bursts, skewed
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.experiments.memory_coverage import MEMORY, PACE, coverage, draw, told
from windrow.lab.memory import Trace
from windrow.model.importance import Importance
from windrow.model.policies import POLICIES
from windrow.model.policy import Policy

SEEDS = {"full": 100, "quick": 4}
CASES = (
    "2 streams, skewed",
    "2 streams, bursts",
    "2 streams, bursts, rows",
    "3 streams, skewed",
    "3 streams, bursts",
    "3 streams, skewed, rows",
)
NAMES = ("fifo", "random", "age", "frequency", "importance", "auto", "uniform", "cluster")
QUICK = ("auto", "cluster"), ("2 streams, bursts", "3 streams, bursts")
"""Policies and cases of the quick size."""


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "memory": MEMORY,
        "ghosts": Policy.monitor,
        "evaluated": PACE,
        "seeds": SEEDS[size],
        "2 streams": "20 rows/s each, windows of 20 s, or of as many rows, 100 s",
        "3 streams": "20 rows/s each, windows of 15 s, or of as many rows, 75 s",
        "skewed": "300 values, Zipf 1.2 for two streams and 1.0 for three",
        "bursts": "half of the rows have a key of their own, half one that stays for 0.2 to 0.6 windows; "
        "rows by key: Pareto with exponent 1.5",
    }


def tasks(size: Size) -> Sequence[tuple[Size, int]]:
    return [(size, seed) for seed in range(SEEDS[size])]


def run(task: tuple[Size, int]) -> list[Row]:
    size, seed = task
    rows = []
    names, cases = (NAMES, CASES) if size == "full" else QUICK
    for case in cases:
        trace = _trace(case, seed)
        for name in names:
            if name == "uniform" and case.startswith("3"):
                continue
            by = {alias: f"abs({alias}.k) % 10 + 1" for alias in trace.tables}
            policy = Importance(by=by) if name == "importance" else POLICIES[name]()
            common = {"case": case, "policy": name, "seed": seed}
            rows += [common | each for each in told(trace, policy, seed)]
    return rows


def _trace(case: str, seed: int) -> Trace:
    streams, counted = int(case[0]), case.endswith("rows")
    span, window = (100, 20) if streams == 2 else (75, 15)
    if "bursts" in case:
        return bursts(streams, span, seed, 25, window, counted=counted)
    return skewed(streams, span, seed, 25, window, 300, 1.2 if streams == 2 else 1.0, counted)


def assess(rows: Sequence[Row]) -> list[Claim]:
    return coverage(rows, _cases(rows))


def plot(rows: Sequence[Row], figure: Figure) -> None:
    draw(rows, figure, _cases(rows), 2)


def _cases(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["case"] for row in rows))


EXPERIMENT = Experiment(
    "memory-clumps",
    "The true recall lies inside the interval that is told, where results come in clumps",
    ("B4",),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
