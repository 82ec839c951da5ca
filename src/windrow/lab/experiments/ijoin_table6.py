"""iJoin Table 6: what is lost by computing priorities less often.

500 seconds of both feeds, with 10 rows of memory: about 1000 load-shedding decisions. k is 10. "Adaptive"
computes when the importance of results has fallen by 5 % since the last time; the paper does not say what
it compares, over how long, or its threshold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure

from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.ijoin import LAGS, News, Setting, Trial, means, run_trial

RECOMPUTATIONS = ("successive", "adaptive", "k-successive")
SECONDS = {"full": 500, "quick": 200}
SEEDS = {"full": 10, "quick": 2}


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "streams": asdict(News(SECONDS[size], 0)),
        "lags": LAGS,
        "setting": asdict(Setting()),
        "seeds": SEEDS[size],
    }


def tasks(size: Size) -> Sequence[Trial]:
    return [
        Trial(News(SECONDS[size], lag), Setting(recompute=recompute), seed, ("IJOIN",))
        for lag in LAGS
        for recompute in RECOMPUTATIONS
        for seed in range(SEEDS[size])
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    averaged = means(rows, "lag", "recompute")
    lags = sorted({row["lag"] for row in rows})

    def by_lag(name: str) -> dict[str, list[float]]:
        """In the order of RECOMPUTATIONS; computations per 1000 decisions, one for each in `successive`."""
        found = {}
        for lag in lags:
            values = [averaged[lag, recompute, "IJOIN"][name] for recompute in RECOMPUTATIONS]
            scale = 1000 / values[0] if name == "recomputations" else 1.0
            found[f"lag {lag}"] = [scale * value for value in values]
        return found

    importance, computed = by_lag("importance"), by_lag("recomputations")
    total = [sum(values) for values in zip(*importance.values(), strict=True)]
    return [
        Claim(
            "I6",
            "importance, over all lags: successive >= adaptive >= k-successive (paper: 1400, 1300, 1200)",
            importance | {"all": total},
            total[0] >= total[1] >= total[2],
        ),
        Claim(
            "I6",
            "computations per 1000 decisions: about 1000, 600, 100",
            computed,
            all(400 <= b <= 800 and 90 <= c <= 130 for _, b, c in computed.values()),
        ),
        Claim(
            "I6",
            "successive is about as fair as in the paper, and the three are alike (paper: 0.81, 0.80, 0.75)",
            by_lag("fairness"),
            all(0.75 < a < 0.9 and min(b, c) > 0.65 for a, b, c in by_lag("fairness").values()),
        ),
    ]


def plot(rows: Sequence[Row], figure: Figure) -> None:
    averaged = means(rows, "lag", "recompute")
    axes = figure.subplots()
    for lag in sorted({row["lag"] for row in rows}):
        curve = [averaged[lag, recompute, "IJOIN"] for recompute in RECOMPUTATIONS]
        axes.plot(
            [row["recomputations"] for row in curve],
            [row["importance"] for row in curve],
            "o-",
            label=f"lag {lag} s",
        )
        for recompute, row in zip(RECOMPUTATIONS, curve, strict=True):
            axes.annotate(f" {recompute}", (row["recomputations"], row["importance"]), fontsize=7)
    axes.set(xlabel="computations of priorities", ylabel="total importance", ylim=(0, None))
    axes.legend()


EXPERIMENT = Experiment(
    "ijoin-table6", "Priorities computed less often", ("I6",), parameters, tasks, run_trial, assess, plot
)
