"""MultiJoin Fig. 4(b): equal hash tables against larger ones for the fast stream, on the virtual clock.

Three streams of rate 1 and one of rate 50, evaluated and expired every 5 units; the number of buckets is
given as the average per window. The orders are the cheapest in the cost model: of the general lazy join,
which may join the slow streams first, and of the lazy join, which starts from the new rows. The paper does
not say which of the two it ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from windrow.planning.order import exhaustive_orders
from windrow_lab.averages import pivot
from windrow_lab.clock import VirtualClock
from windrow_lab.experiment import Claim, Row
from windrow_lab.multijoin import ONE_MUCH_FASTER, count_work
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

CLOCK = VirtualClock()
SLOW = {"equal": None, "1 to slow": 1, "5 to slow": 5, "10 to slow": 10}
"""Buckets for each slow stream; None: as many as the fast one."""
ALGORITHMS = {"general": "general", "lazy": "eager"}
SHOWN = 13
"""The paper's axis ends here."""


def measure(average: int, strategy: str, algorithm: str, tau: int, units: int, seed: int) -> Row:
    buckets = _buckets(strategy, average)
    orders = exhaustive_orders(ONE_MUCH_FASTER.statistics(buckets), ALGORITHMS[algorithm], tau)
    counted = count_work(ONE_MUCH_FASTER, orders, units, seed, tau, buckets)
    return {"buckets": list(buckets), "rate": CLOCK.rate(counted.rows, counted.work), **asdict(counted.work)}


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    rate = pivot(rows, "algorithm", "strategy", "average", of="rate")
    for algorithm, by in rate.items():
        # At an average of 5 and less the fast stream would get no more buckets than the slow ones.
        gain = {n: each / by["equal"][n] for n, each in by["5 to slow"].items() if 5 < n <= SHOWN}
        says = f'{algorithm} join: "5 to slow" beats equal tables at the same average; by average'
        claims.append(Claim("M6", says, gain, all(each > 1 for each in gain.values())))
    five, ten, one = (rate["general"][f"{n} to slow"] for n in (5, 10, 1))
    last = max(ten)
    return [
        *claims,
        Claim(
            "M6'",
            f'general join: "10 to slow" is below "5 to slow" up to an average of {SHOWN} and above it when '
            'there are more buckets; "5 to slow" overtakes "1 to slow"',
            {n: ten[n] / five[n] for n in ten},
            all(ten[n] < five[n] for n in ten if n <= SHOWN)
            and ten[last] > five[last]
            and five[last] > one[last],
        ),
    ]


def _buckets(strategy: str, average: int) -> tuple[int, int, int, int]:
    slow = SLOW[strategy]
    return (average,) * 4 if slow is None else (slow, slow, slow, 4 * average - 3 * slow)


EXPERIMENT = swept(
    "multijoin-fig4b",
    "Larger hash tables for the fast stream",
    ("M6", "M6'"),
    measure,
    full={
        "average": (1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 20),
        "strategy": tuple(SLOW),
        "algorithm": tuple(ALGORITHMS),
        "tau": 5,
        "units": 100,
        "seed": range(3),
    },
    quick={"average": (5, 8, 12, 20), "units": 40, "seed": 0},
    where=lambda point: _buckets(point["strategy"], point["average"])[-1] >= 1,
    assess=assess,
    plot=Lines("average", "rate", "strategy", "algorithm", "buckets per window, on average", "rows/s"),
    fixed={"clock": asdict(CLOCK)},
)
