"""iJoin Fig. 2: total importance and fairness as the memory grows from 5 to 20 rows.

Thresholds grow with the memory (s. 4.5): at 10 rows they are those of Table 5. With two seconds at 5 rows, of
which each stream has two, no row would ever be mature, and IJOIN would be FIFO.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.ijoin import LAGS, News, Setting, curves, lead, run_schemes
from windrow_lab.sweep import swept


def measure(lag: int, memory: int, seconds: int, seed: int) -> list[Row]:
    return run_schemes(News(seconds, lag), Setting().scaled(memory), seed)


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    fairness = pivot(rows, "lag", "memory", "scheme", of="fairness")
    for lag, by_memory in pivot(rows, "lag", "memory", "scheme", of="importance").items():
        ahead = {m: lead(found) for m, found in by_memory.items()}
        fair = {m: found["IJOIN"] for m, found in fairness[lag].items()}
        lowest = {m: min(found, key=lambda name: found[name]) for m, found in by_memory.items()}
        claims += [
            Claim(
                "I2",
                f"lag {lag} s: IJOIN has the highest total importance; over the best other scheme, by memory",
                ahead,
                all(each > 1 for each in ahead.values()),
            ),
            Claim("I2", f"lag {lag} s: IJOIN is more than 0.8 fair", fair, min(fair.values()) > 0.8),
            Claim(
                "I2",
                f"lag {lag} s: FIFO is 1.0 fair and has the lowest importance; lowest, by memory",
                lowest,
                all(name == "FIFO" for name in lowest.values())
                and all(found["FIFO"] > 0.999 for found in fairness[lag].values()),
            ),
        ]
    near = [c.holds for c in claims if "highest" in c.says and not c.says.startswith(f"lag {max(LAGS)}")]
    says = "IJOIN has the highest total importance where the lag is 0 or 8 s"
    return [*claims, Claim("I2'", says, f"{sum(near)} of {len(near)} lags", all(near))]


EXPERIMENT = swept(
    "ijoin-fig2",
    "Importance and fairness against memory",
    ("I2", "I2'"),
    measure,
    full={"lag": LAGS, "memory": (5, 10, 15, 20), "seconds": 300, "seed": range(5)},
    quick={"memory": (5, 20), "seconds": 150, "seed": 0},
    assess=assess,
    plot=curves("memory", "rows of memory"),
    fixed={"streams": asdict(News(0, 0)), "at 10 rows": asdict(Setting())},
)
