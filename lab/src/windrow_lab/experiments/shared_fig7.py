"""Shared Fig. 7 and 8: response times of seven queries, four mixes of windows, hash join, Poisson arrivals.

The paper gives the rate (100 rows a second and stream) but not how busy its machine was. Here it is busy for
half of the time; 40 % of its work is making results, as the paper found (s. 3.4). The paper serves 100,000
rows after the windows have filled.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from windrow_lab.averages import average
from windrow_lab.experiment import Claim, Row
from windrow_lab.shared import MIXES, SCHEDULES, SharedWorkload, poisson
from windrow_lab.sweep import swept

RATE, LOAD = 100.0, 0.5
FULL, QUICK = {"mix": tuple(MIXES), "rows": 20_000, "seed": range(2)}, {"rows": 600, "seed": 0}


def measure(rate: float, access: str, mix: str, rows: int, seed: int) -> list[Row]:
    """A row for each schedule and window."""
    windows = MIXES[mix]
    workload = SharedWorkload.of(windows, poisson(rate, rows, windows[-1], seed), access == "scan")
    costs = workload.costs(LOAD)
    found = []
    for schedule in SCHEDULES:
        served = workload.serve(schedule, costs)
        for k, window in enumerate(windows):
            found.append(
                {
                    "schedule": schedule,
                    "window": window,
                    "mean": float(served.mean[k]),
                    "most": float(served.most[k]),
                    "average": served.average,
                }
            )
    return found


def ranking(claim: str, rows: Sequence[Row], where: str) -> Claim:
    """Greedy has the best average response time in every mix."""
    means = _averages(rows)
    best = {mix: min(each, key=each.__getitem__) for mix, each in means.items()}
    return Claim(
        claim,
        f"{where}: Greedy has the best average response of the three in every mix (ms: lwo, swf, greedy)",
        {mix: [1e3 * each[s] for s in SCHEDULES] for mix, each in means.items()},
        set(best.values()) == {"greedy"},
    )


def assess(rows: Sequence[Row]) -> list[Claim]:
    means = _averages(rows)
    flat = {mix: _mean(rows, mix, "lwo", -1) / _mean(rows, mix, "lwo", 0) for mix in MIXES}
    gain = {
        s: min(_mean(rows, mix, "lwo", 0) / _mean(rows, mix, s, 0) for mix in MIXES)
        for s in ("swf", "greedy")
    }
    poor = {mix: each["swf"] / each["greedy"] for mix, each in means.items()}
    return [
        ranking("S2", rows, "hash, 100 rows/s"),
        Claim(
            "S3",
            "LWO roughly flat: the largest window waits at most 2.5 times as long as the smallest",
            flat,
            max(flat.values()) <= 2.5,
        ),
        Claim(
            "S3",
            "SWF and Greedy serve the smallest window at least 3 times as fast as LWO, in every mix",
            gain,
            min(gain.values()) >= 3,
        ),
        Claim(
            "S3",
            "SWF is poor on Mostly-Large: further behind Greedy than on Uniform and Mostly-Small",
            poor,
            poor["Mostly-Large"] > max(poor["Uniform"], poor["Mostly-Small"]),
        ),
    ]


def plot(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots(1, len(MIXES), sharey=True)
    for each, mix in zip(axes, MIXES, strict=True):
        for schedule in SCHEDULES:
            times = [1e3 * _mean(rows, mix, schedule, k) for k in range(7)]
            each.plot(range(1, 8), times, "o-", label=schedule, markersize=3)
        each.set(title=mix, xlabel="window", xticks=range(1, 8), yscale="log")
    axes[0].set_ylabel("average response, ms")
    axes[0].legend()


def _averages(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    means = average(rows, by=("mix", "schedule"), of=("average",))
    return {mix: {r["schedule"]: r["average"] for r in means if r["mix"] == mix} for mix in MIXES}


def _mean(rows: Sequence[Row], mix: str, schedule: str, k: int) -> float:
    mine = [r for r in rows if (r["mix"], r["schedule"], r["window"]) == (mix, schedule, MIXES[mix][k])]
    return sum(r["mean"] for r in mine) / len(mine)


EXPERIMENT = swept(
    "shared-fig7",
    "Seven queries, one hash join",
    ("S2", "S3"),
    measure,
    full={"rate": RATE, "access": "hash", **FULL},
    quick=QUICK,
    assess=assess,
    plot=plot,
    fixed={"busy": LOAD, "mixes": MIXES},
)
