"""GrubJoin Fig. 4: the best harvest of an example with lags, by trying every setting.

Rates 300, 100 and 150 rows/s, windows of 10 s, basic windows of 2 s, half of the cost; S_2 lags S_1 by 4 s
and S_3 by 5, so S_3's rows come last and find what they match. The figure's selectivities and the widths of
its lags can only be seen, not read: only their order follows from the join orders, sigma_23 < sigma_12 <
sigma_13. So both are swept. What the figure shows is judged at one setting at which it is seen, and beside it
stands in how many of the sweep it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from windrow.harvest.model import HarvestModel
from windrow.harvest.selectivity import directional
from windrow.harvest.solve import solve
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.model.harvest import BasicWindows, Harvest

RATES = (300.0, 100.0, 150.0)
WINDOWS = BasicWindows((10.0,) * 3, (2.0,) * 3)
LAGS = (0.0, 4.0, 5.0)
ORDERS = ((1, 2), (2, 0), (1, 0))
Z = 0.5
PAIRS = ((1, 2), (0, 1), (0, 2))
SELECTIVITIES = (1e-4, 2e-4, 3e-4)
"""Of the pairs S_2 S_3, S_1 S_2 and S_1 S_3."""
SCALES = (1, 3, 10, 30)
CHOSEN = 2.0
SPREADS = (1.0, 2.0, 3.0, 4.0, 6.0)
"""Standard deviations of the lags, in seconds."""
METHODS = ("exhaustive", "knapsack", "greedy")


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "rates": RATES,
        "windows": WINDOWS.sizes,
        "basic windows": WINDOWS.lengths,
        "lags": LAGS,
        "orders": ORDERS,
        "z": Z,
        "selectivities": SELECTIVITIES,
        "times": SCALES,
        "spreads": SPREADS,
    }


def tasks(size: Size) -> Sequence[tuple[int, float, str]]:
    return [(scale, spread, method) for scale in SCALES for spread in SPREADS for method in METHODS]


def example(scale: float, spread: float) -> HarvestModel:
    """The figure's join, with its selectivities times `scale` and lags of that spread."""
    from scipy.stats import norm

    pairs = np.zeros((3, 3))
    for (a, b), selectivity in zip(PAIRS, SELECTIVITIES, strict=True):
        pairs[a, b] = pairs[b, a] = selectivity * scale
    edges = np.arange(6) * 2.0
    scores = np.array(
        [
            [np.diff(norm.cdf(edges, LAGS[i] - LAGS[s], spread)) for s in order]
            for i, order in enumerate(ORDERS)
        ]
    )
    rates = np.array(RATES)
    selectivities = directional(pairs, WINDOWS.sizes, scores, ORDERS)
    return HarvestModel(WINDOWS, rates, rates * 10, ORDERS, selectivities, scores)


def run(task: tuple[int, float, str]) -> list[Row]:
    scale, spread, method = task
    harvest = solve(example(scale, spread), Z, method)
    hops = [(d.arriving + 1, j + 1, hop) for d in harvest.directions for j, hop in enumerate(d.hops)]
    return [
        {
            "selectivities times": scale,
            "spread": spread,
            "method": method,
            "cost": harvest.cost / harvest.full_cost,
            "output": harvest.recall,
            **{f"z{i}{j}": hop.fraction for i, j, hop in hops},
            "direction 3": harvest.directions[2].output / harvest.output,
        }
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    best = [row for row in rows if row["method"] == "exhaustive"]
    (chosen,) = (row for row in best if row["selectivities times"] == 1 and row["spread"] == CHOSEN)
    whole = [row for row in best if row["z31"] == row["z32"] == 1]
    most = [row for row in best if row["direction 3"] > 0.5]
    ours = {_key(row): row["output"] for row in rows if row["method"] == "knapsack"}
    return [
        Claim(
            "G2",
            "the best configuration keeps everything in direction 3: z31 = z32 = 1",
            {name: chosen[name] for name in ("z11", "z12", "z21", "z22", "z31", "z32")}
            | {"in so many of the sweep": f"{len(whole)} of {len(best)}"},
            chosen["z31"] == chosen["z32"] == 1,
        ),
        Claim(
            "G2",
            "direction 3 is the most valuable: it finds most results, whatever selectivities and spread",
            {"least part": round(min(row["direction 3"] for row in best), 3)},
            len(most) == len(best),
        ),
        Claim(
            "G2",
            "ours finds the best configuration's output",
            {"least, of the best": min(ours[_key(row)] / row["output"] for row in best)},
            all(ours[_key(row)] >= row["output"] * (1 - 1e-9) for row in best),
        ),
    ]


def plot(rows: Sequence[Row], figure: Figure) -> None:
    harvest = solve(example(1, CHOSEN), Z, "exhaustive")
    left, right = figure.subplots(1, 2)
    _draw(harvest, left)
    for scale in SCALES:
        best = [r for r in rows if r["method"] == "exhaustive" and r["selectivities times"] == scale]
        label = f"{SELECTIVITIES[0] * scale:g} to {SELECTIVITIES[-1] * scale:g}"
        right.plot([r["spread"] for r in best], [(r["z31"] + r["z32"]) / 2 for r in best], "o-", label=label)
    right.set(
        xlabel="spread of the lags, seconds", ylabel="mean of z31 and z32", title="direction 3 by setting"
    )
    right.legend(title="selectivities", fontsize=7)


def _draw(harvest: Harvest, axes: Any) -> None:
    """Circles as in the figure: a line for each direction and window, filled where it is looked at."""
    labels: list[str] = []
    for direction in harvest.directions:
        for hop in direction.hops:
            y = -len(labels)
            labels.append(f"S{direction.arriving + 1} → W{hop.stream + 1}")
            for k in range(len(hop.ranking)):
                face = "black" if k in hop.looked_at else "white"
                axes.scatter(k + 1, y, s=90, facecolor=face, edgecolor="black")
    axes.set_yticks([-k for k in range(len(labels))], labels)
    axes.set_xticks(range(1, WINDOWS.counts[0] + 1))
    axes.set(xlabel="logical basic window, youngest first", title="the best harvest at z = 0.5")


def _key(row: Row) -> tuple[int, float]:
    return row["selectivities times"], row["spread"]


EXPERIMENT = Experiment(
    "grubjoin-fig4", "The best harvest of the example", ("G2",), parameters, tasks, run, assess, plot
)
