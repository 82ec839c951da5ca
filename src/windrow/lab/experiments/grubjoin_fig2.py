"""GrubJoin Fig. 2: the throttle fraction follows the rates, with an interval of 4 s and a boost of 1.2.

A three-way join whose rates change in steps, on a machine of a known number of comparisons per second. Rows
wait in input buffers of 10 rows a stream and are dropped when these are full. Windows fill and empty with the
rates of the last 10 s, so the full cost follows a step over that time; `ideal` is capacity over full cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from windrow.harvest.throttle import Throttle, adapted, consumption
from windrow.lab.experiment import Claim, Experiment, Row, Size

STEPS = ((0.0, 80.0), (18.0, 140.0), (42.0, 170.0), (58.0, 120.0), (86.0, 80.0))
"""From when on each of the streams brings so many rows per second."""
SECONDS = 130.0
TICK = 0.02
WINDOW = 10.0
SELECTIVITY = 0.001
CAPACITY = 620_000.0
"""Comparisons per second: what 100 rows/s need, and a little more."""
BUFFER = 10.0
STREAMS = 3
INTERVAL, BOOST = 4.0, 1.2


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "rates": STEPS,
        "seconds": SECONDS,
        "window": WINDOW,
        "selectivity": SELECTIVITY,
        "comparisons per second": CAPACITY,
        "buffer": BUFFER,
        "streams": STREAMS,
        "interval": INTERVAL,
        "boost": BOOST,
    }


def tasks(size: Size) -> Sequence[int]:
    return [0]


def run(task: int) -> list[Row]:
    rates = np.array([_rate(k * TICK) for k in range(round(SECONDS / TICK))])
    kept = round(WINDOW / TICK)
    throttle, waiting, arrived, consumed, dropped = Throttle(1.0, BOOST, INTERVAL), 0.0, 0.0, 0.0, 0.0
    rows = []
    for k, rate in enumerate(rates):
        window = rates[max(0, k - kept) : k].sum() * TICK
        each = window + SELECTIVITY * window * window  # comparisons of a row that looks at everything
        waiting += STREAMS * rate * TICK
        arrived += STREAMS * rate * TICK
        taken = min(waiting, CAPACITY * TICK / max(each * throttle.fraction, 1e-9))
        waiting, consumed = waiting - taken, consumed + taken
        lost = max(0.0, waiting - STREAMS * BUFFER)
        waiting, dropped = waiting - lost, dropped + lost
        if (k + 1) % round(INTERVAL / TICK) == 0:
            ideal = min(1.0, CAPACITY / max(STREAMS * rate * each, 1e-9))
            throttle = adapted(throttle, consumption(consumed, arrived))
            rows.append(
                {
                    "time": (k + 1) * TICK,
                    "rate": float(rate),
                    "z": float(throttle.fraction),
                    "ideal": float(ideal),
                    "dropped": float(dropped / arrived),
                }
            )
            arrived = consumed = dropped = 0.0
    return rows


def assess(rows: Sequence[Row]) -> list[Claim]:
    late = {f"at {time:g} s": _late(rows, time) for time, _ in STEPS[1:]}
    ends = {f"until {end:g} s": _before(rows, end) for end, _ in (*STEPS[1:], (SECONDS, 0.0))}
    ratio = {name: round(row["z"] / row["ideal"], 3) for name, row in ends.items()}
    overloaded = {name: row for name, row in ends.items() if row["ideal"] < 1}
    ordered = [row["z"] for _, row in sorted(overloaded.items(), key=lambda item: -item[1]["rate"])]
    return [
        Claim(
            "G1",
            "the throttle moves the right way at most one interval after that in which the rates change",
            {name: f"{each} intervals" for name, each in late.items()},
            all(each is not None and each <= 1 for each in late.values()),
        ),
        Claim(
            "G1",
            "inversely to the rates: at the end of each step it is within a boost of capacity over full cost",
            ratio,
            all(1 / BOOST <= each <= BOOST for each in ratio.values()) and ordered == sorted(ordered),
        ),
        Claim("G1", "it recovers to 1 when load falls", rows[-1]["z"], rows[-1]["z"] == 1.0),
    ]


def plot(rows: Sequence[Row], figure: Figure) -> None:
    left = figure.subplots()
    times = np.arange(0.0, SECONDS, 0.1)
    left.plot(times, [_rate(t) for t in times], color="tab:blue")
    left.set(xlabel="seconds", ylabel="rows per second, each stream")
    right = left.twinx()
    right.step([row["time"] for row in rows], [row["z"] for row in rows], where="post", color="tab:orange")
    right.plot([row["time"] for row in rows], [row["ideal"] for row in rows], ":", color="grey")
    right.set_ylabel("throttle fraction z (dotted: capacity over full cost)")
    right.set_ylim(0, 1.1)


def _rate(time: float) -> float:
    return next(rate for start, rate in reversed(STEPS) if time >= start)


def _before(rows: Sequence[Row], time: float) -> Row:
    return [row for row in rows if row["time"] <= time][-1]


def _late(rows: Sequence[Row], time: float) -> int | None:
    """Whole intervals after that of the change until z goes down after rates went up, or the other way."""
    up = _rate(time) > _rate(time - TICK)
    last = _before(rows, time)["z"]
    for intervals, row in enumerate(row for row in rows if row["time"] > time):
        if (row["z"] < last) if up else (row["z"] > last):
            return intervals
        last = row["z"]
    return None


EXPERIMENT = Experiment(
    "grubjoin-fig2", "The throttle follows the rates", ("G1",), parameters, tasks, run, assess, plot
)
