"""MultiJoin Fig. 3: naive, lazy and general lazy joins as the time between evaluations grows.

(a) four equal streams; (b) the fourth ten times as fast. For each algorithm and interval the order with the
least cost in the model is taken, and its comparisons come from the model and from the operator. The two
differ where the paper's model is loose: it lets every row in a window of T + tau pass on to the next loop,
while the join (the paper's pseudocode as well as ours) passes on only those within T of the others, so the
longer tau, the fewer comparisons are made than the model expects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windrow.planning.cost import plan_cost
from windrow.planning.order import exhaustive_orders
from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.multijoin import EQUAL_FOUR, ONE_FASTER, count_work
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

MIXES = {"equal": EQUAL_FOUR, "one ten times faster": ONE_FASTER}
ALGORITHMS = {"naive": "naive", "lazy": "eager", "general": "general"}
"""The paper's name, and that of the order's algorithm."""
SOURCES = ("model", "counted")
SAME = 1.001
Costs = Mapping[str, Mapping[int, float]]


def measure(streams: str, tau: int, algorithm: str, units: int, seed: int) -> Row:
    stats = MIXES[streams].statistics()
    orders = exhaustive_orders(stats, ALGORITHMS[algorithm], tau)
    counted = count_work(MIXES[streams], orders, units, seed, tau)
    return {
        "order for the fourth": "".join(str(s + 1) for s in orders[3]),
        "model": plan_cost(stats, orders, tau),
        "counted": counted.comparisons_per_unit,
        "results": counted.results,
    }


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    for source in SOURCES:
        cost = pivot(rows, "streams", "algorithm", "tau", of=source)
        claims += [_equal_streams(source, cost["equal"]), _one_faster(source, cost["one ten times faster"])]
    counts: dict[tuple[str, int, int], set[int]] = {}
    for row in rows:
        counts.setdefault((row["streams"], row["seed"], row["tau"]), set()).add(row["results"])
    same = all(len(each) == 1 for each in counts.values())
    says = "Fig. 3: all algorithms return the same results; comparisons of result counts"
    return [*claims, Claim("M3", says, len(counts), same)]


def _equal_streams(source: str, cost: Costs) -> Claim:
    taus = sorted(cost["lazy"])
    lazy = [cost["lazy"][tau] for tau in taus]
    ratio = {tau: cost["naive"][tau] / cost["lazy"][tau] for tau in taus}
    return Claim(
        "M3",
        f"Fig. 3(a), {source}: lazy and general cost the same and rise with tau; naive costs more, most at "
        "small tau; naive over lazy",
        ratio,
        all(abs(cost["general"][tau] / cost["lazy"][tau] - 1) < SAME - 1 for tau in taus)
        and lazy == sorted(lazy)
        and min(ratio.values()) > 1
        and ratio[taus[0]] == max(ratio.values()),
    )


def _one_faster(source: str, cost: Costs) -> Claim:
    naive, lazy, general = (cost[name] for name in ALGORITHMS)
    first, last = min(general), max(general)
    return Claim(
        "M3",
        f"Fig. 3(b), {source}: general is never above the others; lazy equals it at small tau, naive is "
        "dearest there; at large tau naive nears general and beats lazy; over general",
        {"naive": {tau: naive[tau] / general[tau] for tau in general}}
        | {"lazy": {tau: lazy[tau] / general[tau] for tau in general}},
        all(each <= SAME * min(naive[tau], lazy[tau]) for tau, each in general.items())
        and lazy[first] <= SAME * general[first]
        and naive[first] > lazy[first]
        and general[last] <= naive[last] < lazy[last],
    )


EXPERIMENT = swept(
    "multijoin-fig3",
    "Lazy, general lazy and naive joins",
    ("M3",),
    measure,
    full={
        "streams": tuple(reversed(MIXES)),
        "tau": (1, 2, 5, 10, 15, 20, 30, 40, 50),
        "algorithm": tuple(ALGORITHMS),
        "units": 200,
        "seed": range(3),
    },
    quick={"tau": (1, 10, 50), "units": 50, "seed": 0},
    assess=assess,
    plot=Lines(
        "tau",
        SOURCES,
        "algorithm",
        "streams",
        "units between evaluations",
        "comparisons per unit of time",
        axes={"yscale": "log"},
    ),
)
