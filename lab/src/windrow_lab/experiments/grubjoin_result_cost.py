"""Why harvests gain more over RandomDrop here than in GrubJoin's Fig. 11: there, building results took time.

The points of Fig. 11 at 200 rows/s are run again while a result costs as much as so many comparisons. The
machine is faster by what the results of aligned streams of 100 rows/s cost, so that it is still just fast
enough for these. Policies are not informed: the throttle notices that calls take longer. Nothing is claimed:
this shows a cause.

Costs are stated at the paper's rates. At a quarter of them a row is compared with a quarter of the rows and
finds as many results, so there a quarter is charged.
"""

from __future__ import annotations

from windrow_lab import grubjoin
from windrow_lab.experiment import Row
from windrow_lab.grubjoin import CAPACITY, LAGS, POLICIES, SCALE, Process, epsilon_run
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

NEEDED, FOUND = 221_000.0, 1_930.0
"""Comparisons and results per second of the exact join of aligned streams of 100 rows/s, at our scale."""


def measure(streams: str, policy: str, cost: float, rate: float, seconds: float, seed: int) -> Row:
    charged = cost / SCALE
    capacity = CAPACITY * (1 + charged * FOUND / NEEDED)
    process = Process.steady(rate, LAGS[streams], seconds=seconds)
    ran = epsilon_run(process, POLICIES[policy], capacity, seed, result=charged)
    return {"building": ran.rate() * charged / capacity, **ran.row(capacity)}


EXPERIMENT = swept(
    "grubjoin-result-cost",
    "What harvests gain where results cost time",
    (),
    measure,
    full={
        "streams": tuple(LAGS),
        "policy": tuple(POLICIES),
        "cost": (0.0, 30.0, 100.0, 300.0, 1000.0),
        "rate": 200.0,
        "seconds": 60.0,
        "seed": range(2),
    },
    quick={"streams": "lagging", "cost": (0.0, 300.0), "seconds": 30.0, "seed": 0},
    assess=lambda rows: [],
    plot=Lines("cost", "output", "policy", "streams", "a result costs, in comparisons", "results per second"),
    fixed=grubjoin.described(),
)
