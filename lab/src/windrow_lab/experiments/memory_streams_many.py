"""Three and four streams under a memory limit: the models' extension to m streams against baselines.

All streams share a key by Zipf's law and are stored. A row's expected results are those of the frequency
model for m streams (eviction/policies/frequency.py); AUTO learns by score and age as with two. A result is
lost with any of its rows, so that what is kept of one stream must fit what is kept of the others. And three
streams that follow each other, where the age of a row shows what it is worth and its key does not.
"""

from __future__ import annotations

from collections.abc import Sequence

from windrow.model.policies.parse import POLICIES
from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.memory_streams import following, shared_key
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

WINDOW, RATE, SKEW, LAG = 20.0, 10.0, 0.8, 4.0
KINDS = {"3 streams": (3, 100), "4 streams": (4, 150)}
"""Streams and values of the key."""
FOLLOWING = "3 streams that follow each other"
MODELS, BASELINES = ("auto", "frequency"), ("fifo", "random", "until-expiry")
BETTER, BEHIND = 1.1, 0.02
PACE = "every 100 rows"


def measure(kind: str, seed: int, span: float, memories: str) -> list[Row]:
    if kind == FOLLOWING:
        trace = following(3, span, seed, 2 * RATE, WINDOW, LAG)
    else:
        streams, values = KINDS[kind]
        trace = shared_key(streams, span, seed, RATE, WINDOW, values, SKEW)
    return [
        {
            "memory": memory,
            "policy": name,
            "recall": trace.under(memory * trace.whole, POLICIES[name](), seed, PACE).recall(
                trace.exact, 2 * WINDOW
            ),
        }
        for memory in map(float, memories.split())
        for name in (*MODELS, "age", *BASELINES)
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    claims = []
    for kind, by_memory in pivot(rows, "kind", "memory", "policy", of="recall").items():
        gain = {
            name: {m: found[name] / max(found[b] for b in BASELINES) for m, found in by_memory.items()}
            for name in MODELS
        }
        behind = {
            m: 1 - found["auto"] / max(each for name, each in found.items() if name != "auto")
            for m, found in by_memory.items()
        }
        if kind != FOLLOWING:
            least = min(factor for found in gain.values() for factor in found.values())
            says = f"{kind}: {BETTER} times the recall of the best baseline; over it, by memory"
            claims.append(Claim("m-way", says, gain, least > BETTER))
        says = f"{kind}: AUTO is within {BEHIND:.0%} of the best other policy; behind by a part of"
        claims.append(Claim("m-way", says, behind, max(behind.values()) <= BEHIND))
    return claims


EXPERIMENT = swept(
    "memory-streams-many",
    "Three and four streams under a memory limit",
    ("m-way",),
    measure,
    full={"kind": (*KINDS, FOLLOWING), "seed": range(3), "span": 200.0, "memories": "0.2 0.4 0.6 0.8"},
    quick={"seed": 0, "span": 80.0, "memories": "0.4"},
    assess=assess,
    plot=Lines("memory", "recall", "policy", "kind", "memory, of the windows"),
    fixed={"rates": RATE, "window": WINDOW, "values": KINDS, "Zipf": SKEW, "evaluated": PACE},
)
