"""Memory Fig. 5 and 6: two sources, one of them far away; recall against memory.

The trace is made as the paper describes its own (lab/memory_streams.py, two_sources): rows that go together
were sent a minute apart and come some 63 s apart. How much delays differ the paper does not say, so the tail
of their distribution is swept. AGE is run with the curve of Fig. 5 given, and learning it as it goes (5 % of
its memory then holds monitored rows). Theoretical-AGE is eq. 3 on the curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.baselines import Fifo, UntilExpiry
from windrow.model.policies.learned import Age
from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.memory import JoinWorkload
from windrow_lab.memory_streams import two_sources
from windrow_lab.memory_theory import best_retention, paper_results
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

SETTLED = 240.0
SPANS = 240
"""Points of the age curve, every half second (the paper's: every tenth)."""
FEW = 0.03
THEORY = "Theoretical-AGE"


@lru_cache(maxsize=1)
def _trace(rate: float, span: float, tail: float, seed: int) -> JoinWorkload:
    return two_sources(span, seed, tail, rate)


def measure(tail: float, seed: int, memory: float, rate: float, span: float) -> list[Row]:
    trace, pace = _trace(rate, span, tail, seed), f"every {round(max(40, 2 * rate))} rows"
    curve = trace.curve("a", SPANS)
    policies: dict[str, MemoryPolicy] = {
        "AGE": Age(age_curves={"a": curve.rates}, monitor_fraction=0),
        "AGE, learned": Age(),
        "RECENT": Fifo(monitor_fraction=0),
        "UNTIL-EXPIRY": UntilExpiry(monitor_fraction=0),
    }
    rows = memory * trace.whole
    recalls = {
        name: trace.under(rows, policy, seed, pace).recall(trace.exact, SETTLED)
        for name, policy in policies.items()
    }
    recalls[THEORY] = float(paper_results(curve, rows, rate) / (rate * curve.n))
    peak = float(curve.ages[np.argmax(curve.rates)] + curve.width / 2)
    shape = {"k_opt": best_retention(curve), "peak": peak}
    return [{"policy": name, "recall": recall, **shape} for name, recall in recalls.items()]


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    for tail, recall in pivot(rows, "tail", "policy", "memory", of="recall").items():
        low = {memory: each for memory, each in recall["RECENT"].items() if memory <= 0.4}
        off = {
            name: {m: recall[name][m] - each for m, each in recall[THEORY].items()}
            for name in ("AGE", "AGE, learned")
        }
        mine = [row for row in rows if row["tail"] == tail]
        where = f"tail {tail:g} (peak {pivot(mine, of='peak'):.1f} s, k_opt {pivot(mine, of='k_opt'):.1f} s)"
        ahead = {
            m: recall["AGE"][m] - max(recall[name][m] for name in ("RECENT", "UNTIL-EXPIRY"))
            for m in recall["AGE"]
            if m * 120 < pivot(mine, of="k_opt")
        }
        claims += [
            Claim("A3", f"{where}: RECENT yields nothing at 40 % memory", low, max(low.values()) < 0.001),
            Claim(
                "A3",
                f"{where}: AGE is within {FEW:.0%} of its theoretical recall (eq. 3) at every memory; off by",
                off["AGE"],
                max(map(abs, off["AGE"].values())) <= FEW,
            ),
            Claim(
                "A3'",
                f"{where}: so is AGE that learns the curve; AGE is ahead of both others below r k_opt",
                off["AGE, learned"] | {"ahead by": ahead},
                max(map(abs, off["AGE, learned"].values())) <= FEW and min(ahead.values()) > 0,
            ),
        ]
    return claims


EXPERIMENT = swept(
    "memory-age-fig6",
    "A lag of a minute: keeping rows for their time",
    ("A3", "A3'"),
    measure,
    full={
        "tail": (0.25, 0.5, 1.0),
        "seed": range(2),
        "memory": tuple(n / 10 for n in range(1, 10)),
        "rate": 50.0,
        "span": 1200.0,
    },
    quick={"seed": 0, "memory": (0.4, 0.7), "rate": 10.0, "span": 480.0},
    assess=assess,
    plot=Lines("memory", "recall", "policy", "tail", "memory, of the window", styles={THEORY: "k--"}),
    fixed={"window": 120, "recall from second": SETTLED},
)
