"""Shared Fig. 9: the same ranking with nested loops, at 15 rows a second.

A row is compared with every row of the other window; the machine is again busy for half of the time.
"""

from __future__ import annotations

from collections.abc import Sequence

from windrow_lab.experiment import Claim, Row
from windrow_lab.experiments.shared_fig7 import FULL, LOAD, QUICK, measure, plot, ranking
from windrow_lab.shared import MIXES
from windrow_lab.sweep import swept

RATE = 15.0


def assess(rows: Sequence[Row]) -> list[Claim]:
    return [ranking("S4", rows, "nested loops, 15 rows/s")]


EXPERIMENT = swept(
    "shared-fig9",
    "Seven queries, nested loops",
    ("S4",),
    measure,
    full={"rate": RATE, "access": "scan", **FULL},
    quick=QUICK,
    assess=assess,
    plot=plot,
    fixed={"busy": LOAD, "mixes": MIXES},
)
