"""Shared s. 5.3: what SWF and Greedy hold beyond the windows: rows in queues, results that wait for others.

Both as a part of the join buffers, which hold 600 s of both streams. Poisson arrivals, the four mixes, half
of the time busy. Bursts of 5 are shown as well, and their output buffer is not judged: a row makes 120
results on average and hundreds of rows wait at once, so SWF holds more results than the join buffers rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.shared import MIXES, bursts, calibrated, count, poisson, response

RATE, LOAD = 100.0, 0.5
ROWS = {"full": 100_000, "quick": 6_000}
SEEDS = {"full": 4, "quick": 1}
SCHEDULES = ("swf", "greedy")
ARRIVALS = ("Poisson", "bursts of 5")


def parameters(size: Size) -> Mapping[str, Any]:
    return {"rows/s": RATE, "busy": LOAD, "rows": ROWS[size], "seeds": SEEDS[size], "mixes": MIXES}


def tasks(size: Size) -> Sequence[tuple[str, str, int, int]]:
    return [(a, mix, ROWS[size], seed) for a in ARRIVALS for mix in MIXES for seed in range(SEEDS[size])]


def run(task: tuple[str, str, int, int]) -> list[Row]:
    arrivals, mix, rows, seed = task
    windows = MIXES[mix]
    longest = windows[-1]
    made = (
        poisson(RATE, rows, longest, seed)
        if arrivals == ARRIVALS[0]
        else bursts(RATE, 5, rows, longest, seed)
    )
    counted = count(made, windows, nested=False)
    machine = calibrated(made, counted, LOAD)
    buffers = 2 * RATE * longest
    found = []
    for schedule in SCHEDULES:
        served = response(made, counted, windows, schedule, machine)
        found.append(
            {
                "arrivals": arrivals,
                "mix": mix,
                "schedule": schedule,
                "seed": seed,
                "input": served.waiting / buffers,
                "output": served.held / buffers,
            }
        )
    return found


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    for what, limit in (("input", 0.10), ("output", 0.03)):
        most = {s: _most(rows, ARRIVALS[0], s, what) for s in SCHEDULES}
        claims.append(
            Claim(
                "S6",
                f"Poisson arrivals: the {what} buffer stays below {limit:.0%} of the join buffers",
                most,
                max(most.values()) < limit,
            )
        )
    bursty = {s: _most(rows, ARRIVALS[1], s, "input") for s in SCHEDULES}
    claims.append(
        Claim("S6", "bursts of 5: the input buffer stays below 10 %", bursty, max(bursty.values()) < 0.10)
    )
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    for axes, what in zip(figure.subplots(1, 2), ("input", "output"), strict=True):
        for k, schedule in enumerate(SCHEDULES):
            parts = [_most([r for r in rows if r["mix"] == m], ARRIVALS[0], schedule, what) for m in MIXES]
            axes.bar([x + 0.4 * k for x in range(len(MIXES))], [100 * p for p in parts], 0.4, label=schedule)
        axes.set_xticks([x + 0.2 for x in range(len(MIXES))], list(MIXES), fontsize=8)
        axes.set_ylabel(f"{what} buffer, % of the join buffers")
    figure.axes[0].legend()


def _most(rows: Sequence[Row], arrivals: str, schedule: str, what: str) -> float:
    return max(r[what] for r in rows if (r["arrivals"], r["schedule"]) == (arrivals, schedule))


EXPERIMENT = Experiment(
    "shared-buffers",
    "What scheduling holds beyond the windows",
    ("S6",),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
