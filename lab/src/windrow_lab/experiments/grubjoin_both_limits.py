"""Both limits at once (B6): time for a third of the full work, memory for two fifths of the windows.

Against it stand schemes for one resource with the other enforced blindly: a memory policy that ranks rows,
with rows dropped for lack of time; and a harvest, with the oldest or random rows evicted for lack of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windrow_lab import grubjoin
from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.grubjoin import DEVIATIONS, Process, epsilon_join, epsilon_run, run_in_ticks
from windrow_lab.plots import Bars
from windrow_lab.sweep import swept

STREAMS = {
    "three, lagging": (0.0, 5.0, 15.0),
    "three, lagging less": (0.0, 2.0, 4.0),
    "three, aligned": (0.0, 0.0, 0.0),
    "two, lagging": (0.0, 5.0),
}
OURS = "both (auto)"
SCHEMES: dict[str, Any] = {
    OURS: "auto",
    "age, drop": ("age", "drop"),
    "auto, drop": ("auto", "drop"),
    "harvest, fifo": ("harvest", "fifo"),
    "harvest, random": ("harvest", "random"),
}
TIME, MEMORY = 1 / 3, 0.4
"""Of what exact results need."""


def measure(streams: str, rate: float, seconds: float, seed: int) -> list[Row]:
    lags = STREAMS[streams]
    process = Process(((0.0, rate),), lags, DEVIATIONS[: len(lags)], seconds)
    exact = epsilon_run(process, None, seed=seed)
    capacity = float(exact.work[20:].mean() / exact.tick) * TIME
    memory = f"{round(exact.held[20:].mean() * MEMORY)} rows"
    rows = []
    for scheme, shed in SCHEMES.items():
        query = epsilon_join(len(lags), 1.0, shed=shed, memory=memory, seed=seed)
        ran = run_in_ticks(query, process.tables(seed), seconds, 1.0, capacity)
        rows.append({"scheme": scheme, "found": ran.rate() / exact.rate(), **ran.row(capacity)})
    return rows


def assess(rows: Sequence[Row]) -> list[Claim]:
    return [
        Claim(
            "B6",
            f"{streams}: never below the better of the single-resource schemes",
            {scheme: f"{each:.3f}" for scheme, each in found.items()},
            found[OURS] >= max(each for scheme, each in found.items() if scheme != OURS),
        )
        for streams, found in pivot(rows, "streams", "scheme", of="found").items()
    ]


EXPERIMENT = swept(
    "grubjoin-both-limits",
    "Time and memory limited at once",
    ("B6",),
    measure,
    full={"streams": tuple(STREAMS), "rate": 150.0, "seconds": 60.0, "seed": range(3)},
    quick={"seconds": 40.0, "seed": 0},
    assess=assess,
    plot=Bars("streams", "found", "scheme", ylabel="results, of all there are"),
    fixed=grubjoin.described() | {"part of the work": TIME, "part of the memory": MEMORY},
)
