"""iJoin Fig. 3: total importance and fairness as the window grows from 10 to 25 seconds, with 10 rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise

from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.ijoin import LAGS, News, Setting, curves, run_schemes
from windrow_lab.sweep import swept

LOW, HIGH = 0.80, 0.85


def measure(lag: int, window: int, seconds: int, seed: int) -> list[Row]:
    return run_schemes(News(seconds, lag), Setting(window=window), seed)


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    fairness = pivot(rows, "lag", "scheme", "window", of="fairness")
    for lag, by_scheme in pivot(rows, "lag", "scheme", "window", of="importance").items():
        first, last = (end(by_scheme["IJOIN"]) for end in (min, max))
        gain = {name: by_scheme[name][last] / by_scheme[name][first] for name in ("IJOIN", "GREEDY")}
        fair, size = (fairness[lag][name] for name in ("IJOIN", "SIZE"))
        claims += [
            Claim(
                "I3",
                f"lag {lag} s: IJOIN and GREEDY gain with the window; importance at {last} over {first} s",
                gain,
                all(each > 1 for each in gain.values()),
            ),
            Claim(
                "I3",
                f"lag {lag} s: IJOIN stays {LOW:.2f} to {HIGH:.2f} fair",
                fair,
                all(LOW <= round(each, 2) <= HIGH for each in fair.values()),
            ),
            Claim(
                "I3",
                f"lag {lag} s: the fairness of SIZE falls",
                size,
                all(size[a] > size[b] for a, b in pairwise(sorted(size))),
            ),
        ]
    return claims


EXPERIMENT = swept(
    "ijoin-fig3",
    "Importance and fairness against the window",
    ("I3",),
    measure,
    full={"lag": LAGS, "window": (10, 15, 20, 25), "seconds": 300, "seed": range(5)},
    quick={"window": (10, 25), "seconds": 150, "seed": 0},
    assess=assess,
    plot=curves("window", "window (s)"),
    fixed={"streams": asdict(News(0, 0)), "setting": asdict(Setting())},
)
