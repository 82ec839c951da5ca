"""Shared Fig. 3 and 5, equations 1 and 2: average response time of a burst, by formula and as simulated.

Fifty rows come at once and match everything (selectivity 1); a look takes 0.01 us and windows of 1 to 600 s
hold 100 rows a second. The simulation serves the burst unit by unit on the virtual clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from windrow_lab.experiment import Claim, Experiment, Row, Size
from windrow_lab.shared import MIXES, ArrivalTrace, CountedMatches, ServerCosts, response

WINDOWS = MIXES["Uniform"]
RATE, BURST, LOOK = 100, 50, 1e-8
TITLES = {"lwo": "LWO, eq. 1", "swf": "SWF, eq. 2", "alone": "alone"}


def parameters(size: Size) -> Mapping[str, Any]:
    return {"windows": WINDOWS, "rows/s": RATE, "burst": BURST, "seconds a look": LOOK}


def tasks(size: Size) -> Sequence[str]:
    return ["lwo", "swf", "greedy", "alone"]


def formula(schedule: str, k: int) -> float:
    """Seconds. Eq. 1; eq. 2; and eq. 1 with the query's own window for the largest."""
    held = [RATE * w for w in WINDOWS]
    if schedule == "swf":
        below = held[k - 1] if k else 0
        return LOOK * (BURST * below + (BURST + 1) / 2 * (held[k] - below))
    largest = held[-1] if schedule == "lwo" else held[k]
    return LOOK / 2 * (held[k] + 1 + (BURST - 1) * largest)


def run(task: str) -> list[Row]:
    trace = ArrivalTrace(np.zeros(BURST), np.zeros(BURST, np.int64), np.zeros(BURST, np.int64), 0)
    rows = []
    for k, window in enumerate(WINDOWS):
        asked = (window,) if task == "alone" else WINDOWS
        held = np.diff(RATE * np.array(asked), prepend=0.0).astype(np.int64)
        counted = CountedMatches(*(np.tile(held, (BURST, 1)),) * 2)
        served = response(trace, counted, asked, "lwo" if task == "alone" else task, ServerCosts(LOOK, 0.0))
        row: Row = {
            "schedule": task,
            "window": window,
            "simulated": float(served.mean[0 if task == "alone" else k]),
        }
        if task in TITLES:
            row["formula"] = formula(task, k)
        rows.append(row)
    return rows


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    for schedule, title in TITLES.items():
        off = [abs(r["simulated"] / r["formula"] - 1) for r in rows if r["schedule"] == schedule]
        claims.append(
            Claim(
                "S1",
                f"{title}: simulated response times agree with the formula",
                {"largest difference": max(off)},
                max(off) < 1e-3,
            )
        )
    small = {r["schedule"]: r["simulated"] for r in rows if r["window"] == WINDOWS[0]}
    claims.append(
        Claim(
            "S1",
            "LWO makes the smallest window wait for the largest; SWF does not",
            {name: seconds * 1e3 for name, seconds in small.items()},
            small["lwo"] > 100 * small["alone"] and small["swf"] < 1.1 * small["alone"],
        )
    )
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    for schedule in ("lwo", "swf", "greedy", "alone"):
        mine = [r for r in rows if r["schedule"] == schedule]
        axes.plot([r["window"] for r in mine], [1e3 * r["simulated"] for r in mine], "o-", label=schedule)
        if "formula" in mine[0]:
            axes.plot([r["window"] for r in mine], [1e3 * r["formula"] for r in mine], "k+", markersize=12)
    axes.set(xlabel="window, seconds", ylabel="average response, ms (crosses: formula)", yscale="log")
    axes.legend()


EXPERIMENT = Experiment(
    "shared-fig3", "A burst of 50 rows: who waits for whom", ("S1",), parameters, tasks, run, assess, plot
)
