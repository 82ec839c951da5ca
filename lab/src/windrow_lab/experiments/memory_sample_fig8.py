"""Memory Fig. 8: the error of a windowed average against memory, for each way to sample.

Inversely correlated frequencies (Zipf 2, 50 values), r1 = 1, r2 = 5, W1 = 500, only rows of the first stream
are stored, and the value that is averaged is theirs: mean and deviation 100. UNIFORM and PPS-CLUSTER know
the frequencies, as in the paper; "UNIFORM, unbiased" learns them and loses nothing beyond what it expected.
PPS-CLUSTER is run with the iteration for p that a footnote of the paper mentions, and without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from windrow_lab.averages import pivot
from windrow_lab.experiment import Claim, Row
from windrow_lab.memory_samples import BY_FORMULA, VALUES, WINDOW, Averaged
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

SKEW, SPREAD = 2.0, 1.0
PACE = "every 120 rows"
LOW = 0.1


@lru_cache(maxsize=1)
def _streams(span: float, seed: int) -> Averaged:
    return Averaged.frequency(SKEW, "IC", span, seed)


def measure(seed: int, memory: float, span: float) -> list[Row]:
    streams = _streams(span, seed)
    return [
        {
            "approach": name,
            "error": streams.errors(memory * rows, policy, seed, PACE, (SPREAD,))["a", SPREAD],
        }
        for name, (policy, rows) in streams.policies(memory).items()
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    errors = pivot(rows, "approach", "memory", of="error")
    names = ("EQ-CLUSTER", "PPS-CLUSTER", BY_FORMULA, "UNIFORM")
    equal, pps, formula, uniform = (errors[name] for name in names)
    more = {memory: equal[memory] / each for memory, each in pps.items()}
    over = {memory: uniform[memory] / each for memory, each in pps.items()}
    high = {memory: each for memory, each in over.items() if memory > LOW}
    return [
        Claim("A5", "PPS-CLUSTER errs less than EQ-CLUSTER; EQ over PPS", more, min(more.values()) > 1),
        Claim("A5", "UNIFORM errs less than PPS at 10 % memory; UNIFORM over PPS", over[LOW], over[LOW] < 1),
        Claim(
            "A5'",
            "without the footnote's iteration for p, UNIFORM errs less than PPS at 10 % memory; over it",
            uniform[LOW] / formula[LOW],
            uniform[LOW] < formula[LOW],
        ),
        Claim("A5", "UNIFORM errs more at higher memory; UNIFORM over PPS", high, min(high.values()) > 1),
    ]


EXPERIMENT = swept(
    "memory-sample-fig8",
    "Error of a windowed average against memory",
    ("A5", "A5'"),
    measure,
    full={"seed": range(4), "memory": (LOW, 0.3, 0.6, 0.9), "span": 4000.0},
    quick={"seed": range(2), "memory": (LOW, 0.5), "span": 2000.0},
    assess=assess,
    plot=Lines("memory", "error", "approach", xlabel="memory, of the window", ylabel="relative error"),
    fixed={"window": WINDOW, "values": VALUES, "order": "IC", "Zipf": SKEW, "evaluated": PACE},
)
