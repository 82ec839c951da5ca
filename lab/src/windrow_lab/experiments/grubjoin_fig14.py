"""GrubJoin Fig. 14: output against the adaptation interval while the rates change.

Rates go from 100 to 150 to 50 rows/s and again, every 8 s; throttle and harvest are chosen anew every
interval, buffers hold 10 rows. An adaptation is charged 1 ms, twice what it takes here for five streams (Fig.
8 to 10). The paper's took 10 ms; five streams are run with that, too. The paper does not say whether the
streams lag, so both are run.

This is at the paper's own rates: at a quarter of them some forty rows come in half a second, whose chance
work moves the throttle more than the rates do. The machine is such that the three streams just need no
shedding at 100 rows/s, in the paper's words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from windrow_lab import grubjoin
from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.grubjoin import CAPACITY, DEVIATIONS, LAGS, PAPERS, SCALE, Process, epsilon_run
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

STEP, RATES = 8.0, (100.0, 150.0, 50.0)
CAPACITIES = {"aligned": CAPACITY * SCALE**2, "lagging": 0.7 * CAPACITY * SCALE**2}
"""Comparisons per second: a little more than three such streams need at 100 rows/s."""
OURS, PAPER = 0.001, 0.01
"""Seconds charged for an adaptation."""
TICK, WARM = 0.5, 16.0
"""The first 16 s do not count."""
SHORT, BEST = 1.0, 3.0
"""A short interval; the paper's best for five streams."""


def measure(streams: str, m: int, charged: float, interval: float, seconds: float, seed: int) -> Row:
    steps = tuple((k * STEP, RATES[k % len(RATES)]) for k in range(round(seconds / STEP)))
    process = Process(steps, LAGS[streams][:m], DEVIATIONS[:m], seconds, scale=1.0)
    policy = replace(
        PAPERS, adaptation_interval=f"{interval} s", correlations="pairwise", method="knapsack", parts=True
    )
    capacity = CAPACITIES[streams] * (1 - charged / interval)
    return epsilon_run(process, policy, capacity, seed, TICK).row(capacity, WARM)


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    for (streams, m, charged), output in _outputs(rows).items():
        shown = {f"{interval:g} s": round(each) for interval, each in output.items()}
        best = max(output, key=lambda interval: output[interval])
        if m == 3:
            shorter = all(output[a] >= output[b] for a, b in pairwise(sorted(output)))
            claims.append(Claim("G8", f"3 {streams} streams: shorter is better", shown, shorter))
        elif m == 5 and charged == PAPER:
            says = f"5 {streams} streams, at the paper's cost of an adaptation: {BEST:g} s is best"
            claims.append(Claim("G8", says, shown, best == BEST))
        elif m == 5:
            says = f"5 {streams} streams, at ours: a short interval (up to {SHORT:g} s) is best"
            claims.append(Claim("G8", says, shown, best <= SHORT))
    return claims


def _outputs(rows: Sequence[Row]) -> dict[tuple[str, int, float], dict[float, float]]:
    """Output by interval, for each kind and number of streams and each cost of an adaptation."""
    found = pivot(rows, "streams", "m", "charged", "interval", of="output")
    return {
        (s, m, c): each for s, by_m in found.items() for m, by_c in by_m.items() for c, each in by_c.items()
    }


EXPERIMENT = swept(
    "grubjoin-fig14",
    "How often to adapt",
    ("G8",),
    measure,
    full={
        "streams": tuple(LAGS),
        "m": (3, 4, 5),
        "charged": (OURS, PAPER),
        "interval": (0.5, 1.0, 3.0, 5.0, 8.0),
        "seconds": 72.0,
        "seed": range(2),
    },
    quick={"m": (3, 5), "interval": (0.5, 3.0, 8.0), "seconds": 40.0, "seed": 0},
    assess=assess,
    plot=Lines(
        "interval",
        "output",
        "m",
        "streams",
        "adaptation interval, seconds",
        "results per second",
        axes={"ylim": (0, None)},
        where={"charged": (OURS,)},
    ),
    fixed=grubjoin.described(scale=1.0)
    | {"comparisons per second": CAPACITIES, "rates": RATES, "each for": STEP},
    where=lambda point: point["charged"] == OURS or point["m"] == 5,
)
