"""MultiJoin Fig. 4(a): the fastest input against the interval of evaluation and expiry, on the virtual clock.

Four equal streams, under nested loops and hash tables of 2, 10 and 30 buckets. Expiring often touches many
buckets in vain; expiring seldom lets windows grow. Where the two balance depends on how many rows a window
holds, and there the paper can be read in two ways. "by rate": a unit of time is four steps of the generator,
so that a window of 100 units holds the 100 rows of the cost model. "by step": the generator's loop index is
the time, so that it holds 25. Both are measured, with every access worth one comparison.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

from matplotlib.figure import Figure

from windrow.lab.averages import average
from windrow.lab.clock import VirtualClock
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.multijoin import EQUAL_FOUR, arrival_first, count_work

CLOCK = VirtualClock()
READINGS = {"by rate": EQUAL_FOUR, "by step": replace(EQUAL_FOUR, steps=1.0)}
BUCKETS = (1, 2, 10, 30)
TAUS = {
    "by rate": (0, 0.5, 1, 2, 4, 8, 15, 30, 60),
    "by step": (0, 2, 4, 8, 15, 30, 60, 100, 150, 200),
}
QUICK_TAUS = {"by rate": (0, 1, 4, 15, 60), "by step": (0, 4, 8, 30, 100, 200)}
UNITS = {"full": {"by rate": 500, "by step": 2000}, "quick": {"by rate": 150, "by step": 1000}}
FILLING = {"by rate": 160, "by step": 300}
SEEDS = {"full": 4, "quick": 1}


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "streams": {"rates": EQUAL_FOUR.rates, "windows": EQUAL_FOUR.spans, "values": EQUAL_FOUR.values},
        "rows in a window": {"by rate": 100, "by step": 25},
        "clock": asdict(CLOCK),
        "units measured": UNITS[size],
        "seeds": SEEDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[str, int, float, int, int]]:
    return [
        (reading, buckets, tau, UNITS[size][reading], seed)
        for reading in READINGS
        for tau in (TAUS if size == "full" else QUICK_TAUS)[reading]
        for buckets in BUCKETS
        for seed in range(SEEDS[size])
    ]


def run(task: tuple[str, int, float, int, int]) -> list[Row]:
    reading, buckets, tau, units, seed = task
    orders = {s: arrival_first(s, range(4)) for s in range(4)}
    counted = count_work(READINGS[reading], orders, units, seed, tau, (buckets,) * 4, FILLING[reading])
    return [
        {
            "reading": reading,
            "buckets": buckets,
            "tau": tau,
            "seed": seed,
            "rate": CLOCK.rate(counted.rows, counted.work),
            **asdict(counted.work),
        }
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    by_rate, by_step = (_curves(rows, reading) for reading in READINGS)
    return [
        # With 100 rows in a window a scan costs hundreds of times the four list heads touched by an expiry,
        # so nested loops lose nothing by expiring with every row and have no best interval to speak of.
        _best_interval("by rate", by_rate, [b for b in BUCKETS if b > 1]),
        _best_interval("by step", by_step, BUCKETS),
        _best_rate("by rate", by_rate),
        _best_rate("by step", by_step),
    ]


def _best_interval(reading: str, curves: Mapping[int, Mapping[float, float]], judged: Sequence[int]) -> Claim:
    best = {buckets: max(curve, key=curve.__getitem__) for buckets, curve in curves.items()}
    places = [best[b] for b in judged]
    inside = all(min(curves[b]) < best[b] < max(curves[b]) for b in judged)
    return Claim(
        "M5",
        f"{reading}, {', '.join(map(_name, judged))}: an interior optimum that moves right as buckets grow "
        "(paper: 4, 15 and 30 units for 2, 10 and 30 buckets)",
        {_name(buckets): tau for buckets, tau in best.items()},
        inside and places == sorted(set(places)),
    )


def _best_rate(reading: str, curves: Mapping[int, Mapping[float, float]]) -> Claim:
    peaks = {buckets: max(curve.values()) for buckets, curve in curves.items()}
    gains = [(peaks[b] - peaks[a]) / (b - a) for a, b in pairwise(peaks)]
    return Claim(
        "M5",
        f"{reading}: nested loops are slowest, the largest table fastest, and each further bucket gains less",
        {_name(b): round(peak) for b, peak in peaks.items()} | {"gain per bucket": [round(g) for g in gains]},
        list(peaks.values()) == sorted(peaks.values()) and gains == sorted(gains, reverse=True),
    )


def plot(rows: Sequence[Row], figure: Figure) -> None:
    for axes, reading in zip(figure.subplots(1, 2), READINGS, strict=True):
        curves = _curves(rows, reading)
        for buckets, curve in curves.items():
            rates = list(curve.values())
            (line,) = axes.plot(rates, "o-", label=_name(buckets), markersize=3)
            best = rates.index(max(rates))
            axes.plot(best, rates[best], "*", color=line.get_color(), markersize=13)
        axes.set_xticks(range(len(curves[1])), ["row", *(f"{tau:g}" for tau in list(curves[1])[1:])])
        held = f"{READINGS[reading].statistics().streams[0].rows:g} rows"
        axes.set(title=f"time {reading}: windows of {held}", xlabel="units between evaluations", yscale="log")
    figure.axes[0].set_ylabel(f"rows per second, at {CLOCK.capacity:,.0f} comparisons/s")
    figure.axes[0].legend()


def _name(buckets: int) -> str:
    return f"{buckets} buckets" if buckets > 1 else "nested loops"


def _curves(rows: Sequence[Row], reading: str) -> dict[int, dict[float, float]]:
    """For each number of buckets, rate by interval."""
    means = average([row for row in rows if row["reading"] == reading], by=("buckets", "tau"), of=("rate",))
    means.sort(key=lambda row: row["tau"])
    return {b: {row["tau"]: row["rate"] for row in means if row["buckets"] == b} for b in BUCKETS}


EXPERIMENT = Experiment(
    "multijoin-fig4a", "How often to evaluate and expire", ("M5",), parameters, tasks, run, assess, plot
)
