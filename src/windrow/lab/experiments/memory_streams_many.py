"""Three and four streams under a memory limit: the models' extension to m streams against baselines.

All streams share a key by Zipf's law and are stored. A row's expected results are those of the frequency
model for m streams (shed/frequency.py); AUTO learns by score and age as with two. A result is lost with any
of its rows, so that what is kept of one stream must fit what is kept of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.memory_streams import shared_key
from windrow.model.policies import POLICIES

SEEDS = {"full": 3, "quick": 1}
MEMORY = {"full": (0.2, 0.4, 0.6, 0.8), "quick": (0.4,)}
SPAN = {"full": 200.0, "quick": 80.0}
WINDOW, RATE, SKEW = 20.0, 10.0, 0.8
VALUES = {3: 100, 4: 150}
MODELS, BASELINES = ("auto", "frequency"), ("fifo", "random", "until-expiry")
PACE = "every 100 rows"


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "rates": RATE,
        "window": WINDOW,
        "values": VALUES,
        "Zipf": SKEW,
        "seconds": SPAN[size],
        "evaluated": PACE,
        "seeds": SEEDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[Size, int, int]]:
    return [(size, streams, seed) for streams in VALUES for seed in range(SEEDS[size])]


def run(task: tuple[Size, int, int]) -> list[Row]:
    size, streams, seed = task
    trace = shared_key(streams, SPAN[size], seed, RATE, WINDOW, VALUES[streams], SKEW)
    return [
        {
            "streams": streams,
            "memory": memory,
            "policy": name,
            "seed": seed,
            "recall": trace.under(memory * trace.whole, POLICIES[name](), seed, PACE).recall(
                trace.exact, 2 * WINDOW
            ),
        }
        for memory in MEMORY[size]
        for name in (*MODELS, *BASELINES)
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    recall = _recalls(rows)
    claims = []
    for streams in VALUES:
        gain = {
            name: {
                m: recall[streams, name][m] / max(recall[streams, other][m] for other in BASELINES)
                for m in recall[streams, name]
            }
            for name in MODELS
        }
        claims.append(
            Claim(
                "m-way",
                f"{streams} streams: recall over that of the best baseline, by memory",
                gain,
                all(factor > 1.1 for found in gain.values() for factor in found.values()),
            )
        )
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    recall = _recalls(rows)
    for axes, streams in zip(figure.subplots(1, len(VALUES), sharey=True), VALUES, strict=True):
        for name in (*MODELS, *BASELINES):
            found = recall[streams, name]
            axes.plot([100 * m for m in sorted(found)], [found[m] for m in sorted(found)], "o-", label=name)
        axes.set(title=f"{streams} streams", xlabel="memory (% of the windows)", ylim=(0, 1))
    figure.axes[0].set_ylabel("recall")
    figure.axes[0].legend()


def _recalls(rows: Sequence[Row]) -> dict[tuple[int, str], dict[float, float]]:
    found: dict[tuple[int, str], dict[float, float]] = {}
    for row in average(rows, by=("streams", "policy", "memory"), of=("recall",)):
        found.setdefault((row["streams"], row["policy"]), {})[row["memory"]] = row["recall"]
    return found


EXPERIMENT = Experiment(
    "memory-streams-many",
    "Three and four streams under a memory limit",
    ("m-way",),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
