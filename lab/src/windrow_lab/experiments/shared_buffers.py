"""Shared s. 5.3: what SWF and Greedy hold beyond the windows: rows in queues, results that wait for others.

Both as a part of the join buffers, which hold 600 s of both streams. Poisson arrivals and the four mixes,
busy for 0.4 and for half of the time: the paper does not say how busy its machine was, and what waits depends
on it. Bursts of 5 have no variance, so the largest of a run is whatever it is, and any schedule has to queue
it: LWO is run beside, and what SWF and Greedy queue beyond it is judged too. The output buffer under bursts
is not: a row makes 120 results on average and hundreds of rows wait at once, so SWF holds more results than
the join buffers rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from windrow_lab.experiment import Claim, Experiment, Row, Size
from windrow_lab.shared import MIXES, ArrivalTrace, bursts, calibrated, count, poisson, response

RATE = 100.0
LOADS = {"Poisson": (0.4, 0.5), "bursts of 5": (0.5,)}
ROWS = {"full": 100_000, "quick": 6_000}
SEEDS = {"full": 4, "quick": 1}
JUDGED = ("swf", "greedy")
ARRIVALS = ("Poisson", "bursts of 5")


def parameters(size: Size) -> Mapping[str, Any]:
    return {"rows/s": RATE, "busy": LOADS, "rows": ROWS[size], "seeds": SEEDS[size], "mixes": MIXES}


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
    buffers = 2 * RATE * longest
    found: list[Row] = []
    for load, schedule in product(LOADS[arrivals], ("lwo", *JUDGED)):
        served = response(made, counted, windows, schedule, calibrated(made, counted, load))
        found.append(
            {
                "arrivals": arrivals,
                "mix": mix,
                "schedule": schedule,
                "busy": load,
                "seed": seed,
                "largest burst": _largest_burst(made) / buffers,
                "input": served.waiting / buffers,
                "output": served.held / buffers,
            }
        )
    return found


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    for (what, limit), load in product((("input", 0.10), ("output", 0.03)), LOADS[ARRIVALS[0]]):
        busy = [r for r in rows if r["busy"] == load]
        most = {s: _most(busy, ARRIVALS[0], s, what) for s in JUDGED}
        claims.append(
            Claim(
                "S6",
                f"Poisson arrivals, busy {load:g}: the {what} buffer stays below {limit:.0%} of the join "
                "buffers",
                most,
                max(most.values()) < limit,
            )
        )
    bursty = {s: _most(rows, ARRIVALS[1], s, "input") for s in ("lwo", *JUDGED)}
    bursty["largest burst"] = max(r["largest burst"] for r in rows if r["arrivals"] == ARRIVALS[1])
    below = max(bursty[s] for s in JUDGED) < 0.10
    claims.append(Claim("S6", "bursts of 5: the input buffer stays below 10 %", bursty, below))
    beyond = {s: _beyond_lwo(rows, s) for s in JUDGED}
    claims.append(
        Claim(
            "S6",
            "bursts of 5: the input buffer beyond LWO's stays below 10 %",
            beyond,
            max(beyond.values()) < 0.10,
        )
    )
    return claims


def _largest_burst(made: ArrivalTrace) -> int:
    """Rows of one stream that come at one moment, where most do."""
    streams = made.streams[made.first :]
    return max(int(np.unique(made.arrived[streams == s], return_counts=True)[1].max()) for s in range(2))


def _beyond_lwo(rows: Sequence[Row], schedule: str) -> float:
    """The most that a schedule queues beyond what LWO does in the same run."""
    runs = {(r["mix"], r["seed"], r["schedule"]): r["input"] for r in rows if r["arrivals"] == ARRIVALS[1]}
    return max(runs[m, n, s] - runs[m, n, "lwo"] for m, n, s in runs if s == schedule)


def plot(rows: Sequence[Row], figure: Figure) -> None:
    for axes, what in zip(figure.subplots(1, 2), ("input", "output"), strict=True):
        for k, schedule in enumerate(JUDGED):
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
