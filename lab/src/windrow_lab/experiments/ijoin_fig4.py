"""iJoin Fig. 4: all rows equally important, as the join attribute takes 10 to 20 values.

With equal importance GREEDY has nothing to go by: it keeps what it has until it expires.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from windrow_lab.averages import pivot
from windrow_lab.claims import about
from windrow_lab.experiment import Claim, Row
from windrow_lab.ijoin import LAGS, News, Setting, curves, lead, run_schemes
from windrow_lab.sweep import swept

STRAIGHT = 0.8
"""r squared."""


def measure(lag: int, domain: int, seconds: int, seed: int) -> list[Row]:
    return run_schemes(News(seconds, lag, domain, equal=True), Setting(), seed)


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    results = pivot(rows, "lag", "scheme", "domain", of="results")
    fairness = pivot(rows, "lag", "scheme", "domain", of="fairness")
    for lag, by_domain in pivot(rows, "lag", "domain", "scheme", of="importance").items():
        lines = {name: _line(found) for name, found in results[lag].items()}
        ahead = {d: lead(found) for d, found in by_domain.items()}
        greedy = fairness[lag]["GREEDY"]
        claims += [
            Claim(
                "I4",
                f"lag {lag} s: everyone falls linearly (r² above {STRAIGHT}); slope and r²",
                {name: [round(slope, 2), round(r2, 2)] for name, (slope, r2) in lines.items()},
                all(slope < 0 and r2 > STRAIGHT for slope, r2 in lines.values()),
            ),
            Claim(
                "I4",
                f"lag {lag} s: IJOIN stays best; over the best other scheme, by domain",
                ahead,
                all(each > 1 for each in ahead.values()),
            ),
            Claim(
                "I4",
                f"lag {lag} s: GREEDY is about 0.2 fair",
                greedy,
                all(about(each, 0.2, 0.1) for each in greedy.values()),
            ),
        ]
    return claims


def _line(found: Mapping[int, float]) -> tuple[float, float]:
    """Slope and r² of a straight line through the points."""
    x, y = list(found), list(found.values())
    return float(np.polyfit(x, y, 1)[0]), float(np.corrcoef(x, y)[0, 1] ** 2)


EXPERIMENT = swept(
    "ijoin-fig4",
    "Importance and fairness against the domain, all rows equally important",
    ("I4",),
    measure,
    full={"lag": LAGS, "domain": (10, 12, 14, 16, 18, 20), "seconds": 300, "seed": range(10)},
    quick={"domain": (10, 14, 17, 20), "seconds": 150, "seed": 0},
    assess=assess,
    plot=curves("domain", "values of the join attribute"),
    fixed={"streams": asdict(News(0, 0, equal=True)), "setting": asdict(Setting())},
)
