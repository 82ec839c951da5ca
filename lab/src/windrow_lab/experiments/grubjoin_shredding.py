"""Window shredding (GrubJoin s. 5.2): the lags between the streams change in mid-run.

Three lagging streams of 200 rows/s; at 60 s the lags turn from 0, 5, 15 s to 15, 5, 0 s. A machine that is
ample at first learns the lags from everything it finds; then it can do a part only. With window shredding the
new lags are learned from the rows that probe an even sample of everything; without, from nothing. The
yardstick is a run that had the new lags from the beginning.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from windrow.engine.operator import Operator
from windrow_lab import grubjoin
from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.grubjoin import BASIC, CAPACITY, DEVIATIONS, OURS, Process, epsilon_join, run_in_ticks
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

SLOW, STEP = 20.0, 5
LAGS, CHANGED = (0.0, 5.0, 15.0), (15.0, 5.0, 0.0)
SERIES = {"with shredding": 0.1, "without shredding": 0.0, "from the beginning": 0.1}
SETTLED = 30.0
"""Seconds before the end over which output is compared: by then the windows hold none of the old lags."""
RECOVERED, LOST = 0.9, 0.5


def measure(run: str, rate: float, change: float, seconds: float, seed: int) -> list[Row]:
    at = 0.0 if run == "from the beginning" else change
    process = Process(((0.0, rate),), LAGS, DEVIATIONS[:3], seconds, (at, CHANGED))
    ages: list[float | None] = []

    def keep(tick: int, operator: Operator, output: pa.Table) -> None:
        harvest = None if operator.plan is None else operator.plan.harvest
        hops = [] if harvest is None else harvest.directions[2].hops
        best = [hop.ranking[0] for hop in hops if hop.stream == 0]
        ages.append((best[0] + 0.5) * BASIC if best else None)

    def capacity(tick: int) -> float:
        return CAPACITY * (100 if tick < SLOW else 1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that nothing is learned is what is shown
        query = epsilon_join(3, 1.0, shed=replace(OURS, shredding_fraction=SERIES[run]), seed=seed)
        ran = run_in_ticks(query, process.tables(seed), seconds, 1.0, capacity, keep)
    return [
        {"time": start, "output": ran.rate(start, start + STEP), "best age": ages[start + STEP - 1]}
        for start in range(0, round(seconds), STEP)
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    change, end = rows[0]["change"], rows[0]["seconds"]
    late = [row for row in rows if row["time"] >= end - SETTLED]
    output = pivot(late, "run", of="output")
    part = {run: each / output["from the beginning"] for run, each in output.items()}
    fallen = [r for r in rows if r["run"] == "with shredding" and change + 5 <= r["time"] < change + 15]
    dip = pivot(fallen, of="output") / output["from the beginning"]
    ages = [row["best age"] for row in late if row["run"] == "with shredding"]
    lag = CHANGED[0] - CHANGED[2]
    return [
        Claim(
            "G10",
            f"the learned histograms follow: rows of c probe first the rows of a that are {lag:g} s older",
            {"best age at the end": ages[-1]},
            all(age is not None and abs(age - lag) <= BASIC for age in ages),
        ),
        Claim(
            "G10",
            "the output falls when the lags change, and with shredding it recovers to that of a run that had "
            f"the new lags from the beginning ({RECOVERED} of it)",
            {"just after the change": f"{dip:.0%}", "later": f"{part['with shredding']:.0%}"},
            dip < RECOVERED <= part["with shredding"],
        ),
        Claim(
            "G10",
            f"without shredding it does not: less than {LOST} of it",
            {"later": f"{part['without shredding']:.0%}"},
            part["without shredding"] < LOST,
        ),
    ]


EXPERIMENT = swept(
    "grubjoin-shredding",
    "The lags change in mid-run",
    ("G10",),
    measure,
    full={"run": tuple(SERIES), "rate": 200.0, "change": 60.0, "seconds": 150.0, "seed": range(2)},
    quick={"change": 30.0, "seconds": 120.0, "seed": 0},
    assess=assess,
    plot=Lines("time", "output", "run", xlabel="seconds", ylabel="results per second"),
    fixed=grubjoin.described() | {"comparisons per second": CAPACITY, "lags": (LAGS, CHANGED)},
)
