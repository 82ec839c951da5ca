"""Claim B3 on iJoin's feeds: AUTO with an importance function, beside all schemes of the paper.

Streams and settings are those of Fig. 2, with seeds of their own; AUTO has none of IJOIN's thresholds and is
given nothing but the importance. All results count, those found while it learns among them. One of its rows
is watched, as is usual: where it lets go of rows that would have found something, that is how it learns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure

from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.ijoin import LAGS, NEAR, SCHEMES, News, Setting, Trial, draw_sweep, means, run_trial

SWEPT = {"full": LAGS, "quick": NEAR}
MEMORIES = {"full": (10, 15, 20), "quick": (10,)}
SECONDS = {"full": 300, "quick": 150}
SEEDS = {"full": range(1000, 1010), "quick": range(1000, 1002)}
WITHIN = {"full": 0.02, "quick": 0.10}
"""How far AUTO may lie behind the best, as a part of it. Two short runs tell less than ten, and at a long
lag nothing: AUTO has hardly seen a result when they end."""


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "streams": asdict(News(SECONDS[size], 0)),
        "lags": SWEPT[size],
        "memories": MEMORIES[size],
        "of others, at 10 rows": asdict(Setting()),
        "seeds": len(SEEDS[size]),
    }


def tasks(size: Size) -> Sequence[Trial]:
    return [
        Trial(News(SECONDS[size], lag), Setting().scaled(memory), seed, (*SCHEMES, "AUTO"))
        for lag in SWEPT[size]
        for memory in MEMORIES[size]
        for seed in SEEDS[size]
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    averaged = means(rows, "lag", "memory")
    lags, memories = (sorted({row[name] for row in rows}) for name in ("lag", "memory"))
    size: Size = "full" if len(memories) > 1 else "quick"
    within = WITHIN[size]
    part = {
        f"lag {lag}": {
            m: averaged[lag, m, "AUTO"]["importance"]
            / max(averaged[lag, m, scheme]["importance"] for scheme in SCHEMES)
            for m in memories
        }
        for lag in lags
    }
    return [
        Claim(
            "B3",
            f"AUTO is at most {within:.0%} behind the best other scheme at lags of {tuple(lags)} s; "
            "its importance over that",
            part,
            min(value for by in part.values() for value in by.values()) >= 1 - within,
        )
    ]


def plot(rows: Sequence[Row], figure: Figure) -> None:
    draw_sweep(rows, figure, "memory", "rows of memory")


EXPERIMENT = Experiment(
    "ijoin-auto",
    "AUTO beside iJoin's schemes",
    ("B3",),
    parameters,
    tasks,
    run_trial,
    assess,
    plot,
)
