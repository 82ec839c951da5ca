"""Memory Fig. 8: the error of a windowed average against memory, for each way to sample.

Inversely correlated frequencies (Zipf 2, 50 values), r1 = 1, r2 = 5, W1 = 500, only rows of the first stream
are stored, and the value that is averaged is theirs: mean and deviation 100. UNIFORM and PPS-CLUSTER know
the frequencies, as in the paper; "UNIFORM, unbiased" learns them and loses nothing beyond what it expected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from matplotlib.figure import Figure

from windrow.lab.averages import average
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.memory_samples import VALUES, WINDOW, Averaged

SKEW, SPREAD = 2.0, 1.0
SPAN = {"full": 4000.0, "quick": 2000.0}
SEEDS = {"full": 4, "quick": 2}
MEMORY = {"full": (0.1, 0.3, 0.6, 0.9), "quick": (0.1, 0.5)}
PACE = "every 120 rows"
LINES = {"UNIFORM": "o-", "UNIFORM, unbiased": "o:", "EQ-CLUSTER": "v-", "PPS-CLUSTER": "s-"}


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "rates": (1, 5),
        "window": WINDOW,
        "aggregation window": WINDOW,
        "values": VALUES,
        "order": "IC",
        "Zipf": SKEW,
        "deviation over mean": SPREAD,
        "seconds": SPAN[size],
        "evaluated": PACE,
        "seeds": SEEDS[size],
    }


def tasks(size: Size) -> Sequence[tuple[Size, int, float]]:
    return [(size, seed, memory) for seed in range(SEEDS[size]) for memory in MEMORY[size]]


@lru_cache(maxsize=1)
def _streams(span: float, seed: int) -> Averaged:
    return Averaged.frequency(SKEW, "IC", span, seed)


def run(task: tuple[Size, int, float]) -> list[Row]:
    size, seed, memory = task
    streams = _streams(SPAN[size], seed)
    return [
        {
            "approach": name,
            "memory": memory,
            "seed": seed,
            "error": streams.errors(memory * rows, policy, seed, PACE, (SPREAD,))["a", SPREAD],
        }
        for name, (policy, rows) in streams.policies().items()
    ]


def assess(rows: Sequence[Row]) -> list[Claim]:
    errors = _errors(rows)
    equal, pps, uniform = (errors[name] for name in ("EQ-CLUSTER", "PPS-CLUSTER", "UNIFORM"))
    more = {memory: equal[memory] / pps[memory] for memory in pps}
    high = {memory: uniform[memory] / pps[memory] for memory in pps if memory > 0.1}
    claims = [
        Claim(
            "A5",
            "PPS-CLUSTER errs less than EQ-CLUSTER at each memory; EQ over PPS",
            more,
            min(more.values()) > 1,
        ),
        Claim(
            "A5",
            "above 10 % memory PPS-CLUSTER errs less than UNIFORM; UNIFORM over PPS",
            high,
            min(high.values()) > 1,
        ),
        Claim(
            "A5",
            "the error of UNIFORM does not go down to that of PPS-CLUSTER with the most memory",
            {name: found[max(found)] for name, found in errors.items()},
            uniform[max(uniform)] > pps[max(pps)],
        ),
    ]
    if len(pps) > len(MEMORY["quick"]):  # two runs are too few to tell
        low = uniform[0.1] / pps[0.1]
        claims.append(
            Claim("A5", "at 10 % memory UNIFORM errs less than PPS-CLUSTER; UNIFORM over PPS", low, low < 1)
        )
    return claims


def plot(rows: Sequence[Row], figure: Figure) -> None:
    axes = figure.subplots()
    for name, found in _errors(rows).items():
        axes.plot(
            [100 * m for m in sorted(found)], [found[m] for m in sorted(found)], LINES[name], label=name
        )
    axes.set(xlabel="memory (% of the window)", ylabel="relative error of the average", ylim=(0, None))
    axes.legend()


def _errors(rows: Sequence[Row]) -> dict[str, dict[float, float]]:
    found: dict[str, dict[float, float]] = {}
    for row in average(rows, by=("approach", "memory"), of=("error",)):
        found.setdefault(row["approach"], {})[row["memory"]] = row["error"]
    return found


EXPERIMENT = Experiment(
    "memory-sample-fig8",
    "Error of a windowed average against memory",
    ("A5",),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
