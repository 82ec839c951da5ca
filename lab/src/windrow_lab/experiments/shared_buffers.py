"""Shared s. 5.3: what SWF and Greedy hold beyond the windows: rows in queues, results held back.

Both are fractions of the join buffer of one stream, as in the paper: 600 s of it, 60,000 rows. The input
buffer, too, is that of one stream; the output buffer holds results of both. Arrivals are those of the
experiments before: Poisson for the four mixes, and bursts of 5 for Small-Large. LWO is run beside: it has an
input buffer too, and holds no results. The paper does not say how busy its machine was; here it is busy for
half of the time. Nor does it say whether a buffer is measured at its fullest, as here, or on average (S6').
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from windrow_lab.experiment import Claim, Row
from windrow_lab.shared import MIXES, SCHEDULES, SharedWorkload, bursts, poisson
from windrow_lab.sweep import swept

RATE, LOAD = 100.0, 0.5
JUDGED = ("swf", "greedy")
LIMITS = {"input": 0.10, "output": 0.03}
USUALLY = "output, on average"
ARRIVALS = ("Poisson", "bursts of 5")


def measure(arrivals: str, mix: str, rows: int, seed: int) -> list[Row]:
    """A row for each schedule."""
    windows = MIXES[mix]
    longest = windows[-1]
    trace = (
        poisson(RATE, rows, longest, seed) if arrivals == "Poisson" else bursts(RATE, 5, rows, longest, seed)
    )
    workload = SharedWorkload.of(windows, trace)
    costs = workload.costs(LOAD)
    found: list[Row] = []
    for schedule in SCHEDULES:
        served = workload.serve(schedule, costs)
        found.append(
            {
                "schedule": schedule,
                "input": served.waiting / (RATE * longest),
                "output": served.held / (RATE * longest),
                "output, on average": served.usually_held / (RATE * longest),
            }
        )
    return found


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    for arrivals in ARRIVALS:
        for what, limit in LIMITS.items():
            most = {s: _most(rows, arrivals, s, what) for s in SCHEDULES}
            claims.append(
                Claim(
                    "S6",
                    f"{arrivals}: SWF and Greedy have an {what} buffer below {limit:.0%} of the join buffer",
                    most,
                    max(most[s] for s in JUDGED) < limit,
                )
            )
        most = {s: _most(rows, arrivals, s, USUALLY) for s in SCHEDULES}
        says = f"{arrivals}: on average over time the output buffer is below {LIMITS['output']:.0%} of it"
        claims.append(Claim("S6'", says, most, max(most[s] for s in JUDGED) < LIMITS["output"]))
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    for axes, what in zip(figure.subplots(1, 2), ("input", "output"), strict=True):
        for k, schedule in enumerate(JUDGED):
            parts = [_most([r for r in rows if r["mix"] == m], "Poisson", schedule, what) for m in MIXES]
            axes.bar([x + 0.4 * k for x in range(len(MIXES))], [100 * p for p in parts], 0.4, label=schedule)
        axes.set_xticks([x + 0.2 for x in range(len(MIXES))], list(MIXES), fontsize=8)
        axes.set_ylabel(f"{what} buffer, % of the join buffer")
    figure.axes[0].legend()


def _most(rows: Sequence[Row], arrivals: str, schedule: str, what: str) -> float:
    return max(r[what] for r in rows if (r["arrivals"], r["schedule"]) == (arrivals, schedule))


EXPERIMENT = swept(
    "shared-buffers",
    "What scheduling holds beyond the windows",
    ("S6", "S6'"),
    measure,
    full={"arrivals": ARRIVALS, "mix": tuple(MIXES), "rows": 20_000, "seed": range(2)},
    quick={"rows": 600, "seed": 0},
    where=lambda point: point["arrivals"] == "Poisson" or point["mix"] == "Small-Large",
    assess=assess,
    plot=plot,
    fixed={"rows/s": RATE, "busy": LOAD},
)
