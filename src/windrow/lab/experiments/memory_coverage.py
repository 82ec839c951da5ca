"""Claim B4: how often the 95 % interval of the recall holds the true recall.

Every policy runs under 30 % of what whole windows hold, on streams of the frequency model, of the age model,
and on three streams; samples are judged by their results' number, as the others. Policies that know what
results are worth tell the recall of that, too. Streams are short and windows small, so that the estimate
rests on a dozen ghosts at a time: with more it is better.

The hard cases are streams whose results come in clumps: few keys make most of them, all the time (skewed) or
for a short while (bursts). Then a few rows lose most of what is lost, and often no ghost is one of them. And
a stream that falls silent for nearly two windows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import binom

from windrow.lab.clumped_streams import bursts, silence
from windrow.lab.experiment import Claim, Experiment, Row, Size
from windrow.lab.memory import JoinWorkload
from windrow.lab.memory_streams import SHAPES, age_based, shared_key
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.baselines import POLICIES
from windrow.model.policies.importance import Greedy, Importance
from windrow.model.policies.learned import Auto

SEEDS = {"full": 100, "quick": 6}
MEMORY = 0.3
PACE = "every 200 rows"
HARD = (
    "2 streams, skewed",
    "2 streams, bursts",
    "2 streams, one silent",
    "3 streams, skewed",
    "3 streams, bursts",
)
CASES = ("2 streams, frequencies", "2 streams, ages", "3 streams", *HARD)
NAMES = ("fifo", "random", "age", "frequency", "importance", "auto", "uniform", "cluster")
"""Policies of the hard cases."""
QUICK = ("random", "auto", "importance", "cluster"), (*CASES[:3], "2 streams, bursts")
"""Policies and cases of the quick size."""


def parameters(size: Size) -> Mapping[str, Any]:
    return {
        "memory": MEMORY,
        "watched": MemoryPolicy.monitor,
        "evaluated": PACE,
        "seeds": SEEDS[size],
        "2 streams, frequencies": "20 rows/s each, windows of 20 s, 100 s, 100 values, Zipf 0.8",
        "2 streams, ages": "8 and 16 rows/s, BELL over a window of 100 s, 250 s",
        "3 streams": "24 rows/s each, windows of 15 s, 60 s, 150 values, uniform",
        "2 streams, skewed": "20 rows/s each, windows of 20 s, 60 s, 3000 values, Zipf 1.5",
        "2 streams, bursts": "20 rows/s each, windows of 20 s, 100 s; half of the rows have a key of their "
        "own, half one that stays for 0.2 to 0.6 windows; rows by key: Pareto with exponent 1.5",
        "2 streams, one silent": "20 rows/s each, windows of 20 s, 120 s; of one none from 40 to 75 s; "
        "300 values, Zipf 1.2",
        "3 streams, skewed": "13 rows/s each, windows of 10 s, 45 s, 1000 values, Zipf 1.3",
        "3 streams, bursts": "20 rows/s each, windows of 12 s, 60 s; as with 2",
    }


def tasks(size: Size) -> Sequence[tuple[Size, int]]:
    return [(size, seed) for seed in range(SEEDS[size])]


def run(task: tuple[Size, int]) -> list[Row]:
    size, seed = task
    rows = []
    for case in CASES if size == "full" else QUICK[1]:
        trace = _trace(case, seed)
        for name, policy in _policies(case, trace).items():
            if name in QUICK[0] or (size == "full" and (name in NAMES or case not in HARD)):
                common = {"case": case, "policy": name, "seed": seed}
                rows += [common | each for each in _reported(trace, policy, seed)]
    return rows


def _trace(case: str, seed: int) -> JoinWorkload:
    makes: dict[str, Callable[[], JoinWorkload]] = {
        "2 streams, frequencies": lambda: shared_key(2, 100, seed, 25, 20, 100, 0.8),
        "2 streams, ages": lambda: age_based([SHAPES["BELL"]], 250, seed, (10, 20), 100),
        "3 streams": lambda: shared_key(3, 60, seed, 30, 15, 150, 0.0),
        "2 streams, skewed": lambda: shared_key(2, 60, seed, 25, 20, 3000, 1.5),
        "2 streams, bursts": lambda: bursts(2, 100, seed, 25, 20),
        "2 streams, one silent": lambda: silence(120, seed, 25, 20, 300, 1.2, (40, 75)),
        "3 streams, skewed": lambda: shared_key(3, 45, seed, 16, 10, 1000, 1.3),
        "3 streams, bursts": lambda: bursts(3, 60, seed, 25, 12),
    }
    return makes[case]()


def _policies(case: str, trace: JoinWorkload) -> dict[str, MemoryPolicy]:
    by = {alias: f"abs({alias}.k) % 10 + 1" for alias in trace.tables}
    given: dict[str, MemoryPolicy] = {
        "importance": Importance(by=by),
        "greedy": Greedy(by=by),
        "auto, by importance": Auto(by=by),
    }
    names = [name for name in POLICIES if name != "uniform" or not case.startswith("3 streams")]
    return {name: POLICIES[name]() for name in names if name not in given} | given


def _reported(trace: JoinWorkload, policy: MemoryPolicy, seed: int) -> list[Row]:
    """The recall of one run, and its estimate."""
    found = trace.under(MEMORY * trace.whole, policy, seed, PACE).measured
    true = found.results / trace.exact.measured.results
    found_rows = [{"of": "results", "true": true, "told": found.recall}]
    found_rows[0] |= {"low": found.recall_low, "high": found.recall_high}
    quality = found.quality
    if quality.importance_recall is not None and getattr(policy, "by", None) is not None:
        whole = trace.under(4 * trace.whole, policy, seed, PACE).measured.quality.importance
        assert whole and quality.importance is not None
        importance = {
            "of": "importance",
            "true": quality.importance / whole,
            "told": quality.importance_recall,
        }
        found_rows.append(
            importance | {"low": quality.importance_recall_low, "high": quality.importance_recall_high}
        )
    return found_rows


def assess(rows: Sequence[Row]) -> list[Claim]:
    runs = len({row["seed"] for row in rows})
    least = enough(runs)
    claims = []
    for case in _cases(rows):
        inside = {
            name: sum(bool(row["low"] <= row["true"] <= row["high"]) for row in mine)
            for name, mine in _by_kind(rows, case).items()
        }
        claims.append(
            Claim(
                "B4",
                f"{case}: the true recall lies in the 95 % interval in at least {least} of {runs} runs",
                inside,
                min(inside.values()) >= least,
            )
        )
    return claims


def enough(runs: int) -> int:
    """Of 100 runs 90; of another number what true 95 % intervals miss no more often than that.

    >>> enough(100), enough(6)
    (90, 4)
    """
    return next(k for k in range(runs, -1, -1) if binom.cdf(k - 1, runs, 0.95) <= binom.cdf(89, 100, 0.95))


def plot(rows: Sequence[Row], figure: Figure) -> None:
    cases = _cases(rows)
    places = figure.subplots(-(-len(cases) // 4), min(4, len(cases)), sharex=True, squeeze=False).ravel()
    for axes, case in zip(places, cases, strict=False):
        kinds = _by_kind(rows, case)
        for place, mine in enumerate(kinds.values()):
            low, true, high = np.transpose([[row["low"], row["true"], row["high"]] for row in mine])
            axes.plot([low.mean(), high.mean()], [place, place], "C0-", lw=5, alpha=0.4)
            axes.plot(true.mean(), place, "k|", ms=9)
            part = float(((low <= true) & (true <= high)).mean())
            axes.text(1.02, place, f"{100 * part:.0f} %", va="center", fontsize=5)
        axes.set_yticks(range(len(kinds)), list(kinds), fontsize=5)
        axes.set_title(case, fontsize=8)
        axes.set(xlim=(0, 1.3))
    figure.supxlabel("recall: mean interval, truth, coverage", fontsize=8)


def _cases(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["case"] for row in rows))


def _by_kind(rows: Sequence[Row], case: str) -> dict[str, list[Row]]:
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        if row["case"] == case:
            name = row["policy"] if row["of"] == "results" else f"{row['policy']}: worth"
            kinds.setdefault(name, []).append(row)
    return kinds


EXPERIMENT = Experiment(
    "memory-coverage",
    "The true recall lies inside the reported interval",
    ("B4",),
    parameters,
    tasks,
    run,
    assess,
    plot,
)
