"""MultiJoin Fig. 4(a): the fastest input against the interval of evaluation and expiry, on the virtual clock.

Four equal streams, under nested loops and hash tables of 2, 10 and 30 buckets. Expiring often touches many
buckets in vain; expiring seldom lets windows grow. Where the two balance depends on how many rows a window
holds, and there the paper can be read in two ways. "by rate": a unit of time is four steps of the generator,
so that a window of 100 units holds the 100 rows of the cost model. "by step": the generator's loop index is
the time, so that it holds 25. Both are measured, with every access worth one comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise

from windrow_lab.averages import pivot
from windrow_lab.clock import VirtualClock
from windrow_lab.experiment import Claim, Row
from windrow_lab.multijoin import EQUAL_FOUR, arrival_first, count_work
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

CLOCK = VirtualClock()
READINGS = {"by rate": EQUAL_FOUR, "by step": replace(EQUAL_FOUR, steps=1.0)}
TAUS = {"by rate": (0, 0.5, 1, 2, 4, 8, 15, 30, 60), "by step": (0, 2, 4, 8, 15, 30, 60, 100, 150, 200)}
UNITS = {"by rate": (500, 150), "by step": (2000, 1000)}
"""Measured: in a full run, and in a short one."""
FILLING = {"by rate": 160, "by step": 300}


def measure(reading: str, tau: float, buckets: int, short: bool, seed: int) -> Row:
    orders = {s: arrival_first(s, range(4)) for s in range(4)}
    units, filling = UNITS[reading][short], FILLING[reading]
    counted = count_work(READINGS[reading], orders, units, seed, tau, (buckets,) * 4, filling)
    return {"rate": CLOCK.rate(counted.rows, counted.work), **asdict(counted.work)}


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    for reading, curves in pivot(rows, "reading", "buckets", "tau", of="rate").items():
        best = {buckets: max(curve, key=curve.__getitem__) for buckets, curve in curves.items()}
        inside = all(min(curve) < best[b] < max(curve) for b, curve in curves.items())
        claims += [
            Claim(
                "M5",
                f"{reading}: an interior optimum that moves right as buckets grow (paper: 4, 15 and 30 units "
                "for 2, 10 and 30 buckets); best interval by buckets, 1 for nested loops",
                best,
                inside and list(best.values()) == sorted(set(best.values())),
            ),
            _best_rate(reading, {b: max(curve.values()) for b, curve in curves.items()}),
        ]
    return claims


def _best_rate(reading: str, peaks: Mapping[int, float]) -> Claim:
    gains = [(peaks[b] - peaks[a]) / (b - a) for a, b in pairwise(peaks)]
    return Claim(
        "M5'",
        f"{reading}: nested loops are slowest, the largest table fastest, and each further bucket gains less",
        {b: round(peak) for b, peak in peaks.items()},
        list(peaks.values()) == sorted(peaks.values()) and gains == sorted(gains, reverse=True),
    )


EXPERIMENT = swept(
    "multijoin-fig4a",
    "How often to evaluate and expire",
    ("M5", "M5'"),
    measure,
    full={
        "reading": tuple(READINGS),
        "tau": sorted({tau for taus in TAUS.values() for tau in taus}),
        "buckets": (1, 2, 10, 30),
        "short": False,
        "seed": range(4),
    },
    quick={"tau": (0, 1, 4, 8, 15, 30, 60, 100, 200), "short": True, "seed": 0},
    where=lambda point: point["tau"] in TAUS[point["reading"]],
    assess=assess,
    plot=Lines(
        "tau",
        "rate",
        "buckets",
        "reading",
        "units between evaluations",
        "rows per second",
        axes={"yscale": "log", "xscale": "symlog"},
    ),
    fixed={"clock": asdict(CLOCK), "rows in a window": {"by rate": 100, "by step": 25}},
)
