"""Memory Fig. 7: age curves that rise, fall, or rise and fall.

Streams as in s. 6.2.1 (r1 = 1, r2 = 5, W1 = 500, n1 = 5, m = 20). Only rows of the first stream are stored.
AGE has the curve given, or learns it as it goes (5 % of its memory then holds monitored rows).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from windrow.memory_models.age_curve import AgeCurve
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.baselines import Fifo, UntilExpiry
from windrow.model.policies.learned import Age
from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.memory import JoinWorkload
from windrow_lab.memory_streams import BUCKETS, SHAPES, N, age_based
from windrow_lab.memory_theory import best_retention, paper_results
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

WINDOW = 500.0
SETTLED = 1000.0
SAME = 0.015
"""Recalls that differ by less are the same: what two runs differ by."""
OTHERS = ("RECENT", "UNTIL-EXPIRY")


@lru_cache(maxsize=1)
def _trace(shape: str, span: float, seed: int) -> JoinWorkload:
    return age_based([SHAPES[shape]], span, seed)


def measure(curve: str, seed: int, memory: float, span: float, pace: str) -> list[Row]:
    trace = _trace(curve, span, seed)
    given = AgeCurve(tuple(N * SHAPES[curve] / SHAPES[curve].sum()), WINDOW / BUCKETS)
    policies: dict[str, MemoryPolicy] = {
        "AGE": Age(age_curves={"a": given.rates}, monitor_fraction=0),
        "AGE, learned": Age(),
        "RECENT": Fifo(monitor_fraction=0),
        "UNTIL-EXPIRY": UntilExpiry(monitor_fraction=0),
    }
    rows, rate = memory * trace.whole, trace.rates["a"]
    recalls = {
        name: trace.under(rows, policy, seed, pace).recall(trace.exact, SETTLED)
        for name, policy in policies.items()
    }
    recalls["eq. 3"] = float(paper_results(given, rows, rate) / (rate * given.n))
    best = best_retention(given) / WINDOW
    return [{"policy": name, "recall": recall, "k_opt": best} for name, recall in recalls.items()]


def assess(rows: Sequence[Row]) -> list[Claim]:
    recall = pivot(rows, "curve", "policy", "memory", of="recall")
    below = pivot(rows, "curve", of="k_opt")
    claims = []
    for curve in ("INC", "BELL"):
        for other in OTHERS:
            ahead = {
                m: age - recall[curve][other][m]
                for m, age in recall[curve]["AGE"].items()
                if m < below[curve]
            }
            says = f"{curve}: AGE beats {other} below r k_opt ({below[curve]:.0%} memory), by"
            claims.append(Claim("A4", says, ahead, min(ahead.values()) > 0))
    level = {m: age - recall["DEC"]["RECENT"][m] for m, age in recall["DEC"]["AGE"].items()}
    same = max(map(abs, level.values())) <= SAME
    off = {
        f"{name}, {curve}": max((found[name][m] - found["eq. 3"][m] for m in found[name]), key=abs)
        for curve, found in recall.items()
        for name in ("AGE", "AGE, learned")
    }
    return [
        *claims,
        Claim("A4", f"AGE equals RECENT for DEC (within {SAME}); off by", level, same),
        Claim(
            "A4'",
            f"given or learned, the recall is that of eq. 3 (within {2 * SAME}); at most off by",
            off,
            max(map(abs, off.values())) <= 2 * SAME,
        ),
    ]


EXPERIMENT = swept(
    "memory-age-fig7",
    "Rising, falling and bell-shaped age curves",
    ("A4", "A4'"),
    measure,
    full={
        "curve": tuple(SHAPES),
        "seed": range(3),
        "memory": tuple(n / 10 for n in range(1, 10)),
        "span": 5000.0,
        "pace": "every 12 rows",
    },
    quick={"seed": 0, "memory": (0.3, 0.7), "span": 2000.0, "pace": "every 72 rows"},
    assess=assess,
    plot=Lines("memory", "recall", "policy", "curve", "memory, of the window", styles={"eq. 3": "k--"}),
    fixed={"rates": (1, 5), "window": WINDOW, "n": N, "buckets": BUCKETS, "recall from second": SETTLED},
)
