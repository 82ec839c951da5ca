"""GrubJoin Fig. 13 again, with a less random fourth and fifth stream and at the paper's own rates.

`grubjoin-fig13` takes the fourth and fifth stream to be as random as the third (kappa 50) and runs at a
quarter of the paper's rates. Here they follow the first two as closely as these do each other (kappa 2), the
rates are the paper's, or both. Nothing is claimed: the claim is judged by `grubjoin-fig13`.
"""

from __future__ import annotations

from windrow_lab import grubjoin
from windrow_lab.experiment import Row
from windrow_lab.grubjoin import CAPACITY, DEVIATIONS, LAGS, POLICIES, SCALE, Process, epsilon_run
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept


def measure(
    scale: float, kappa: float, streams: str, policy: str, m: int, rate: float, seconds: float, seed: int
) -> Row:
    deviations = (*DEVIATIONS[:3], kappa, kappa)
    process = Process(((0.0, rate),), LAGS[streams][:m], deviations[:m], seconds, scale=scale)
    # Just enough for three streams, whose work goes with the square of the rates.
    capacity = CAPACITY * (SCALE / scale) ** 2
    ran = epsilon_run(process, POLICIES[policy], capacity, seed)
    return {"variant": f"1/{scale:g} of the rates, kappa {kappa:g}, {streams}", **ran.row(capacity)}


EXPERIMENT = swept(
    "grubjoin-fig13-variants",
    "Fig. 13 with less random streams, and at the paper's rates",
    (),
    measure,
    full={
        "scale": (1.0, SCALE),
        "kappa": (2.0, 50.0),
        "streams": tuple(LAGS),
        "policy": tuple(POLICIES),
        "m": (4, 5),
        "rate": 100.0,
        "seconds": 60.0,
        "seed": range(2),
    },
    quick={"scale": SCALE, "m": 4, "policy": ("drop", "harvest"), "seconds": 30.0, "seed": 0},
    where=lambda point: (point["scale"], point["kappa"]) != (SCALE, 50.0),
    assess=lambda rows: [],
    plot=Lines("m", "output", "policy", "variant", "streams", "results per second", axes={"yscale": "log"}),
    fixed=grubjoin.described() | {"scale": "by variant", "kappa": "by variant"},
)
