"""Both limits at once (B6): time for a third of the full work, memory for two fifths of the windows.

Against it stand schemes for one resource with the other enforced blindly: a memory policy that ranks rows,
with rows dropped for lack of time; and a harvest, with the oldest or random rows evicted for lack of memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from windrow.lab import grubjoin
from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.grubjoin import DEVIATIONS, Process, epsilon_join, epsilon_run, run_in_ticks

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
RATE = 150.0
TIME, MEMORY = 1 / 3, 0.4
"""Of what exact results need."""
SEEDS = {"full": 3, "quick": 1}
SECONDS = {"full": 60.0, "quick": 40.0}
SLACK = 0.03
"""Chance: runs differ by as much between seeds."""


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        **grubjoin.described(),
        "rate": RATE,
        "part of the work": TIME,
        "part of the memory": MEMORY,
        "taken for chance": SLACK,
        "seeds": SEEDS[size],
        "seconds": SECONDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[str, float, int]]:
    names = STREAMS if size == "full" else ("three, lagging", "two, lagging")
    return [(name, SECONDS[size], seed) for name in names for seed in range(SEEDS[size])]


def run(task: tuple[str, float, int]) -> list[Row]:
    name, seconds, seed = task
    lags = STREAMS[name]
    process = Process(((0.0, RATE),), lags, DEVIATIONS[: len(lags)], seconds)
    exact = epsilon_run(process, None, seed=seed)
    capacity = float(exact.work[20:].mean() / exact.tick) * TIME
    memory = f"{round(exact.held[20:].mean() * MEMORY)} rows"
    rows = []
    for scheme, shed in SCHEMES.items():
        query = epsilon_join(len(lags), 1.0, shed=shed, memory=memory, seed=seed)
        ran = run_in_ticks(query, process.tables(seed), seconds, 1.0, capacity)
        found = ran.rate() / exact.rate()
        rows.append({"streams": name, "scheme": scheme, "seed": seed, "found": found, **ran.row(capacity)})
    return rows


def assess(rows: Sequence[Row]) -> list[Claim]:
    means = average(rows, by=["streams", "scheme"], of=["found"])
    claims = []
    for name in dict.fromkeys(m["streams"] for m in means):
        found = {m["scheme"]: m["found"] for m in means if m["streams"] == name}
        others = max(each for scheme, each in found.items() if scheme != OURS)
        claims.append(
            Claim(
                "B6",
                f"{name}: never below the better of the single-resource schemes (up to {SLACK:.0%} less is "
                "taken for chance)",
                {scheme: f"{each:.2f}" for scheme, each in found.items()},
                found[OURS] >= (1 - SLACK) * others,
            )
        )
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    means = average(rows, by=["streams", "scheme"], of=["found"])
    names = list(dict.fromkeys(m["streams"] for m in means))
    axes = figure.subplots()
    for number, scheme in enumerate(SCHEMES):
        found = [m["found"] for m in means if m["scheme"] == scheme]
        axes.bar([k + 0.16 * (number - 2) for k in range(len(names))], found, 0.15, label=scheme)
    axes.set(ylabel="results, of all there are", xticks=range(len(names)), xticklabels=names)
    axes.legend()


EXPERIMENT = Experiment(
    "grubjoin-both-limits", "Time and memory limited at once", ("B6",), parameters, tasks, run, assess, plot
)
