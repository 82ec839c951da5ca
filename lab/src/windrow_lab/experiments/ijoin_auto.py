"""Claim B3 on iJoin's feeds: AUTO with an importance function, beside all schemes of the paper.

Streams and settings are those of Fig. 2, with seeds of their own; AUTO has none of IJOIN's thresholds and is
given nothing but the importance. All results count, those found while it learns among them. One of its rows
is monitored, as is usual: where it evicts rows that would have found something, that is how it learns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.ijoin import LAGS, SCHEMES, News, Setting, curves, lead, run_schemes
from windrow_lab.sweep import swept

WITHIN = 0.02
"""How far AUTO may lie behind the best, as a part of it."""


def measure(lag: int, memory: int, seconds: int, seed: int) -> list[Row]:
    return run_schemes(News(seconds, lag), Setting().scaled(memory), seed, (*SCHEMES, "AUTO"))


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    for lag, by_memory in pivot(rows, "lag", "memory", "scheme", of="importance").items():
        over = {memory: lead(found, "AUTO") for memory, found in by_memory.items()}
        says = f"lag {lag} s: AUTO is within {WITHIN:.0%} of the best scheme; over it, by memory"
        claims.append(Claim("B3", says, over, min(over.values()) >= 1 - WITHIN))
    return claims


EXPERIMENT = swept(
    "ijoin-auto",
    "AUTO beside iJoin's schemes",
    ("B3",),
    measure,
    full={"lag": LAGS, "memory": (10, 15, 20), "seconds": 300, "seed": range(1000, 1010)},
    quick={"memory": 10, "seconds": 150, "seed": range(1000, 1002)},
    assess=assess,
    plot=curves("memory", "rows of memory"),
    fixed={"streams": asdict(News(0, 0)), "of others, at 10 rows": asdict(Setting())},
)
