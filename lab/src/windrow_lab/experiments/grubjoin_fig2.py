"""GrubJoin Fig. 2: the throttle fraction follows the rates, with an interval of 4 s and a boost of 1.2.

A three-way join whose rates change in steps, on a machine of a known number of comparisons per second. Rows
wait in input buffers of 10 rows a stream and are dropped when these are full. Windows fill and empty with the
rates of the last 10 s, so the full cost follows a step over that time; `ideal` is capacity over full cost.
The fraction is settled while it is within a boost of the ideal.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from windrow.harvest.throttle import adapted
from windrow_lab.experiment import Claim, Row
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

STEPS = ((0.0, 80.0), (18.0, 140.0), (42.0, 170.0), (58.0, 120.0), (86.0, 80.0))
"""From when on each of the streams brings so many rows per second."""
SECONDS, TICK, WINDOW = 130.0, 0.02, 10.0
SELECTIVITY = 0.001
CAPACITY = 620_000.0
"""Comparisons per second: what 100 rows/s need, and a little more."""
BUFFER, STREAMS = 10.0, 3


def measure(interval: float, boost: float) -> list[Row]:
    rates = np.array([_rate(k * TICK) for k in range(round(SECONDS / TICK))])
    kept = round(WINDOW / TICK)
    z, waiting, arrived, consumed = 1.0, 0.0, 0.0, 0.0
    rows = []
    for k, rate in enumerate(rates):
        window = rates[max(0, k - kept) : k].sum() * TICK
        each = window + SELECTIVITY * window * window  # comparisons of a row that probes everything
        waiting += STREAMS * rate * TICK
        arrived += STREAMS * rate * TICK
        taken = min(waiting, CAPACITY * TICK / max(each * z, 1e-9))
        waiting, consumed = min(waiting - taken, STREAMS * BUFFER), consumed + taken
        if (k + 1) % round(interval / TICK) == 0:
            ideal = min(1.0, CAPACITY / max(STREAMS * rate * each, 1e-9))
            z = adapted(z, boost, consumed, arrived)
            found = {"time": (k + 1) * TICK, "rate": float(rate), "z": z}
            rows.append(found | {"ideal": float(ideal), "rate / 200": float(rate) / 200})
            arrived = consumed = 0.0
    return rows


def assess(rows: Sequence[Row]) -> list[Claim]:
    ends = [_before(rows, end) for end, _ in (*STEPS[1:], (SECONDS, 0.0))]
    late = {f"at {time:g} s": _late(rows, time) for time, _ in STEPS[1:]}
    settled = {
        f"at {time:g} s": _settled(rows, time, end)
        for (time, _), (end, _) in zip(STEPS[1:], (*STEPS[2:], (SECONDS, 0.0)), strict=True)
    }
    overloaded = sorted((row["rate"], row["z"]) for row in ends if row["ideal"] < 1)
    return [
        Claim(
            "G1",
            "at most one interval late: the throttle moves the right way at the end of the interval in which "
            "the rates change, or of the next",
            {name: f"{each} intervals later" for name, each in late.items()},
            all(each is not None and each <= 1 for each in late.values()),
        ),
        Claim(
            "G1",
            "it settles within a boost of capacity over full cost before the rates change again; intervals",
            settled,
            all(each is not None for each in settled.values()),
        ),
        Claim(
            "G1",
            "inversely: the higher the rate, the lower the fraction at the end of a step",
            {f"{rate:g} rows/s": round(z, 3) for rate, z in overloaded},
            all(a[1] > b[1] for a, b in pairwise(overloaded)),
        ),
        Claim("G1", "it recovers to 1 when load falls", rows[-1]["z"], rows[-1]["z"] == 1.0),
    ]


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


def _settled(rows: Sequence[Row], time: float, end: float) -> int | None:
    """Whole intervals after that of a change until z is within a boost of the ideal and stays there."""
    near = [
        row["ideal"] / row["boost"] <= row["z"] <= row["ideal"] * row["boost"]
        for row in rows
        if time < row["time"] <= end
    ]
    return None if not near[-1] else len(near) - (near[::-1].index(False) if False in near else len(near))


EXPERIMENT = swept(
    "grubjoin-fig2",
    "The throttle follows the rates",
    ("G1",),
    measure,
    full={"interval": 4.0, "boost": 1.2},
    quick={},
    assess=assess,
    plot=Lines(
        "time",
        ("z", "ideal", "rate / 200"),
        xlabel="seconds",
        ylabel="throttle fraction z, capacity over full cost, rate",
        styles={"ideal": ":", "rate / 200": "--"},
    ),
    fixed={
        "rates": STEPS,
        "window": WINDOW,
        "selectivity": SELECTIVITY,
        "comparisons per second": CAPACITY,
        "buffer": BUFFER,
        "streams": STREAMS,
    },
)
