"""Streams that change in mid-run: what was learned fades, and the policies follow.

Age model: the curve falls (DEC) in the first half of the run and rises (INC) in the second. Frequency model:
at half time the values change places. Policies with the default half-life stand beside AGE with the first
half's curve given, which learns nothing more, and PROB and AUTO that never forget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.memory_streams import BUCKETS, SHAPES, N, age_based, frequency_based
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.learned import Age, Auto, Frequency

WINDOW, MEMORY, VALUES = 100.0, 0.3, 200
WINDOWS = {"full": 24, "quick": 16}
SEEDS = {"full": 2, "quick": 1}
PACE = {"age": "every 120 rows", "frequency": "every 40 rows"}
NEVER = 1e6
"""A half-life, in windows, with which nothing is ever forgotten."""
AFTER = 4
"""Windows after the change until policies must have followed."""


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "memory": MEMORY,
        "window": WINDOW,
        "windows": WINDOWS[size],
        "age model": "4 and 20 rows/s; DEC, then INC",
        "frequency model": f"4 rows/s each, {VALUES} values, Zipf 1, DC",
        "half-life": Age.half_life,
        "seeds": SEEDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[Size, str, int]]:
    return [(size, model, seed) for model in PACE for seed in range(SEEDS[size])]


def run(task: tuple[Size, str, int]) -> list[Row]:
    size, model, seed = task
    span = WINDOWS[size] * WINDOW
    policies: dict[str, MemoryPolicy]
    if model == "age":
        trace = age_based([SHAPES["DEC"], SHAPES["INC"]], span, seed, (5, 25), WINDOW)
        first = N * SHAPES["DEC"] / SHAPES["DEC"].sum()
        assert len(first) == BUCKETS
        policies = {
            "AGE": Age(),
            "AGE, stopped": Age(curves={"a": tuple(first)}, monitor=0.05),
            "AUTO": Auto(),
            "AUTO, never forgets": Auto(half_life=NEVER),
        }
    else:
        trace = frequency_based(1.0, "DC", span, seed, (5, 5), WINDOW, VALUES, phases=2)
        policies = {
            "PROB": Frequency(),
            "PROB, never forgets": Frequency(half_life=NEVER),
            "AUTO": Auto(),
            "AUTO, never forgets": Auto(half_life=NEVER),
        }
    rows = []
    for name, policy in policies.items():
        found = trace.under(MEMORY * trace.whole, policy, seed, PACE[model])
        rows += [
            {
                "model": model,
                "policy": name,
                "seed": seed,
                "window": at,
                "recall": found.recall(trace.exact, at * WINDOW, (at + 1) * WINDOW),
            }
            for at in range(WINDOWS[size])
        ]
    return rows


def assess(rows: Sequence[Row]) -> list[Claim]:
    recall = _recalls(rows)
    half = (max(row["window"] for row in rows) + 1) // 2
    claims = []
    for model, learns, factor in (("age", "AGE", 2.0), ("frequency", "PROB", 0.99)):
        late = {
            name: float(np.mean(found[half + AFTER :])) for (m, name), found in recall.items() if m == model
        }
        others = {"age": "AGE, stopped", "frequency": "PROB, never forgets"}
        claims.append(
            Claim(
                "drift",
                f"{model} model: from {AFTER} windows after the change on, {learns} and AUTO find {factor} "
                f"times as much as {others[model]}, or more",
                late,
                all(late[name] >= factor * late[others[model]] for name in (learns, "AUTO")),
            )
        )
    before, after = (
        {f"{model}, {name}": float(np.mean(found[part])) for (model, name), found in recall.items()}
        for part in (slice(half - 4, half), slice(half, half + 1))
    )
    late = {f"{model}, {name}": float(np.mean(found[-3:])) for (model, name), found in recall.items()}
    followed = {key: (before[key], after[key], late[key]) for key in ("frequency, PROB", "frequency, AUTO")}
    claims.append(
        Claim(
            "drift",
            "where the change leaves the streams as hard as they were, recall comes back: before, in the "
            "window after the change, at the end",
            followed,
            all(end > 0.9 * start for start, _, end in followed.values()),
        )
    )
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    recall = _recalls(rows)
    for axes, model in zip(figure.subplots(1, 2, sharey=True), PACE, strict=True):
        for (which, name), found in recall.items():
            if which == model:
                axes.plot(np.arange(len(found)) + 0.5, found, "--" if "," in name else "-", label=name)
        axes.axvline(len(found) / 2, color="k", lw=0.5)
        axes.set(title=f"{model} model", xlabel="windows since the start", ylim=(0, 1))
        axes.legend(fontsize=7)
    figure.axes[0].set_ylabel("recall")


def _recalls(rows: Sequence[Row]) -> dict[tuple[str, str], list[float]]:
    found: dict[tuple[str, str], list[float]] = {}
    for row in average(rows, by=("model", "policy", "window"), of=("recall",)):
        found.setdefault((row["model"], row["policy"]), []).append(row["recall"])
    return found


EXPERIMENT = Experiment(
    "memory-drift",
    "Streams that change in mid-run",
    ("drift",),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
