"""GrubJoin Fig. 13: what a harvest gains over RandomDrop with 3, 4 and 5 streams of 100 rows/s.

The machine is the same for all: just fast enough for three streams, so with more it falls behind by far. The
paper does not tell the lags and deviations of the fourth and fifth stream; here they lag by 10 and 2 s and
are as random as the third.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from windrow_lab import grubjoin
from windrow_lab.averages import pivot
from windrow_lab.claims import at_least_about
from windrow_lab.experiment import Claim, Row
from windrow_lab.grubjoin import CAPACITY, LAGS, POLICIES, Process, epsilon_run, gains, percent
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept


def measure(streams: str, policy: str, m: int, rate: float, seconds: float, seed: int) -> Row:
    return epsilon_run(Process.steady(rate, LAGS[streams], m, seconds), POLICIES[policy], seed=seed).row(
        CAPACITY
    )


def assess(rows: Sequence[Row]) -> list[Claim]:
    gain = {s: gains(found) for s, found in pivot(rows, "streams", "policy", "m", of="output").items()}
    claims = []
    for policy in gain["aligned"]:
        for streams, by_policy in gain.items():
            by_m = by_policy[policy]
            claims.append(
                Claim(
                    "G7",
                    f"{policy}, {streams}: the gain over RandomDrop grows with the number of streams",
                    percent(by_m, " streams"),
                    all(by_m[a] < by_m[b] for a, b in pairwise(sorted(by_m))),
                )
            )
        most = gain["lagging"][policy][5]
        claims.append(
            Claim(
                "G7",
                f"{policy}: it is largest for five lagging streams, about +700 %",
                f"{most:+.0%}",
                most == max(max(by[policy].values()) for by in gain.values())
                and at_least_about(most, 7.0, 1.0),
            )
        )
    return claims


EXPERIMENT = swept(
    "grubjoin-fig13",
    "Harvests of more streams gain more",
    ("G7",),
    measure,
    full={
        "streams": tuple(LAGS),
        "policy": tuple(POLICIES),
        "m": (3, 4, 5),
        "rate": 100.0,
        "seconds": 60.0,
        "seed": range(3),
    },
    quick={"seconds": 30.0, "seed": 0},
    assess=assess,
    plot=Lines("m", "output", "policy", "streams", "streams", "results per second", axes={"yscale": "log"}),
    fixed=grubjoin.described() | {"comparisons per second": CAPACITY},
)
