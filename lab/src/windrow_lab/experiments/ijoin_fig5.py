"""iJoin Fig. 5: the unproductivity threshold from 2 to 5 seconds.

The paper finds IJOIN worse as the threshold grows. Here it hardly matters: a row without a match has priority
0 whatever the threshold, and that of one which had matches falls by itself, as they fade and as it ages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise

from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.ijoin import LAGS, SCHEMES, News, Setting, curves, run_schemes
from windrow_lab.sweep import swept

FIRST = 2.0
HARDLY = 0.04


def measure(lag: int, unproductive: float, seconds: int, seed: int) -> list[Row]:
    """The other schemes know no threshold, and run once."""
    schemes = SCHEMES if unproductive == FIRST else ("IJOIN",)
    return run_schemes(News(seconds, lag), Setting(unproductive=unproductive), seed, schemes)


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    for lag, by_scheme in pivot(rows, "lag", "scheme", "unproductive", of="importance").items():
        ijoin = by_scheme["IJOIN"]
        other = max(found[FIRST] for name, found in by_scheme.items() if name != "IJOIN")
        over = {threshold: each / other for threshold, each in ijoin.items()}
        change = ijoin[max(ijoin)] / ijoin[FIRST] - 1
        claims += [
            Claim(
                "I5",
                f"lag {lag} s: a coarser threshold lowers IJOIN's importance; over the best other scheme's",
                over,
                all(ijoin[a] > ijoin[b] for a, b in pairwise(sorted(ijoin))),
            ),
            Claim(
                "I5",
                f"lag {lag} s: IJOIN is best at every threshold",
                min(over.values()),
                min(over.values()) > 1,
            ),
            Claim(
                "I5'",
                f"lag {lag} s: from {FIRST:g} to {max(ijoin):g} s the importance changes by less than "
                f"{HARDLY:.0%} either way",
                change,
                abs(change) < HARDLY,
            ),
        ]
    return claims


EXPERIMENT = swept(
    "ijoin-fig5",
    "Importance and fairness against the unproductivity threshold",
    ("I5", "I5'"),
    measure,
    full={"lag": LAGS, "unproductive": (2.0, 3.0, 4.0, 5.0), "seconds": 300, "seed": range(8)},
    quick={"unproductive": (2.0, 5.0), "seconds": 150, "seed": 0},
    assess=assess,
    plot=curves("unproductive", "unproductivity threshold (s)"),
    fixed={"streams": asdict(News(0, 0)), "setting": asdict(Setting())},
)
