"""Streams that change in mid-run: what was learned fades, and the policies follow.

Age model: the curve falls (DEC) in the first half of the run and rises (INC) in the second. Frequency model:
at half time the values change places. Policies with the default half-life stand beside AGE with the first
half's curve given, which learns nothing more, and PROB and AUTO that never forget. AUTO with a half-life
of one window and half as many age bins shows how much it is slowness that AUTO is behind AGE by.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.learned import Age, Auto, Frequency
from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.memory_streams import SHAPES, N, age_based, frequency_based
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

WINDOW, MEMORY, VALUES = 100.0, 0.3, 200
NEVER = 1e6
"""A half-life, in windows, with which nothing is ever forgotten."""
AFTER = 4
"""Windows after the change until policies must have followed."""
FOLLOWS = {"age": ("AGE", "AGE, stopped", 2.0), "frequency": ("PROB", "PROB, never forgets", 0.99)}
"""By model who learns, who does not, and how many times as much the first must find."""


def measure(model: str, windows: int, seed: int) -> list[Row]:
    span = windows * WINDOW
    policies: dict[str, MemoryPolicy] = {
        "AUTO": Auto(),
        "AUTO, quick": Auto(half_life=1.0, age_bins=Auto.age_bins // 2),
        "AUTO, never forgets": Auto(half_life=NEVER),
    }
    if model == "age":
        trace = age_based([SHAPES["DEC"], SHAPES["INC"]], span, seed, (5, 25), WINDOW)
        first = N * SHAPES["DEC"] / SHAPES["DEC"].sum()
        policies |= {"AGE": Age(), "AGE, stopped": Age(age_curves={"a": tuple(first)}, monitor_fraction=0.05)}
    else:
        trace = frequency_based(1.0, "DC", span, seed, (5, 5), WINDOW, VALUES, phases=2)
        policies |= {"PROB": Frequency(), "PROB, never forgets": Frequency(half_life=NEVER)}
    pace = "every 120 rows" if model == "age" else "every 40 rows"
    rows = []
    for name, policy in policies.items():
        found = trace.under(MEMORY * trace.whole, policy, seed, pace)
        rows += [
            {
                "policy": name,
                "window": at,
                "recall": found.recall(trace.exact, at * WINDOW, (at + 1) * WINDOW),
            }
            for at in range(windows)
        ]
    return rows


def assess(rows: Sequence[Row]) -> list[Claim]:
    recall = {
        model: {name: list(found.values()) for name, found in by.items()}
        for model, by in pivot(rows, "model", "policy", "window", of="recall").items()
    }
    half = rows[0]["windows"] // 2
    claims = []
    for model, (learns, stays, times) in FOLLOWS.items():
        late = {name: float(np.mean(found[half + AFTER :])) for name, found in recall[model].items()}
        claims.append(
            Claim(
                "drift",
                f"{model} model: from {AFTER} windows after the change on, {learns} and AUTO find {times} "
                f"times as much as {stays}, or more",
                late,
                all(late[name] >= times * late[stays] for name in (learns, "AUTO")),
            )
        )
    followed = {
        name: [float(np.mean(found[part])) for part in (slice(half - 4, half), slice(half, half + 1))]
        + [float(np.mean(found[-3:]))]
        for name, found in recall["frequency"].items()
    }
    return [
        *claims,
        Claim(
            "drift",
            "where the change leaves the streams as hard as they were, recall comes back: before, in the "
            "window after the change, at the end",
            followed,
            all(followed[name][2] > 0.9 * followed[name][0] for name in ("PROB", "AUTO")),
        ),
    ]


EXPERIMENT = swept(
    "memory-drift",
    "Streams that change in mid-run",
    ("drift",),
    measure,
    full={"model": tuple(FOLLOWS), "windows": 24, "seed": range(2)},
    quick={"windows": 16, "seed": 0},
    assess=assess,
    plot=Lines("window", "recall", "policy", "model", "windows since the start"),
    fixed={"memory": MEMORY, "window": WINDOW, "half-life": Age.half_life},
)
