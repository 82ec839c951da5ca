"""Window shredding (GrubJoin s. 5.2): the lags between the streams change in mid-run.

Three lagging streams of 200 rows/s; at 60 s the lags turn from 0, 5, 15 s to 15, 5, 0 s. A machine that is
ample at first learns the lags from everything it finds; then it can do a part only. With window shredding the
new lags are learned from the rows that look at an even sample of everything; without, from nothing. The
yardstick is a run that had the new lags from the beginning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from matplotlib.figure import Figure

from windrow.lab import grubjoin
from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.grubjoin import CAPACITY, DEVIATIONS, OURS, Process, epsilon_join, run_in_ticks

RATE, SLOW = 200.0, 20.0
LAGS, CHANGED = (0.0, 5.0, 15.0), (15.0, 5.0, 0.0)
CHANGE = {"full": 60.0, "quick": 30.0}
SECONDS = {"full": 150.0, "quick": 120.0}
SERIES = {"with shredding": 0.1, "without shredding": 0.0, "from the beginning": 0.1}
SEEDS = {"full": 2, "quick": 1}
SETTLED = 30.0
"""Seconds before the end over which output is compared: by then the windows hold none of the old lags."""
RECOVERED = 0.9


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        **grubjoin.described(),
        "comparisons per second": CAPACITY,
        "rate": RATE,
        "lags": (LAGS, CHANGED),
        "changed at": CHANGE[size],
        "seconds": SECONDS[size],
        "shredding": SERIES,
        "seeds": SEEDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[str, float, float, int]]:
    return [(name, CHANGE[size], SECONDS[size], seed) for name in SERIES for seed in range(SEEDS[size])]


def run(task: tuple[str, float, float, int]) -> list[Row]:
    name, change, seconds, seed = task
    at = 0.0 if name == "from the beginning" else change
    process = Process(((0.0, RATE),), LAGS, DEVIATIONS[:3], seconds, (at, CHANGED))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that nothing is learned is what is shown
        query = epsilon_join(3, 1.0, shed=replace(OURS, shredding=SERIES[name]), seed=seed)
        tables = process.tables(seed)
        ran = run_in_ticks(query, tables, seconds, 1.0, lambda k: CAPACITY * (100 if k < SLOW else 1))
    step = 5
    return [
        {
            "run": name,
            "seed": seed,
            "time": start,
            "output": ran.rate(start, start + step),
            "change": change,
            "seconds": seconds,
        }
        for start in range(0, round(seconds), step)
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    change, seconds = rows[0]["change"], rows[0]["seconds"]
    last = _output(rows, seconds - SETTLED, seconds)
    part = {name: last[name] / last["from the beginning"] for name in SERIES}
    dip = _output(rows, change + 5, change + 15)["with shredding"] / last["from the beginning"]
    shown = {"just after the change": f"{dip:.0%}", "later": f"{part['with shredding']:.0%}"}
    return [
        Claim(
            "G10",
            "when the lags change the output falls, and with shredding recovers to that of a run that had "
            "the new lags from the beginning",
            shown,
            dip < RECOVERED <= part["with shredding"],
        ),
        Claim(
            "G10",
            "without shredding it does not",
            {"later": f"{part['without shredding']:.0%}"},
            part["without shredding"] < RECOVERED,
        ),
    ]


def plot(rows: Sequence[Row], figure: Figure) -> None:
    means = average(rows, by=["run", "time"], of=["output"])
    axes = figure.subplots()
    for name in SERIES:
        kept = [m for m in means if m["run"] == name]
        axes.step([m["time"] for m in kept], [m["output"] for m in kept], where="post", label=name)
    axes.axvline(rows[0]["change"], color="grey", ls=":")
    axes.set(xlabel="seconds (dotted: the lags change)", ylabel="results per second", ylim=(0, None))
    axes.legend()


def _output(rows: Sequence[Row], after: float, until: float) -> dict[str, float]:
    kept = [row for row in rows if after <= row["time"] < until]
    return {m["run"]: m["output"] for m in average(kept, by=["run"], of=["output"])}


EXPERIMENT = Experiment(
    "grubjoin-shredding", "The lags change in mid-run", ("G10",), parameters, tasks, run, assess, plot
)
