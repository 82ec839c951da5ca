"""MultiJoin Fig. 3: naive, lazy and general lazy joins as the time between evaluations grows.

(a) four equal streams; (b) the fourth ten times as fast. For each algorithm and interval the order with the
least cost in the model is taken, and its comparisons come from the model and from the operator. The two
differ where the paper's model is loose: it lets every row in a window of T + tau pass on to the next loop,
while the join (the paper's pseudocode as well as ours) passes on only those within T of the others, so the
longer tau, the fewer comparisons are made than the model expects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.multijoin import EQUAL_FOUR, ONE_FASTER, count_work
from windrow.planning.cost import plan_cost
from windrow.planning.order import exhaustive_orders

MIXES = {"equal": EQUAL_FOUR, "one ten times faster": ONE_FASTER}
ALGORITHMS = {"naive": "naive", "lazy": "eager", "general": "general"}
"""The paper's name, and that of the order's algorithm."""
TAUS = {"full": (1, 2, 5, 10, 15, 20, 30, 40, 50), "quick": (1, 10, 50)}
UNITS = {"full": 200, "quick": 50}
SEEDS = {"full": 3, "quick": 1}
SAME = 1.001


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "streams": {
            name: {"rates": s.rates, "windows": s.spans, "values": s.values} for name, s in MIXES.items()
        },
        "units measured": UNITS[size],
        "seeds": SEEDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[str, str, int, int, int]]:
    return [
        (mix, algorithm, tau, UNITS[size], seed)
        for mix in reversed(MIXES)
        for tau in TAUS[size]
        for algorithm in ALGORITHMS
        for seed in range(SEEDS[size])
    ]


def run(task: tuple[str, str, int, int, int]) -> list[Row]:
    mix, algorithm, tau, units, seed = task
    stats = MIXES[mix].statistics()
    orders = exhaustive_orders(stats, ALGORITHMS[algorithm], tau)
    counted = count_work(MIXES[mix], orders, units, seed, tau)
    return [
        {
            "streams": mix,
            "algorithm": algorithm,
            "tau": tau,
            "seed": seed,
            "order for the fourth": "".join(str(s + 1) for s in orders[3]),
            "model": plan_cost(stats, orders, tau),
            "counted": counted.comparisons_per_unit,
            "results": counted.results,
        }
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    means = average(rows, by=("streams", "algorithm", "tau"), of=("model", "counted"))
    claims = []
    for source in ("model", "counted"):
        cost = {(row["streams"], row["algorithm"], row["tau"]): row[source] for row in means}
        taus = sorted({row["tau"] for row in means})
        claims += [_equal_streams(source, cost, taus), _one_faster(source, cost, taus)]
    return [*claims, _same_results(rows)]


def _equal_streams(source: str, cost: Mapping[tuple[str, str, int], float], taus: Sequence[int]) -> Claim:
    naive, lazy, general = ([cost["equal", name, tau] for tau in taus] for name in ALGORITHMS)
    return Claim(
        "M3",
        f"Fig. 3(a), {source}: lazy and general cost the same and rise with tau; "
        "naive costs more, most at small tau",
        {"tau": taus, "naive / lazy": [a / b for a, b in zip(naive, lazy, strict=True)], "lazy": lazy},
        all(abs(a / b - 1) < SAME - 1 for a, b in zip(lazy, general, strict=True))
        and lazy == sorted(lazy)
        and all(a > b for a, b in zip(naive, lazy, strict=True))
        and naive[0] / lazy[0] == max(a / b for a, b in zip(naive, lazy, strict=True)),
    )


def _one_faster(source: str, cost: Mapping[tuple[str, str, int], float], taus: Sequence[int]) -> Claim:
    naive, lazy, general = ([cost["one ten times faster", name, tau] for tau in taus] for name in ALGORITHMS)
    least = all(g <= SAME * min(a, b) for g, a, b in zip(general, naive, lazy, strict=True))
    return Claim(
        "M3",
        f"Fig. 3(b), {source}: general is never above the others; lazy equals it at small tau, "
        "naive is dearest there; at large tau naive nears general and beats lazy",
        {
            "tau": taus,
            "naive / general": [a / b for a, b in zip(naive, general, strict=True)],
            "lazy / general": [a / b for a, b in zip(lazy, general, strict=True)],
        },
        least and lazy[0] <= SAME * general[0] and naive[0] > lazy[0] and general[-1] <= naive[-1] < lazy[-1],
    )


def _same_results(rows: Sequence[Row]) -> Claim:
    counts: dict[tuple[str, int, int], set[int]] = {}
    for row in rows:
        counts.setdefault((row["streams"], row["seed"], row["tau"]), set()).add(row["results"])
    return Claim(
        "M3",
        "Fig. 3: all algorithms return the same results",
        {"comparisons of result counts": len(counts)},
        all(len(each) == 1 for each in counts.values()),
    )


def plot(rows: Sequence[Row], figure: Figure) -> None:
    means = average(rows, by=("streams", "algorithm", "tau"), of=("model", "counted"))
    colours = dict(zip(ALGORITHMS, ("tab:red", "tab:blue", "tab:green"), strict=True))
    for axes, mix in zip(figure.subplots(1, 2), MIXES, strict=True):
        for algorithm, colour in colours.items():
            line = [row for row in means if row["streams"] == mix and row["algorithm"] == algorithm]
            line.sort(key=lambda row: row["tau"])
            taus = [row["tau"] for row in line]
            axes.plot(taus, [row["model"] for row in line], color=colour, label=f"{algorithm}, model")
            axes.plot(
                taus, [row["counted"] for row in line], "o--", color=colour, label=f"{algorithm}, counted"
            )
        axes.set(title=mix, xlabel="units between evaluations", yscale="log")
    figure.axes[0].set_ylabel("comparisons per unit of time")
    figure.axes[0].legend(loc="upper right")


EXPERIMENT = Experiment(
    "multijoin-fig3", "Lazy, general lazy and naive joins", ("M3",), parameters, tasks, run, assess, plot
)
