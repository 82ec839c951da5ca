"""Claims B2 and B3: every policy beside what a clairvoyant one could reach, and AUTO beside all others.

Streams of the age model (rising, falling and bell-shaped curves), of the frequency model (the same values
frequent on both streams, opposite ones, neither), a key that both streams store, keys that are worth
differently, and a mix of our own (`memory_streams.mixed`: half of the rows have keys by Zipf's law, the
others refer to a row of half a window ago, so that neither age nor frequency alone shows which rows matter).
Recall counts from the third window on, when policies have learned; for the fraction of the optimum the whole
run counts. Where results are worth differently recall is that of their worth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.importance import Greedy, Importance
from windrow.model.policies.learned import Auto
from windrow.model.policies.parse import POLICIES
from windrow_lab.averages import pivot
from windrow_lab.clairvoyant import ResultTrace, clairvoyant
from windrow_lab.experiment import Claim, Row
from windrow_lab.memory import JoinWorkload, RunResults
from windrow_lab.memory_streams import SHAPES, age_based, frequency_based, mixed, shared_key
from windrow_lab.plots import Bars
from windrow_lab.sweep import swept
from windrow_lab.timed_rows import seconds

MEMORY = 0.3
ORDERS = ("DC", "IC", "UC")
WORTH, MIXED = "worth by key", "mixed"
PLAIN = ("auto", "age", "frequency", "fifo", "random", "until-expiry", "size")
WITHIN = 0.02
"""How far AUTO may lie behind the best, as a part of it."""


def trace_of(workload: str, seed: int, part: float) -> tuple[JoinWorkload, int]:
    """The streams, for a part of the full time, and after how many rows of both the limit is applied."""
    if workload in SHAPES:
        return age_based([SHAPES[workload]], 800 * part, seed, (5, 25), 100), 120
    if workload in ORDERS:
        return frequency_based(1.0, workload, 800 * part, seed, (5, 5), 100, 200), 40
    if workload == MIXED:
        return mixed(2000 * part, seed), 64
    return shared_key(2, 400 * part, seed, 5, 50, 200, 1.0), 40


def measure(workload: str, part: float, seed: int) -> list[Row]:
    trace, pace = trace_of(workload, seed, part)
    limit, since = MEMORY * trace.whole, 3 * max(trace.windows.values())
    policies: dict[str, MemoryPolicy] = {name: POLICIES[name]() for name in PLAIN}
    if workload == WORTH:
        by = {alias: f"{alias}.k % 10 + 1" for alias in "ab"}
        policies |= {"auto": Auto(by=by), "importance": Importance(by=by), "greedy": Greedy(by=by)}
    best = _optimum(trace, round(limit), pace, workload == WORTH)
    rows = []
    for name, policy in policies.items():
        found = trace.under(limit, policy, seed, f"every {pace} rows")
        recall = _worth(trace, found, since, workload) / _worth(trace, trace.exact, since, workload)
        fraction = _worth(trace, found, 0.0, workload) / best
        rows.append({"policy": name, "recall": recall, "fraction": fraction})
    return rows


def _worth(trace: JoinWorkload, found: RunResults, since: float, workload: str) -> float:
    """Of the results from a time on."""
    if workload != WORTH:
        return float(found.count(since))
    # A result's key is that of its row of `a`, which is known by its time.
    came = seconds(trace.tables["a"])
    row = np.rint(np.interp(found.times - found.ages["a"], came, np.arange(len(came)))).astype(np.int64)
    key = trace.tables["a"]["k"].to_numpy()[row]
    return float((key % 10 + 1)[found.times >= since].sum())


def _optimum(trace: JoinWorkload, limit: int, pace: int, worth: bool) -> float:
    """The most results, or worth, that a policy which knew the future could have."""
    times = [seconds(trace.tables[alias]) for alias in "ab"]
    keys = np.concatenate([trace.tables[alias]["k"].to_numpy() for alias in "ab"])
    order = np.argsort(np.concatenate(times), kind="stable")
    stream = np.repeat((0, 1), [len(ts) for ts in times])[order]
    micros = np.rint(np.concatenate(times)[order] * 1e6).astype(np.int64)
    within = tuple(round(trace.windows[alias] * 1e6) for alias in "ab")
    arrivals = ResultTrace.equal_keys(
        micros, stream, keys[order], (within[0], within[1]), np.arange(len(order)) // pace
    )
    weights = keys[order][arrivals.earlier] % 10 + 1.0 if worth else None
    return clairvoyant(arrivals, (limit, 1) if trace.probing else limit, weights).total


def assess(rows: Sequence[Row]) -> list[Claim]:
    fractions, recalls = (pivot(rows, "workload", "policy", of=name) for name in ("fraction", "recall"))
    best = {w: max(found, key=lambda name: found[name]) for w, found in fractions.items()}
    behind = {
        w: 1 - found["auto"] / max(r for name, r in found.items() if name != "auto")
        for w, found in recalls.items()
    }
    others = {w: gap for w, gap in behind.items() if w != MIXED}
    return [
        Claim(
            "B2",
            "every policy has a fraction of the clairvoyant optimum on every workload; the best policy's",
            {w: f"{fractions[w][name]:.3f} ({name})" for w, name in best.items()},
            all(set(PLAIN) <= set(found) for found in fractions.values())
            and all(0 < part <= 1 for found in fractions.values() for part in found.values()),
        ),
        Claim(
            "B3",
            f"AUTO is within {WITHIN:.0%} of the best other policy on each workload; behind by a part of",
            others,
            max(others.values()) <= WITHIN,
        ),
        Claim(
            "B3",
            "AUTO is ahead of all others on the mixed streams; recalls",
            recalls[MIXED],
            behind[MIXED] < 0,
        ),
    ]


EXPERIMENT = swept(
    "memory-optimum",
    "Policies beside the clairvoyant optimum",
    ("B2", "B3"),
    measure,
    full={"workload": (*SHAPES, *ORDERS, "shared key", WORTH, MIXED), "part": 1.0, "seed": range(3)},
    quick={"part": 0.5, "seed": 0},
    assess=assess,
    plot=Bars("workload", "fraction", "policy", ylabel="part of the clairvoyant optimum"),
    fixed={"memory": MEMORY},
)
