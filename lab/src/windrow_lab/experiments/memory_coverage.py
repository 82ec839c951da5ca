"""Claim B4: how often the 95 % interval of the recall holds the true recall.

Every policy runs under 30 % of what whole windows hold, on streams of the frequency model, of the age model,
and on three streams; samples are judged by their results' number, as the others. Policies that know what
results are worth report the recall of that, too. Streams are short and windows small, so that the estimate
rests on a dozen shadow rows at a time: with more it is better.

The hard cases are streams whose results come in clumps: few keys make most of them, all the time (skewed) or
for a short while (bursts). Then a few rows lose most of what is lost, and often no shadow row is one of them.
And a stream that falls silent for nearly two windows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.importance import Greedy, Importance
from windrow.model.policies.learned import Auto
from windrow.model.policies.parse import POLICIES
from windrow_lab.clumped_streams import bursts, silence
from windrow_lab.coverage import covered
from windrow_lab.experiment import Claim, Row
from windrow_lab.memory import JoinWorkload
from windrow_lab.memory_streams import SHAPES, age_based, shared_key
from windrow_lab.plots import Bars
from windrow_lab.sweep import swept

PACE = "every 200 rows"
CASES: dict[str, Callable[[int], JoinWorkload]] = {
    "2 streams, frequencies": lambda seed: shared_key(2, 100, seed, 25, 20, 100, 0.8),
    "2 streams, ages": lambda seed: age_based([SHAPES["BELL"]], 250, seed, (10, 20), 100),
    "3 streams": lambda seed: shared_key(3, 60, seed, 30, 15, 150, 0.0),
    "2 streams, skewed": lambda seed: shared_key(2, 60, seed, 25, 20, 3000, 1.5),
    "2 streams, bursts": lambda seed: bursts(2, 100, seed, 25, 20),
    "2 streams, one silent": lambda seed: silence(120, seed, 25, 20, 300, 1.2, (40, 75)),
    "3 streams, skewed": lambda seed: shared_key(3, 45, seed, 16, 10, 1000, 1.3),
    "3 streams, bursts": lambda seed: bursts(3, 60, seed, 25, 12),
}
HARD = ("skewed", "bursts", "silent")
HARD_POLICIES = ("fifo", "random", "age", "frequency", "importance", "auto", "uniform", "cluster")
"""Policies of the hard cases."""


def measure(seed: int, case: str, memory: float) -> list[Row]:
    trace = CASES[case](seed)
    hard = case.endswith(HARD)
    return [
        {"kind": name if of == "results" else f"{name}: worth", "inside": low <= true <= high}
        | {"true": true, "low": low, "high": high}
        for name, policy in _policies(case, trace).items()
        if name in HARD_POLICIES or not hard
        for of, true, low, high in _reported(trace, memory, policy, seed)
    ]


def _policies(case: str, trace: JoinWorkload) -> dict[str, MemoryPolicy]:
    by = {alias: f"abs({alias}.k) % 10 + 1" for alias in trace.tables}
    given: dict[str, MemoryPolicy] = {
        "importance": Importance(by=by),
        "greedy": Greedy(by=by),
        "auto, by importance": Auto(by=by),
    }
    names = [name for name in POLICIES if name != "uniform" or not case.startswith("3 streams")]
    return {name: POLICIES[name]() for name in names if name not in given} | given


def _reported(
    trace: JoinWorkload, memory: float, policy: MemoryPolicy, seed: int
) -> list[tuple[str, float, float, float]]:
    """The true recall of one run and its interval: of results, and of importance where that is known."""
    found = trace.under(memory * trace.whole, policy, seed, PACE).measured
    true = found.results / trace.exact.measured.results
    reported = [("results", true, float(found.recall_low), float(found.recall_high))]
    quality = found.quality
    if quality.importance_recall is not None and getattr(policy, "by", None) is not None:
        whole = trace.under(4 * trace.whole, policy, seed, PACE).measured.quality.importance
        low, high = quality.importance_recall_low, quality.importance_recall_high
        assert whole and quality.importance is not None and low is not None and high is not None
        reported.append(("importance", quality.importance / whole, float(low), float(high)))
    return reported


def assess(rows: Sequence[Row]) -> list[Claim]:
    return covered("B4", rows)


EXPERIMENT = swept(
    "memory-coverage",
    "The true recall lies inside the reported interval",
    ("B4",),
    measure,
    full={"seed": range(100), "case": tuple(CASES), "memory": 0.3},
    quick={"seed": range(3)},
    assess=assess,
    plot=Bars("kind", "inside", panel="case", ylabel="part of the runs", axes={"ylim": (0, 1.05)}),
    fixed={"monitored": MemoryPolicy.monitor_fraction, "evaluated": PACE},
)
