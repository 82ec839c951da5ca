"""MultiJoin Table 8: the fastest input that the best and the worst plan sustain, on the virtual clock.

The streams of Table 5, under nested loops and under hash tables of five buckets, evaluated and expired for
each row or every 5 or 10 units. The best plan is the heuristic's, the worst the dearest of all 24 global
orders in the cost model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import permutations
from typing import Any

from matplotlib.figure import Figure

from windrow.lab.averages import average
from windrow.lab.clock import VirtualClock
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.multijoin import TABLE_5, arrival_first, count_work, lazy_cost
from windrow.planning.order import choose_orders

CLOCK = VirtualClock()
BUCKETS = {"nested loops": 1, "hash": 5}
TAUS = (0, 5, 10)
UNITS = {"full": 200, "quick": 100}
SEEDS = {"full": 10, "quick": 1}
# Rows per second of the best and of the worst plan.
PRINTED = {
    ("nested loops", 0): (1614, 333),
    ("nested loops", 5): (1446, 296),
    ("nested loops", 10): (1332, 274),
    ("hash", 0): (11540, 2524),
    ("hash", 5): (8420, 2041),
    ("hash", 10): (7947, 1848),
}
SEVERAL = 3.0


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "streams": {"rates": TABLE_5.rates, "windows": TABLE_5.spans, "values": TABLE_5.values},
        "buckets": BUCKETS,
        "clock": asdict(CLOCK),
        "units measured": UNITS[size],
        "seeds": SEEDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[str, int, str, int, int]]:
    return [
        (search, tau, plan, UNITS[size], seed)
        for tau in TAUS
        for search in BUCKETS
        for plan in ("worst", "best")
        for seed in range(SEEDS[size])
    ]


def run(task: tuple[str, int, str, int, int]) -> list[Row]:
    search, tau, plan, units, seed = task
    buckets = (BUCKETS[search],) * 4
    stats = TABLE_5.statistics(buckets)
    if plan == "best":
        orders = choose_orders(stats, "heuristic", "eager", tau)
    else:
        worst = max(permutations(range(4)), key=lambda order: lazy_cost(stats, order, tau))
        orders = {s: arrival_first(s, worst) for s in range(4)}
    counted = count_work(TABLE_5, orders, units, seed, tau, buckets)
    return [
        {
            "search": search,
            "tau": tau,
            "plan": plan,
            "seed": seed,
            "orders": ["".join(str(s + 1) for s in orders[k]) for k in range(4)],
            "rate": CLOCK.rate(counted.rows, counted.work),
            **asdict(counted.work),
        }
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    rate = _rates(rows)
    gain = {key: rate[*key, "best"] / rate[*key, "worst"] for key in PRINTED}
    hashed = {tau: rate["hash", tau, "best"] / rate["nested loops", tau, "best"] for tau in TAUS}
    falling = {search: [rate[search, tau, "best"] for tau in TAUS] for search in BUCKETS}
    claims = [
        Claim(
            "M4",
            f"{search}: the best plan sustains several times (over {SEVERAL:g}) the worst plan's rate; "
            f"paper {PRINTED[search, 0][0] / PRINTED[search, 0][1]:.1f}x",
            {f"tau {tau}": gain[search, tau] for tau in TAUS},
            all(gain[search, tau] > SEVERAL for tau in TAUS),
        )
        for search in BUCKETS
    ]
    claims += [
        Claim(
            "M4",
            f"hash tables of five buckets sustain several times (over {SEVERAL:g}) the rate of nested loops; "
            "paper 6-7x",
            {f"tau {tau}": value for tau, value in hashed.items()},
            all(value > SEVERAL for value in hashed.values()),
        ),
        Claim(
            "M4",
            "nested loops: evaluating and expiring less often lowers the rate (paper 1614, 1446, 1332)",
            {search: [round(value) for value in values] for search, values in falling.items()},
            falling["nested loops"] == sorted(falling["nested loops"], reverse=True),
        ),
    ]
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    rate = _rates(rows)
    axes = figure.subplots()
    labels = [f"{search}\n{f'every {tau}' if tau else 'eager'}" for search, tau in PRINTED]
    for shift, plan, at in ((-0.3, "best", 0), (0.1, "worst", 1)):
        ours = [rate[*key, plan] for key in PRINTED]
        theirs = [printed[at] for printed in PRINTED.values()]
        places = range(len(PRINTED))
        axes.bar([p + shift for p in places], ours, 0.2, label=f"{plan} plan, ours")
        axes.bar([p + shift + 0.2 for p in places], theirs, 0.2, label=f"{plan} plan, paper", alpha=0.4)
    axes.set_xticks(range(len(PRINTED)), labels)
    axes.set(ylabel=f"rows per second, at {CLOCK.capacity:,.0f} comparisons/s", yscale="log")
    axes.legend()


def _rates(rows: Sequence[Row]) -> dict[tuple[Any, ...], float]:
    means = average(rows, by=("search", "tau", "plan"), of=("rate",))
    return {(row["search"], row["tau"], row["plan"]): row["rate"] for row in means}


EXPERIMENT = Experiment(
    "multijoin-table8", "Fastest input of best and worst plans", ("M4",), parameters, tasks, run, assess, plot
)
