"""MultiJoin Fig. 2: the eager multi-way join against the naive one as windows are added.

Streams of rate 1, windows of 100 and 50 distinct values; every row is processed as it comes. Comparisons
per unit of time come from the cost model and from the operator, which counts those it makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.multijoin import Streams, arrival_first, count_work
from windrow.planning.cost import plan_cost

MOST = {"full": 8, "quick": 4}
UNITS = {"full": 300, "quick": 200}
SEEDS = {"full": 4, "quick": 2}
TOLERANCE = 0.15


def parameters(size: Size) -> Mapping[str, Any]:
    return {"rate": 1, "window": 100, "values": 50, "units measured": UNITS[size], "seeds": SEEDS[size]}


def tasks(size: Size) -> Sequence[tuple[str, int, int, int]]:
    return [
        (algorithm, windows, UNITS[size], seed)
        for windows in range(MOST[size], 1, -1)
        for algorithm in ("eager", "naive")
        for seed in range(SEEDS[size])
    ]


def run(task: tuple[str, int, int, int]) -> list[Row]:
    algorithm, windows, units, seed = task
    streams = Streams((1,) * windows, (100,) * windows, (50,) * windows)
    orders = {
        s: arrival_first(s, range(windows)) if algorithm == "eager" else tuple(range(windows))
        for s in range(windows)
    }
    counted = count_work(streams, orders, units, seed)
    return [
        {
            "algorithm": algorithm,
            "windows": windows,
            "seed": seed,
            "model": plan_cost(streams.statistics(), orders),
            "counted": counted.comparisons_per_unit,
            "results": counted.results,
        }
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    means = _means(rows)
    claims = []
    for source in ("model", "counted"):
        eager, naive = (_by_windows(means, algorithm, source) for algorithm in ("eager", "naive"))
        ratio = {windows: naive[windows] / eager[windows] for windows in sorted(eager)}
        claims.append(
            Claim(
                "M3",
                f"Fig. 2, {source}: the naive join costs what the eager one does for two windows, "
                "and many times that from three on",
                {f"{windows} windows": value for windows, value in ratio.items()},
                abs(ratio[2] - 1) < 0.01
                and all(value > 5 for windows, value in ratio.items() if windows > 2),
            )
        )
    off = {f"{row['algorithm']} {row['windows']}": row["counted"] / row["model"] for row in means}
    claims.append(
        Claim(
            "M3",
            f"Fig. 2: comparisons counted are those of the cost model, within {TOLERANCE:.0%}",
            off,
            all(abs(value - 1) <= TOLERANCE for value in off.values()),
        )
    )
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    means = _means(rows)
    for algorithm, colour in (("naive", "tab:red"), ("eager", "tab:blue")):
        for source, style in (("model", "-"), ("counted", "o")):
            cost = _by_windows(means, algorithm, source)
            axes.plot(
                sorted(cost),
                [cost[n] for n in sorted(cost)],
                style,
                color=colour,
                label=f"{algorithm}, {source}",
            )
    axes.set(xlabel="windows", ylabel="comparisons per unit of time", yscale="log")
    axes.set_xticks(sorted({row["windows"] for row in rows}))
    axes.legend()


def _means(rows: Sequence[Row]) -> list[Row]:
    return average(rows, by=("algorithm", "windows"), of=("model", "counted"))


def _by_windows(means: Sequence[Row], algorithm: str, source: str) -> dict[int, float]:
    return {row["windows"]: row[source] for row in means if row["algorithm"] == algorithm}


EXPERIMENT = Experiment(
    "multijoin-fig2",
    "Eager multi-way join against the naive one",
    ("M3",),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
