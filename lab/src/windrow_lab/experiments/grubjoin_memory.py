"""Memory that a harvest saves (GrubJoin s. 7): rows older than anything it probes are evicted.

The same streams, lagging by up to 4 s, with and without the admission rule. Shredding, which probes
everything, is off in the runs the claim is judged by (lags are learned while the machine is still ample), so
that what is found is the harvest's alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

from windrow_lab import grubjoin
from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.grubjoin import CAPACITY, DEVIATIONS, OURS, Process, epsilon_join, run_in_ticks
from windrow_lab.plots import Bars
from windrow_lab.sweep import swept

FILLED = 20.0
LAGS = (0.0, 2.0, 4.0)
FREED = 0.1


def measure(shredding: float, conserve: bool, rate: float, seconds: float, seed: int) -> Row:
    process = Process(((0.0, rate),), LAGS, DEVIATIONS[:3], seconds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        # What was learned while there was time must last: without shredding nothing comes after it.
        policy = replace(OURS, shredding_fraction=shredding, conserve_memory=conserve, half_life=100.0)
        query = epsilon_join(3, 1.0, shed=policy, seed=seed)
        ran = run_in_ticks(
            query, process.tables(seed), seconds, 1.0, lambda k: CAPACITY * (100 if k < FILLED else 1)
        )
    return {"held": float(ran.held[round(FILLED) + 5 :].mean()), "output": ran.rate(FILLED + 5)}


def assess(rows: Sequence[Row]) -> list[Claim]:
    held, output = (pivot(rows, "shredding", "conserve", of=name) for name in ("held", "output"))
    freed = {w: 1 - by[True] / by[False] for w, by in held.items()}
    lost = {w: 1 - by[True] / by[False] for w, by in output.items()}
    shown = {w: {"rows freed": f"{freed[w]:.1%}", "output lost": f"{lost[w]:.2%}"} for w in freed}
    return [
        Claim(
            "G11",
            "rows are freed without losing any output that the harvest would have produced",
            shown[0.0],
            freed[0.0] >= FREED and lost[0.0] <= 0,
        ),
        Claim(
            "G11'",
            "up to 1 % of the output is lost; with shredding less than the rows that probe everything",
            shown,
            min(freed.values()) >= FREED and lost[0.0] <= 0.01 and lost[0.1] <= 0.1,
        ),
    ]


EXPERIMENT = swept(
    "grubjoin-memory",
    "Memory that a harvest saves",
    ("G11", "G11'"),
    measure,
    full={
        "shredding": (0.0, 0.1),
        "conserve": (False, True),
        "rate": 200.0,
        "seconds": 60.0,
        "seed": range(4),
    },
    quick={"seconds": 40.0, "seed": 0},
    assess=assess,
    plot=Bars("shredding", "held", "conserve", ylabel="rows in the windows"),
    fixed=grubjoin.described() | {"comparisons per second": CAPACITY, "lags": LAGS, "ample until": FILLED},
)
