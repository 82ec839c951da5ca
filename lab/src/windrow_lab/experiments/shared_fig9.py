"""Shared Fig. 9: the same ranking with nested loops, at 15 rows a second.

A row is compared with every row of the other window; the machine is again busy for half of the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windrow_lab.experiment import Claim, Experiment, Row, Size
from windrow_lab.experiments import shared_fig7 as hashed
from windrow_lab.experiments.shared_fig7 import measure, plot, ranking, tasks

RATE = 15.0


def parameters(size: Size) -> Mapping[str, Any]:
    return {**hashed.parameters(size), "rows/s": RATE}


def run(task: tuple[str, int, int]) -> list[Row]:
    mix, rows, seed = task
    return measure(mix, rows, seed, RATE, scans=True)


def assess(rows: Sequence[Row]) -> list[Claim]:
    return [ranking("S4", rows, "nested loops, 15 rows/s")]


EXPERIMENT = Experiment(
    "shared-fig9", "Seven queries, nested loops", ("S4",), parameters, tasks, run, assess, plot
)
