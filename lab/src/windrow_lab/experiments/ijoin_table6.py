"""iJoin Table 6: what is lost by computing priorities less often.

500 seconds of both feeds, with 10 rows of memory: about 1000 load-shedding decisions. k is 10. "Adaptive"
computes when the importance of results has fallen by 5 % since the last time; the paper does not say what
it compares, over how long, or its threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise

from windrow_lab.averages import pivot
from windrow_lab.claims import about
from windrow_lab.experiment import Claim, Row
from windrow_lab.ijoin import LAGS, News, Setting, run_schemes
from windrow_lab.plots import Bars
from windrow_lab.sweep import swept

PAPER = {"successive": 1000, "adaptive": 600, "k-successive": 100}
"""Computations per 1000 decisions."""


def measure(lag: int, recompute: str, seconds: int, seed: int) -> list[Row]:
    return run_schemes(News(seconds, lag), Setting(recompute=recompute), seed, ("IJOIN",))


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    computed = pivot(rows, "lag", "recompute", of="recomputations")
    for lag, importance in pivot(rows, "lag", "recompute", of="importance").items():
        often = {name: 1000 * computed[lag][name] / computed[lag]["successive"] for name in PAPER}
        claims += [
            Claim(
                "I6",
                f"lag {lag} s: importance successive >= adaptive >= k-successive (paper: 1400, 1300, 1200)",
                importance,
                all(importance[a] >= importance[b] for a, b in pairwise(PAPER)),
            ),
            Claim(
                "I6",
                f"lag {lag} s: computations per 1000 decisions about 1000, 600, 100",
                often,
                all(about(often[name], stated, 100) for name, stated in PAPER.items()),
            ),
        ]
    return claims


EXPERIMENT = swept(
    "ijoin-table6",
    "Priorities computed less often",
    ("I6",),
    measure,
    full={"lag": LAGS, "recompute": tuple(PAPER), "seconds": 500, "seed": range(10)},
    quick={"seconds": 200, "seed": range(2)},
    assess=assess,
    plot=Bars("recompute", "importance", "lag", ylabel="total importance"),
    fixed={"streams": asdict(News(0, 0)), "setting": asdict(Setting())},
)
