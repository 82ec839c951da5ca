"""GrubJoin Fig. 12: output against the amount of correlation, lagging streams of 200 rows/s.

The deviation of the third stream is swept, as in the paper; and that of all three at once, since the first
two stay correlated however random the third is.
"""

from __future__ import annotations

from collections.abc import Sequence

from windrow_lab import grubjoin
from windrow_lab.averages import pivot
from windrow_lab.claims import about
from windrow_lab.experiment import Claim, Row
from windrow_lab.grubjoin import CAPACITY, LAGGING, POLICIES, Process, epsilon_run, gains, percent
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

FIXED = {"the third": (2.0, 2.0), "all three": ()}
"""Deviations that stay as they are, by what is swept."""
PAPER = {25.0: 2.5, 50.0: 1.5, 75.0: 0.25}
MEET = 0.2


def measure(swept: str, policy: str, kappa: float, rate: float, seconds: float, seed: int) -> Row:
    deviations = FIXED[swept] + (kappa,) * (3 - len(FIXED[swept]))
    process = Process(((0.0, rate),), LAGGING[:3], deviations, seconds)
    return epsilon_run(process, POLICIES[policy], seed=seed).row(CAPACITY)


def assess(rows: Sequence[Row]) -> list[Claim]:
    gain = {
        swept: gains(outputs)
        for swept, outputs in pivot(rows, "swept", "policy", "kappa", of="output").items()
    }
    claims = []
    for policy, third in gain["the third"].items():
        last = max(third)
        claims += [
            Claim(
                "G6",
                f"{policy}: about +250 % at kappa3 = 25, +150 % at 50, +25 % at 75",
                percent(third),
                all(about(third[kappa], stated, 0.1) for kappa, stated in PAPER.items()),
            ),
            Claim(
                "G6",
                f"{policy}: the two meet as correlation vanishes (up to {MEET:.0%} apart at {last:g})",
                f"{third[last]:+.0%}",
                abs(third[last]) <= MEET,
            ),
            Claim(
                "G6'",
                f"{policy}: the two meet as the correlation of all three streams vanishes",
                percent(gain["all three"][policy]),
                abs(gain["all three"][policy][last]) <= MEET,
            ),
        ]
    return claims


EXPERIMENT = swept(
    "grubjoin-fig12",
    "Harvests as correlation vanishes",
    ("G6", "G6'"),
    measure,
    full={
        "swept": tuple(FIXED),
        "policy": tuple(POLICIES),
        "kappa": (10.0, 25.0, 50.0, 75.0, 100.0, 200.0, 400.0),
        "rate": 200.0,
        "seconds": 60.0,
        "seed": range(2),
    },
    quick={"kappa": (25.0, 50.0, 75.0, 400.0), "seconds": 30.0, "seed": 0},
    where=lambda point: point["swept"] == "the third" or point["kappa"] >= 100,
    assess=assess,
    plot=Lines("kappa", "output", "policy", "swept", "kappa", "results per second", axes={"ylim": (0, None)}),
    fixed=grubjoin.described() | {"comparisons per second": CAPACITY},
)
