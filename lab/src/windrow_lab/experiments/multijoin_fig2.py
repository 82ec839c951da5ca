"""MultiJoin Fig. 2: the eager multi-way join against the naive one as windows are added.

Streams of rate 1, windows of 100 and 50 distinct values; every row is processed as it comes. Comparisons
per unit of time come from the cost model and from the operator, which counts those it makes.
"""

from __future__ import annotations

from collections.abc import Sequence

from windrow.planning.cost import plan_cost
from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.multijoin import Streams, arrival_first, count_work
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

SOURCES = ("model", "counted")
TOLERANCE = 0.15


def measure(windows: int, algorithm: str, units: int, seed: int) -> Row:
    streams = Streams((1,) * windows, (100,) * windows, (50,) * windows)
    orders = {
        s: arrival_first(s, range(windows)) if algorithm == "eager" else tuple(range(windows))
        for s in range(windows)
    }
    counted = count_work(streams, orders, units, seed)
    model = plan_cost(streams.statistics(), orders)
    return {"model": model, "counted": counted.comparisons_per_unit, "results": counted.results}


def assess(rows: Sequence[Row]) -> list[Claim]:
    cost = {source: pivot(rows, "algorithm", "windows", of=source) for source in SOURCES}
    claims = []
    for source, by in cost.items():
        ratio = {n: naive / by["eager"][n] for n, naive in sorted(by["naive"].items())}
        claims.append(
            Claim(
                "M3",
                f"Fig. 2, {source}: the naive join costs what the eager one does for two windows, and many "
                "times (5) that from three on",
                {f"{n} windows": each for n, each in ratio.items()},
                abs(ratio[2] - 1) < 0.01 and all(each > 5 for n, each in ratio.items() if n > 2),
            )
        )
    off = {
        f"{name} {n}": cost["counted"][name][n] / model
        for name, by_n in cost["model"].items()
        for n, model in by_n.items()
    }
    near = all(abs(each - 1) <= TOLERANCE for each in off.values())
    says = f"Fig. 2: comparisons counted are those of the cost model, within {TOLERANCE:.0%}"
    return [*claims, Claim("M3", says, off, near)]


EXPERIMENT = swept(
    "multijoin-fig2",
    "Eager multi-way join against the naive one",
    ("M3",),
    measure,
    full={"windows": range(8, 1, -1), "algorithm": ("eager", "naive"), "units": 300, "seed": range(4)},
    quick={"windows": (4, 3, 2), "units": 200, "seed": range(2)},
    assess=assess,
    plot=Lines(
        "windows", SOURCES, "algorithm", ylabel="comparisons per unit of time", axes={"yscale": "log"}
    ),
    fixed={"rate": 1, "window": 100, "values": 50},
)
