"""MultiJoin Fig. 4(b): equal hash tables against larger ones for the fast stream, on the virtual clock.

Three streams of rate 1 and one of rate 50, evaluated and expired every 5 units; the number of buckets is
given as the average per window. The orders are the cheapest in the cost model: of the general lazy join,
which may join the slow streams first, and of the lazy join, which starts from the new rows. The paper does
not say which of the two it ran.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure

from windrow.lab.averages import average
from windrow.lab.clock import VirtualClock
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.multijoin import ONE_MUCH_FASTER, count_work
from windrow.planning.order import exhaustive_orders

CLOCK = VirtualClock()
TAU = 5
SLOW = {"equal": None, "1 to slow": 1, "5 to slow": 5, "10 to slow": 10}
"""Buckets for each slow stream; None: as many as the fast one."""
ALGORITHMS = {"general": "general", "lazy": "eager"}
AVERAGES = {"full": (1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 20), "quick": (5, 8, 12, 20)}
SHOWN = 13
"""The paper's axis ends here."""
UNITS = {"full": 100, "quick": 40}
SEEDS = {"full": 3, "quick": 1}


def parameters(size: Size) -> Mapping[str, Any]:
    mix = ONE_MUCH_FASTER
    return {
        "streams": {"rates": mix.rates, "windows": mix.spans, "values": mix.values},
        "tau": TAU,
        "clock": asdict(CLOCK),
        "units measured": UNITS[size],
        "seeds": SEEDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[str, str, int, int, int]]:
    return [
        (algorithm, strategy, mean, UNITS[size], seed)
        for mean in AVERAGES[size]
        for strategy in SLOW
        if _buckets(strategy, mean)[-1] >= 1
        for algorithm in ALGORITHMS
        for seed in range(SEEDS[size])
    ]


def run(task: tuple[str, str, int, int, int]) -> list[Row]:
    algorithm, strategy, mean, units, seed = task
    buckets = _buckets(strategy, mean)
    orders = exhaustive_orders(ONE_MUCH_FASTER.statistics(buckets), ALGORITHMS[algorithm], TAU)
    counted = count_work(ONE_MUCH_FASTER, orders, units, seed, TAU, buckets)
    return [
        {
            "algorithm": algorithm,
            "strategy": strategy,
            "average": mean,
            "buckets": list(buckets),
            "seed": seed,
            "rate": CLOCK.rate(counted.rows, counted.work),
            **asdict(counted.work),
        }
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    rate = _rates(rows)
    general = {strategy: rate["general", strategy] for strategy in SLOW}
    five, ten, equal = general["5 to slow"], general["10 to slow"], general["equal"]
    # Below and at an average of 5 the fast stream would get no more than the slow ones.
    gain = {mean: five[mean] / equal[mean] for mean in five if mean > 5}
    lazy = {mean: rate["lazy", "5 to slow"][mean] / rate["lazy", "equal"][mean] for mean in gain}
    last = max(ten)
    return [
        Claim(
            "M6",
            'general lazy join: "5 to slow" beats equal tables at the same average (paper: over 10000 '
            "against about 7000 rows/s at 12 to 13)",
            {"gain by average": gain, "lazy join": lazy},
            all(value > 1 for value in gain.values()),
        ),
        Claim(
            "M6",
            f'"10 to slow" is below "5 to slow" up to an average of {SHOWN}, '
            "and above it when there are more buckets",
            {mean: ten[mean] / five[mean] for mean in ten},
            all(ten[mean] < five[mean] for mean in ten if mean <= SHOWN) and ten[last] > five[last],
        ),
        Claim(
            "M6",
            'a table for the fast stream alone ("1 to slow") is soon not enough: "5 to slow" overtakes it',
            {mean: five[mean] / general["1 to slow"][mean] for mean in gain},
            five[max(gain)] > general["1 to slow"][max(gain)],
        ),
    ]


def plot(rows: Sequence[Row], figure: Figure) -> None:
    rate = _rates(rows)
    for axes, algorithm in zip(figure.subplots(1, 2, sharey=True), ALGORITHMS, strict=True):
        for strategy in SLOW:
            curve = rate[algorithm, strategy]
            axes.plot(
                sorted(curve), [curve[mean] for mean in sorted(curve)], "o-", label=strategy, markersize=3
            )
        axes.axvline(SHOWN, color="grey", linestyle=":", label="end of the paper's axis")
        axes.set(
            title=f"{algorithm} join",
            xlabel="buckets per window, on average",
        )
    figure.axes[0].set_ylabel(f"rows per second, at {CLOCK.capacity:,.0f} comparisons/s")
    figure.axes[0].legend()


def _buckets(strategy: str, mean: int) -> tuple[int, int, int, int]:
    slow = SLOW[strategy]
    return (mean,) * 4 if slow is None else (slow, slow, slow, 4 * mean - 3 * slow)


def _rates(rows: Sequence[Row]) -> dict[tuple[str, str], dict[int, float]]:
    found: dict[tuple[str, str], dict[int, float]] = {}
    for row in average(rows, by=("algorithm", "strategy", "average"), of=("rate",)):
        found.setdefault((row["algorithm"], row["strategy"]), {})[row["average"]] = row["rate"]
    return found


EXPERIMENT = Experiment(
    "multijoin-fig4b", "Larger hash tables for the fast stream", ("M6",), parameters, tasks, run, assess, plot
)
