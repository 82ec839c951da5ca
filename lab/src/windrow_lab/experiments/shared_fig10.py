"""Shared Fig. 10: bursts. Pareto on-off arrivals of expected size 1 to 5, Small-Large mix, 100 rows a second.

The paper does not say how busy its machine was; two loads are run. Bursts have no variance to speak of (it is
infinite below a shape of 2), so times differ much from seed to seed, and ratios are taken within a seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from matplotlib.figure import Figure

from windrow_lab.claims import at_least_about
from windrow_lab.experiment import Claim, Row
from windrow_lab.shared import MIXES, SCHEDULES, SharedWorkload, bursts
from windrow_lab.sweep import swept

RATE = 100.0
LOADS = (0.5, 0.8)
SIZES = (1, 2, 3, 4, 5)
MIX = MIXES["Small-Large"]
GAIN, SEVERAL = 0.8, 3.0


def measure(burst: int, rows: int, seed: int) -> list[Row]:
    """A row for each load and schedule."""
    workload = SharedWorkload.of(MIX, bursts(RATE, burst, rows, MIX[-1], seed))
    found: list[Row] = []
    for load in LOADS:
        costs = workload.costs(load)
        for schedule in SCHEDULES:
            served = workload.serve(schedule, costs)
            found.append(
                {
                    "load": load,
                    "schedule": schedule,
                    "average": served.average,
                    "worst": float(served.most[-1]),
                }
            )
    return found


def assess(rows: Sequence[Row]) -> list[Claim]:
    best = {f"{load:g}": [_ratio(rows, load, b, "average", "lwo") for b in SIZES] for load in LOADS}
    behind = {f"{load:g}": [_ratio(rows, load, b, "average", "swf") for b in SIZES] for load in LOADS}
    gains = {load: ratios[SIZES.index(4)] - 1 for load, ratios in best.items()}
    worst = {f"{load:g}": _ratio(rows, load, 5, "worst", "swf") for load in LOADS}
    return [
        Claim(
            "S5",
            "Greedy best at every burst size: average response over Greedy's, by load and size",
            {"LWO": best, "SWF": behind},
            min(min(each) for each in (*best.values(), *behind.values())) > 1,
        ),
        Claim(
            "S5",
            "Greedy about 80 % better than LWO at size 4, by load",
            gains,
            all(at_least_about(gain, GAIN, 0.1) for gain in gains.values()),
        ),
        Claim(
            "S5",
            "at size 5 SWF's worst response for the largest window is several times Greedy's (paper: 5)",
            worst,
            min(worst.values()) >= SEVERAL,
        ),
    ]


def plot(rows: Sequence[Row], figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    for schedule in SCHEDULES:
        for axes, what in ((left, "average"), (right, "worst")):
            times = [median(_values(rows, LOADS[0], b, what, schedule)) for b in SIZES]
            axes.plot(SIZES, times, "o-", label=schedule)
    left.set(xlabel="expected burst size", ylabel="average response, s", yscale="log")
    right.set(xlabel="expected burst size", ylabel="worst response, largest window, s", yscale="log")
    left.legend()


def _values(rows: Sequence[Row], load: float, burst: int, what: str, schedule: str) -> list[float]:
    return [r[what] for r in rows if (r["load"], r["burst"], r["schedule"]) == (load, burst, schedule)]


def _ratio(rows: Sequence[Row], load: float, burst: int, what: str, schedule: str) -> float:
    """Of a schedule over Greedy, in the median seed."""
    other, greedy = (_values(rows, load, burst, what, s) for s in (schedule, "greedy"))
    return median(x / y for x, y in zip(other, greedy, strict=True))


EXPERIMENT = swept(
    "shared-fig10",
    "Bursts, and who is served first",
    ("S5",),
    measure,
    full={"burst": SIZES, "rows": 20_000, "seed": range(3)},
    quick={"rows": 2_000, "seed": 0},
    assess=assess,
    plot=plot,
    fixed={"rows/s": RATE, "busy": LOADS, "windows": MIX},
)
