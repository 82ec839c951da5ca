"""Shared Fig. 3 and 5, equations 1 and 2: average response times of a burst, by formula and by the operator.

Fifty rows come at once and match everything (selectivity 1); a look takes 0.01 us and windows of 1 to 600 s
hold 100 rows a second.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from windrow_lab.experiment import Claim, Row
from windrow_lab.shared import MIXES, SCHEDULES, ArrivalTrace, ServerCosts, SharedWorkload
from windrow_lab.sweep import swept

WINDOWS = MIXES["Uniform"]
RATE, BURST, LOOK = 100, 50, 1e-8
SERVED = (*SCHEDULES, "alone")
TITLES = {"lwo": "LWO, eq. 1", "swf": "SWF, eq. 2", "alone": "alone"}


def formula(schedule: str, k: int) -> float:
    """Seconds. Eq. 1; eq. 2; and eq. 1 with the query's own window for the largest."""
    held = [RATE * w for w in WINDOWS]
    if schedule == "swf":
        below = held[k - 1] if k else 0
        return LOOK * (BURST * below + (BURST + 1) / 2 * (held[k] - below))
    largest = held[-1] if schedule == "lwo" else held[k]
    return LOOK / 2 * (held[k] + 1 + (BURST - 1) * largest)


def measure(schedule: str) -> list[Row]:
    """A row for each window."""
    held, costs = int(RATE * WINDOWS[-1]), ServerCosts(LOOK, 0.0)
    now = WINDOWS[-1] + 1.0
    times = np.append(now - np.arange(held, 0, -1) / RATE, np.full(BURST, now))
    streams = np.repeat([1, 0], [held, BURST])
    trace = ArrivalTrace(times, streams, np.zeros(len(times), np.int64), held)
    if schedule == "alone":
        means = [SharedWorkload.of((w,), trace).serve("lwo", costs).average for w in WINDOWS]
    else:
        means = SharedWorkload.of(WINDOWS, trace).serve(schedule, costs).mean.tolist()
    found: list[Row] = [
        {"window": window, "measured": mean} for window, mean in zip(WINDOWS, means, strict=True)
    ]
    if schedule in TITLES:
        for k, row in enumerate(found):
            row["formula"] = formula(schedule, k)
    return found


def assess(rows: Sequence[Row]) -> list[Claim]:
    off = {
        title: max(abs(r["measured"] / r["formula"] - 1) for r in rows if r["schedule"] == schedule)
        for schedule, title in TITLES.items()
    }
    return [
        Claim(
            "S1",
            "response times agree with equations 1 and 2, and with equation 1 for a query alone (relative "
            "difference, at most 0.001)",
            off,
            max(off.values()) < 1e-3,
        )
    ]


def plot(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    for schedule in SERVED:
        mine = [r for r in rows if r["schedule"] == schedule]
        axes.plot([r["window"] for r in mine], [1e3 * r["measured"] for r in mine], "o-", label=schedule)
        if "formula" in mine[0]:
            axes.plot([r["window"] for r in mine], [1e3 * r["formula"] for r in mine], "k+", markersize=12)
    axes.set(xlabel="window, seconds", ylabel="average response, ms (crosses: formula)", yscale="log")
    axes.legend()


EXPERIMENT = swept(
    "shared-fig3",
    "A burst of 50 rows: who waits for whom",
    ("S1",),
    measure,
    full={"schedule": SERVED},
    quick={},
    assess=assess,
    plot=plot,
    fixed={"windows": WINDOWS, "rows/s": RATE, "burst": BURST, "seconds a look": LOOK},
)
