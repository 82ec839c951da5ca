"""Memory Fig. 7: age curves that rise, fall, or rise and fall.

Streams as in s. 6.2.1 (r1 = 1, r2 = 5, W1 = 500, n1 = 5, m = 20). Only rows of the first stream are stored.
AGE has the curve given, or learns it as it goes (5 % of its memory then holds watched rows).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from matplotlib.figure import Figure

from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.memory import JoinWorkload
from windrow.lab.memory_streams import BUCKETS, SHAPES, N, age_based
from windrow.lab.memory_theory import best_retention, paper_results
from windrow.memory_models.age_curve import AgeCurve
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.baselines import Fifo, UntilExpiry
from windrow.model.policies.learned import Age

WINDOW = 500.0
SPAN = {"full": 5000.0, "quick": 2000.0}
SEEDS = {"full": 3, "quick": 1}
MEMORY = {"full": tuple(n / 10 for n in range(1, 10)), "quick": (0.3, 0.7)}
PACE = {"full": "every 12 rows", "quick": "every 72 rows"}
SETTLED = 1000.0
SAME = {"full": 0.015, "quick": 0.03}
"""Recalls that differ by less are the same: what two runs differ by."""
LINES = {"AGE": "o-", "AGE, learned": "s-", "RECENT": "^-", "UNTIL-EXPIRY": "v-", "eq. 3": "k--"}


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "rates": (1, 5),
        "window": WINDOW,
        "n": N,
        "buckets": BUCKETS,
        "seconds": SPAN[size],
        "evaluated": PACE[size],
        "recall from second": SETTLED,
        "seeds": SEEDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[Size, str, int, float]]:
    return [
        (size, shape, seed, memory)
        for shape in SHAPES
        for seed in range(SEEDS[size])
        for memory in MEMORY[size]
    ]


@lru_cache(maxsize=1)
def _trace(shape: str, span: float, seed: int) -> JoinWorkload:
    return age_based([SHAPES[shape]], span, seed)


def run(task: tuple[Size, str, int, float]) -> list[Row]:
    size, shape, seed, memory = task
    trace = _trace(shape, SPAN[size], seed)
    rates = N * SHAPES[shape] / SHAPES[shape].sum()
    curve = AgeCurve(tuple(rates), WINDOW / BUCKETS)
    policies: dict[str, MemoryPolicy] = {
        "AGE": Age(curves={"a": curve.rates}, monitor=0),
        "AGE, learned": Age(),
        "RECENT": Fifo(monitor=0),
        "UNTIL-EXPIRY": UntilExpiry(monitor=0),
    }
    rows, rate = memory * trace.whole, trace.rates["a"]
    recalls = {
        name: trace.under(rows, policy, seed, PACE[size]).recall(trace.exact, SETTLED)
        for name, policy in policies.items()
    }
    recalls["eq. 3"] = float(paper_results(curve, rows, rate) / (rate * curve.n))
    common = {
        "curve": shape,
        "memory": memory,
        "seed": seed,
        "k_opt": best_retention(curve),
        "same": SAME[size],
    }
    return [common | {"policy": name, "recall": recall} for name, recall in recalls.items()]


def assess(rows: Sequence[Row]) -> list[Claim]:
    recall, same = _recalls(rows), rows[0]["same"]
    below = {row["curve"]: row["k_opt"] / WINDOW for row in rows}
    claims = []
    for shape, others in (("INC", ("RECENT",)), ("BELL", ("RECENT", "UNTIL-EXPIRY"))):
        ahead = {
            other: {m: recall[shape, "AGE"][m] - recall[shape, other][m] for m in recall[shape, other]}
            for other in others
        }
        claims.append(
            Claim(
                "A4",
                f"{shape}: AGE beats {' and '.join(others)} below r k_opt ({below[shape]:.0%} memory), by",
                ahead,
                all(gain > 0 for gains in ahead.values() for m, gain in gains.items() if m < below[shape]),
            )
        )
    level = {
        "INC, UNTIL-EXPIRY": {
            m: r - recall["INC", "UNTIL-EXPIRY"][m] for m, r in recall["INC", "AGE"].items()
        },
        "DEC, RECENT": {m: r - recall["DEC", "RECENT"][m] for m, r in recall["DEC", "AGE"].items()},
        "BELL, RECENT": {
            m: r - recall["BELL", "RECENT"][m] for m, r in recall["BELL", "AGE"].items() if m >= below["BELL"]
        },
    }
    claims.append(
        Claim(
            "A4",
            "AGE equals RECENT for DEC, and for BELL from r k_opt on; for INC k_opt is the window, "
            "so that it equals UNTIL-EXPIRY",
            level,
            all(abs(gap) <= same for gaps in level.values() for gap in gaps.values()),
        )
    )
    for name in ("AGE", "AGE, learned"):
        off = {
            shape: max(
                (recall[shape, name][m] - recall[shape, "eq. 3"][m] for m in recall[shape, name]), key=abs
            )
            for shape in SHAPES
        }
        claims.append(
            Claim(
                "A4",
                f"{name}: the recall is that of eq. 3, at most off by",
                off,
                all(abs(gap) <= 2 * same for gap in off.values()),
            )
        )
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    recall = _recalls(rows)
    for axes, shape in zip(figure.subplots(1, len(SHAPES), sharey=True), SHAPES, strict=True):
        for name, line in LINES.items():
            found = recall[shape, name]
            axes.plot(
                [100 * m for m in sorted(found)], [found[m] for m in sorted(found)], line, label=name, ms=4
            )
        axes.set(title=shape, xlabel="memory (% of the window)")
    figure.axes[0].set_ylabel("recall")
    figure.axes[0].legend()


def _recalls(rows: Sequence[Row]) -> dict[tuple[str, str], dict[float, float]]:
    found: dict[tuple[str, str], dict[float, float]] = {}
    for row in average(rows, by=("curve", "policy", "memory"), of=("recall",)):
        found.setdefault((row["curve"], row["policy"]), {})[row["memory"]] = row["recall"]
    return found


EXPERIMENT = Experiment(
    "memory-age-fig7",
    "Rising, falling and bell-shaped age curves",
    ("A4",),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
