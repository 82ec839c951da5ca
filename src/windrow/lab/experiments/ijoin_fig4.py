"""iJoin Fig. 4: all rows equally important, as the join attribute takes 10 to 20 values.

With equal importance GREEDY has nothing to go by: it keeps what it has until it expires.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.ijoin import (
    NEAR,
    News,
    Setting,
    Trial,
    best_other,
    draw_sweep,
    means,
    run_trial,
)

SWEPT = {"full": NEAR, "quick": (8,)}
DOMAINS = {"full": (10, 12, 14, 16, 18, 20), "quick": (10, 20)}
SECONDS = {"full": 300, "quick": 150}
SEEDS = {"full": 10, "quick": 2}


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "streams": asdict(News(SECONDS[size], 0, equal=True)),
        "lags": SWEPT[size],
        "domains": DOMAINS[size],
        "setting": asdict(Setting()),
        "seeds": SEEDS[size],
    }


def tasks(size: Size) -> Sequence[Trial]:
    return [
        Trial(News(SECONDS[size], lag, domain, equal=True), Setting(), seed)
        for lag in SWEPT[size]
        for domain in DOMAINS[size]
        for seed in range(SEEDS[size])
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    averaged = means(rows, "lag", "domain")
    lags, domains = (sorted({row[name] for row in rows}) for name in ("lag", "domain"))
    schemes = sorted({row["scheme"] for row in rows})
    fall = {
        scheme: {
            f"lag {lag}": averaged[lag, domains[-1], scheme]["results"]
            / averaged[lag, domains[0], scheme]["results"]
            for lag in lags
        }
        for scheme in schemes
    }
    gain = {
        f"lag {lag}": {
            d: averaged[lag, d, "IJOIN"]["importance"] / best_other(averaged, lag, d) for d in domains
        }
        for lag in lags
    }
    greedy = {f"lag {lag}": [averaged[lag, d, "GREEDY"]["fairness"] for d in domains] for lag in lags}
    ijoin = {f"lag {lag}": [averaged[lag, d, "IJOIN"]["fairness"] for d in domains] for lag in lags}
    line = {
        scheme: {
            f"lag {lag}": _straight(domains, [averaged[lag, d, scheme]["results"] for d in domains])
            for lag in lags
        }
        for scheme in schemes
    }
    return [
        Claim(
            "I4",
            f"every scheme finds less as the domain grows, along a line (r² above 0.8); measured: results at "
            f"{domains[-1]} over {domains[0]}, and r²",
            {"results": fall, "r²": line},
            all(value < 1 for by in fall.values() for value in by.values())
            and all(value > 0.8 for by in line.values() for value in by.values()),
        ),
        Claim(
            "I4",
            "IJOIN has the highest total importance at every domain size; over the best other scheme",
            gain,
            all(value > 1 for by in gain.values() for value in by.values()),
        ),
        Claim(
            "I4",
            "GREEDY is about 0.2 fair, IJOIN more than 0.8",
            {"GREEDY": greedy, "IJOIN": ijoin},
            all(0.15 < value < 0.25 for by in greedy.values() for value in by)
            and all(value > 0.8 for by in ijoin.values() for value in by),
        ),
    ]


def _straight(x: Sequence[float], y: Sequence[float]) -> float:
    """How close to a line (r²)."""
    return float(np.corrcoef(x, y)[0, 1] ** 2)


def plot(rows: Sequence[Row], figure: Figure) -> None:
    draw_sweep(rows, figure, "domain", "values of the join attribute")


EXPERIMENT = Experiment(
    "ijoin-fig4",
    "Importance and fairness against the domain, all rows equally important",
    ("I4",),
    parameters,
    tasks,
    run_trial,
    assess,
    plot,
)
