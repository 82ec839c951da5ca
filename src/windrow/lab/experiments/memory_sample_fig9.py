"""Memory Fig. 9: the error of a windowed average against the spread of its values, at 10 % memory.

Uncorrelated frequencies (Zipf 2, 50 values), else as Fig. 8. If the averaged value is that of the stored
rows, all results of a row share it, which is the worst case for cluster sampling; if it is that of the other
stream, a cluster's values differ, and cluster sampling has the larger sample (said in the text, not drawn).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.figure import Figure

from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.experiments.memory_sample_fig8 import LINES, PACE
from windrow.lab.memory_samples import VALUES, WINDOW, Averaged

SKEW, MEMORY = 2.0, 0.1
SPAN = {"full": 4000.0, "quick": 2000.0}
SEEDS = {"full": 8, "quick": 4}
SPREADS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0)


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "rates": (1, 5),
        "window": WINDOW,
        "aggregation window": WINDOW,
        "values": VALUES,
        "order": "UC",
        "Zipf": SKEW,
        "memory": MEMORY,
        "seconds": SPAN[size],
        "evaluated": PACE,
        "seeds": SEEDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[Size, int]]:
    return [(size, seed) for seed in range(SEEDS[size])]


def run(task: tuple[Size, int]) -> list[Row]:
    size, seed = task
    streams = Averaged.frequency(SKEW, "UC", SPAN[size], seed)
    rows = []
    for name, (policy, part) in streams.policies().items():
        errors = streams.errors(MEMORY * part, policy, seed, PACE, SPREADS)
        rows += [
            {"approach": name, "value of": alias, "spread": spread, "seed": seed, "error": error}
            for (alias, spread), error in errors.items()
        ]
    return rows


def assess(rows: Sequence[Row]) -> list[Claim]:
    errors = _errors(rows)
    claims = []
    names = ("EQ-CLUSTER", "PPS-CLUSTER") if len({row["seed"] for row in rows}) > 4 else ("EQ-CLUSTER",)
    for name in names:
        gap = {s: errors["a", name][s] - errors["a", "UNIFORM"][s] for s in SPREADS}
        claims.append(
            Claim(
                "A6",
                f"value of stored rows: {name} degrades against UNIFORM as the spread grows; by how much it "
                "errs more",
                gap,
                all(gap[more] > gap[less] for less, more in pairwise(SPREADS)),
            )
        )
    ratio = {
        name: {s: errors["b", name][s] / errors["b", "UNIFORM"][s] for s in SPREADS}
        for name in ("EQ-CLUSTER", "PPS-CLUSTER")
    }
    claims.append(
        Claim(
            "A6",
            "value of the other stream: cluster sampling wins; its error over UNIFORM's",
            ratio,
            max(max(found.values()) for found in ratio.values()) < 1,
        )
    )
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    errors = _errors(rows)
    for axes, (of, title) in zip(
        figure.subplots(1, 2, sharey=True),
        {"a": "value of the stored rows", "b": "value of the other stream"}.items(),
        strict=True,
    ):
        for name, line in LINES.items():
            axes.plot(SPREADS, [errors[of, name][s] for s in SPREADS], line, label=name)
        axes.set(title=title, xlabel="deviation over mean", ylim=(0, None))
    figure.axes[0].set_ylabel("relative error of the average")
    figure.axes[0].legend()


def _errors(rows: Sequence[Row]) -> dict[tuple[str, str], dict[float, float]]:
    found: dict[tuple[str, str], dict[float, float]] = {}
    for row in average(rows, by=("value of", "approach", "spread"), of=("error",)):
        found.setdefault((row["value of"], row["approach"]), {})[row["spread"]] = row["error"]
    return found


EXPERIMENT = Experiment(
    "memory-sample-fig9",
    "Error of a windowed average against the spread of its values",
    ("A6",),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
