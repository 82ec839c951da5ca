"""Memory Fig. 9: the error of a windowed average against the spread of its values, at 10 % memory.

Uncorrelated frequencies (Zipf 2, 50 values), else as Fig. 8. If the averaged value is that of the stored
rows, all results of a row share it, which is the worst case for cluster sampling; if it is that of the other
stream, a cluster's values differ, and cluster sampling has the larger sample (said in the text, not drawn).
PPS-CLUSTER is run with the iteration for p that a footnote mentions, and without it (A6').
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.experiments.memory_sample_fig8 import PACE, SKEW
from windrow_lab.memory_samples import BY_FORMULA, VALUES, WINDOW, Averaged
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

SPREADS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0)
CLUSTERS = ("EQ-CLUSTER", "PPS-CLUSTER")
STORED, OTHER = "value of the stored rows", "value of the other stream"


def measure(seed: int, memory: float, span: float) -> list[Row]:
    streams = Averaged.frequency(SKEW, "UC", span, seed)
    return [
        {"approach": name, "of": STORED if alias == "a" else OTHER, "spread": spread, "error": error}
        for name, (policy, part) in streams.policies(memory).items()
        for (alias, spread), error in streams.errors(memory * part, policy, seed, PACE, SPREADS).items()
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    errors = pivot(rows, "of", "approach", "spread", of="error")
    claims = []
    for name in (*CLUSTERS, BY_FORMULA):
        gap = {s: each - errors[STORED]["UNIFORM"][s] for s, each in errors[STORED][name].items()}
        says = f"{STORED}: {name} degrades against UNIFORM as the spread grows; by how much it errs more"
        claim = "A6'" if name == BY_FORMULA else "A6"
        claims.append(Claim(claim, says, gap, all(gap[b] > gap[a] for a, b in pairwise(SPREADS))))
    ratio = {
        name: {s: each / errors[OTHER]["UNIFORM"][s] for s, each in errors[OTHER][name].items()}
        for name in CLUSTERS
    }
    wins = max(max(found.values()) for found in ratio.values()) < 1
    says = f"{OTHER}: cluster sampling wins; its error over UNIFORM's"
    return [*claims, Claim("A6", says, ratio, wins)]


EXPERIMENT = swept(
    "memory-sample-fig9",
    "Error of a windowed average against the spread of its values",
    ("A6", "A6'"),
    measure,
    full={"seed": range(8), "memory": 0.1, "span": 4000.0},
    quick={"seed": range(4), "span": 2000.0},
    assess=assess,
    plot=Lines("spread", "error", "approach", "of", "deviation over mean", "relative error"),
    fixed={"window": WINDOW, "values": VALUES, "order": "UC", "Zipf": SKEW, "evaluated": PACE},
)
