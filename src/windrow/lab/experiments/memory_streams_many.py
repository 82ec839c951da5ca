"""Three and four streams under a memory limit: the models' extension to m streams against baselines.

All streams share a key by Zipf's law and are stored. A row's expected results are those of the frequency
model for m streams (eviction/policies/frequency.py); AUTO learns by score and age as with two. A result is
lost with any of its rows, so that what is kept of one stream must fit what is kept of the others. And three
streams that follow each other, where the age of a row tells what it is worth and its key does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.memory_streams import following, shared_key
from windrow.model.policies.baselines import POLICIES

SEEDS = {"full": 3, "quick": 1}
MEMORY = {"full": (0.2, 0.4, 0.6, 0.8), "quick": (0.4,)}
SPAN = {"full": 200.0, "quick": 80.0}
WINDOW, RATE, SKEW = 20.0, 10.0, 0.8
VALUES = {3: 100, 4: 150}
KINDS = {"3 streams": 3, "4 streams": 4}
MODELS, BASELINES = ("auto", "frequency"), ("fifo", "random", "until-expiry")
NAMES = (*MODELS, "age", *BASELINES)
FOLLOWING = "3 streams that follow each other"
LAG = 4.0
BEHIND = {"full": 0.02, "quick": 0.05}
"""How far AUTO may be behind the best policy, as a part of it."""
PACE = "every 100 rows"


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "rates": RATE,
        "window": WINDOW,
        "values": VALUES,
        "Zipf": SKEW,
        FOLLOWING: f"{2 * RATE:g} rows/s, each stream {LAG:g} s after the one before",
        "seconds": SPAN[size],
        "evaluated": PACE,
        "seeds": SEEDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[Size, str, int]]:
    return [(size, kind, seed) for kind in (*KINDS, FOLLOWING) for seed in range(SEEDS[size])]


def run(task: tuple[Size, str, int]) -> list[Row]:
    size, kind, seed = task
    if kind == FOLLOWING:
        trace = following(3, SPAN[size], seed, 2 * RATE, WINDOW, LAG)
    else:
        trace = shared_key(KINDS[kind], SPAN[size], seed, RATE, WINDOW, VALUES[KINDS[kind]], SKEW)
    return [
        {
            "size": size,
            "streams": kind,
            "memory": memory,
            "policy": name,
            "seed": seed,
            "recall": trace.under(memory * trace.whole, POLICIES[name](), seed, PACE).recall(
                trace.exact, 2 * WINDOW
            ),
        }
        for memory in MEMORY[size]
        for name in NAMES
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    recall = _recalls(rows)
    claims = []
    for streams in KINDS:
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
                f"{streams}: recall over that of the best baseline, by memory",
                gain,
                all(factor > 1.1 for found in gain.values() for factor in found.values()),
            )
        )
    within = BEHIND[rows[0]["size"]]
    behind = {
        kind: {
            m: 1 - auto / max(recall[kind, name][m] for name in NAMES if name != "auto")
            for m, auto in recall[kind, "auto"].items()
        }
        for kind in (*KINDS, FOLLOWING)
    }
    worst = max(part for found in behind.values() for part in found.values())
    says = f"AUTO is at most {within:.0%} behind the best other policy, by memory; by a part of"
    return [*claims, Claim("m-way", says, behind, worst <= within)]


def plot(rows: Sequence[Row], figure: Figure) -> None:
    recall = _recalls(rows)
    kinds = (*KINDS, FOLLOWING)
    for axes, streams in zip(figure.subplots(1, len(kinds), sharey=True), kinds, strict=True):
        for name in NAMES:
            found = recall[streams, name]
            axes.plot([100 * m for m in sorted(found)], [found[m] for m in sorted(found)], "o-", label=name)
        axes.set(title=streams, xlabel="memory (% of the windows)", ylim=(0, 1))
    figure.axes[0].set_ylabel("recall")
    figure.axes[0].legend()


def _recalls(rows: Sequence[Row]) -> dict[tuple[str, str], dict[float, float]]:
    found: dict[tuple[str, str], dict[float, float]] = {}
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
