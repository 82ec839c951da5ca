"""IJOIN, GREEDY and SIZE: against the paper's pseudocode, in batches, and when they compute."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from valued import IJOIN, PLAIN, SECOND, SPAN, by, every_second, feeds, held, query, ranking, timed, view
from windrow.eviction.policies.importance import RecomputeSchedule
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.baselines import Fifo
from windrow.model.policies.importance import Greedy, Importance, Size

# --- Against the paper's pseudocode ----------------------------------------------------------------------


@dataclass
class Stored:
    """A row with the metadata of s. 4.2."""

    ts: float
    k: int
    imp: float
    matches: list[float]
    prevmatch: float
    rp: float
    gone: float = math.inf


def ijoin(policy: Importance) -> Callable[[list[Stored], float, int], Stored]:
    """Algorithm 2."""
    tau, delta = (float(value) / SECOND for value in (policy.maturity, policy.unproductive))

    def choose(rows: list[Stored], now: float, decision: int) -> Stored:
        if policy.recompute == "successive" or decision % policy.k == 1:
            for row in rows:
                local = sum(math.exp(-policy.decay * (now - t)) for t in row.matches)
                row.rp = row.imp * local / max(now - row.ts, 1e-6)
                if now - row.prevmatch >= delta:
                    row.rp -= policy.penalty * (now - row.prevmatch)
        mature = [row for row in rows if now - row.ts > tau]
        return min(mature, key=lambda row: (row.rp, row.ts)) if mature else min(rows, key=lambda row: row.ts)

    return choose


def greedy(rows: list[Stored], now: float, decision: int) -> Stored:
    return min(rows, key=lambda row: (row.imp, -row.ts))


def size(rows: list[Stored], now: float, decision: int) -> Stored:
    return min(rows, key=lambda row: (len(row.matches), row.ts))


def by_the_book(
    tables: dict[str, pa.Table], slots: int, choose: Callable[[list[Stored], float, int], Stored]
) -> tuple[int, float, float]:
    """Results, their total importance (least of the rows) and Jain's index, one row at a time."""
    coming = {
        alias: list(zip(table["ts"].cast(pa.int64()).to_numpy() / SECOND, table.to_pylist(), strict=True))
        for alias, table in tables.items()
    }
    order = sorted((t, s, n) for s, alias in enumerate(coming) for n, (t, _) in enumerate(coming[alias]))
    aliases = list(coming)
    held: dict[str, list[Stored]] = {alias: [] for alias in aliases}
    following = dict.fromkeys(aliases, 0)
    decisions = dict.fromkeys(aliases, 0)
    lives: list[float] = []
    results, total = 0, 0.0
    for now, s, n in order:
        alias = aliases[s]
        following[alias] = n
        ahead = {a: coming[a][min(following[a], len(coming[a]) - 1)][0] for a in aliases}
        for a in aliases:
            horizon = min(ahead[o] for o in aliases if o != a) - SPAN
            lives += [SPAN] * sum(row.ts < horizon for row in held[a])
            held[a] = [row for row in held[a] if row.ts >= horizon]
        data = coming[alias][n][1]
        new = Stored(now, data["k"], data["imp"], [], now, data["imp"])
        held[alias].append(new)
        following[alias] = n + 1
        others = [[row for row in held[a] if row.k == new.k] for a in aliases if a != alias]
        for match in product([new], *others):
            if max(row.ts for row in match) - min(row.ts for row in match) > SPAN:
                continue
            results, total = results + 1, total + min(row.imp for row in match)
            for row in match:
                row.matches.append(now)
                row.prevmatch = now
        if len(held[alias]) > slots:
            decisions[alias] += 1
            gone = choose(held[alias], now, decisions[alias])
            held[alias].remove(gone)
            lives.append(now - gone.ts)
    fairness = sum(lives) ** 2 / (len(lives) * sum(life**2 for life in lives))
    return results, total, fairness


@pytest.mark.parametrize("aliases", ["ab", "abc"])
@pytest.mark.parametrize(
    ("policy", "choose"),
    [
        (IJOIN, ijoin(IJOIN)),
        (replace(IJOIN, recompute="k-successive", k=4), ijoin(replace(IJOIN, recompute="k-successive", k=4))),
        (replace(IJOIN, decay=0.0, penalty=0.0), ijoin(replace(IJOIN, decay=0.0, penalty=0.0))),
        (Greedy(**PLAIN), greedy),
        (Size(**PLAIN), size),
    ],
    ids=["ijoin", "k-successive", "global", "greedy", "size"],
)
def test_eager_is_the_papers_algorithm(aliases: str, policy: MemoryPolicy, choose: Callable) -> None:
    if not isinstance(policy, Size):
        policy = replace(policy, by=by(aliases))
    for seed in range(2):
        tables = feeds(aliases, 70, seed=seed)
        operator = wr.Operator(query(aliases, 5 * len(aliases), policy, evaluate="eager"))
        found = operator.process(tables)
        quality = operator.metrics().quality
        importance = sum(min(row[a]["imp"] for a in aliases) for row in found.to_pylist())
        results, total, fairness = by_the_book(tables, 5, choose)
        assert (found.num_rows, importance) == (results, pytest.approx(total))
        assert quality.fairness == pytest.approx(fairness, rel=1e-6)
        if not isinstance(policy, Size):
            assert quality.importance == pytest.approx(total)


def test_nobody_is_mature_so_the_oldest_go() -> None:
    tables = feeds("ab", 80)
    policies = (Fifo(**PLAIN), Importance(by=by("ab"), maturity="1 hour", **PLAIN))
    first, second = (wr.Operator(query("ab", 10, p, evaluate="eager")).process(tables) for p in policies)
    assert first.num_rows
    assert first.equals(second)


def test_an_unproductive_row_goes_and_may_redeem_itself() -> None:
    """Both rows of `a` match at once, and then one of them no more: it is the one to go, though it is the
    more important, unless it matches again."""
    policy = replace(IJOIN, by={"a": "a.imp"}, penalty=10.0, unproductive="3 seconds")

    def kept(redeemed: bool) -> list[int]:
        operator = wr.Operator(query("ab", 4, policy, evaluate="eager"))
        b_keys = [1, 2, 2, 2, 1 if redeemed else 2, 2]
        a = {"ts": [0, 0, 6], "k": [1, 2, 3], "imp": [30.0, 10.0, 1.0]}
        b = {"ts": [1, 1, 2, 3, 4, 5], "k": b_keys, "imp": [1.0] * 6}
        operator.process({alias: timed(table) for alias, table in (("a", a), ("b", b))})
        return held(operator, "a")["k"].to_pylist()

    assert kept(redeemed=False) == [2, 3]
    assert kept(redeemed=True) == [1, 3]


# --- Batches ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("evaluate", ["eager", "every 7 rows", "every 1000 rows"])
def test_matches_fade_the_same_in_batches(evaluate: str) -> None:
    """Eq. 7, however many rows are taken in at once."""
    tables = feeds("ab", 60, seed=3)
    operator = wr.Operator(query("ab", 1000, replace(IJOIN, by=by("ab")), evaluate=evaluate))
    operator.process(tables)
    now = max(int(t["ts"].cast(pa.int64()).to_numpy().max()) for t in tables.values()) / SECOND
    ts, k = ([t[name].to_numpy() for t in tables.values()] for name in ("ts", "k"))
    ts = [t.astype("datetime64[us]").astype(np.int64) / SECOND for t in ts]
    for stream in (0, 1):
        notes = view(operator, stream).row_state
        other = 1 - stream
        found = view(operator, stream).ts / SECOND
        for place, row in enumerate(np.searchsorted(ts[stream], found)):
            pairs = (k[other] == k[stream][row]) & (np.abs(ts[other] - ts[stream][row]) <= SPAN)
            times = np.maximum(ts[other][pairs], ts[stream][row])
            faded = notes["matches"][place] * math.exp(-0.1 * (now - notes["matched"][place] / SECOND))
            assert faded == pytest.approx(np.exp(-0.1 * (now - times)).sum())


@pytest.mark.parametrize(
    "shed", [replace(IJOIN, by=by("ab")), Greedy(by=by("ab"), **PLAIN), Importance(by=by("ab"))]
)
def test_batches_keep_what_is_important(shed: MemoryPolicy) -> None:
    tables = feeds("ab", 1500, keys=200)
    fifo = wr.Operator(query("ab", 160, Fifo(**PLAIN), within=300))
    important = wr.Operator(query("ab", 160, shed, within=300))
    plain = fifo.process(tables).to_pylist()
    important.process(tables)
    total = important.metrics().quality.importance
    assert total is not None
    assert total > 1.02 * sum(min(row["a"]["imp"], row["b"]["imp"]) for row in plain)


# --- When priorities are computed ------------------------------------------------------------------------


def test_schedules_count() -> None:
    assert [RecomputeSchedule("successive", 3, 0.1, 1).due(0) for _ in range(3)] == [True] * 3
    every_third = RecomputeSchedule("k-successive", 3, 0.1, 2)
    assert [every_third.due(n % 2) for n in range(12)] == [True, True, *[False] * 4, True, True, *[False] * 4]
    assert every_third.recomputed == 4
    assert [RecomputeSchedule("k-successive", 1, 0.1, 1).due(0) for _ in range(3)] == [True] * 3


def test_adaptive_computes_when_results_get_worse() -> None:
    schedule = RecomputeSchedule("adaptive", 10, 0.1, 1)
    due = []
    for importance in [10.0] * 40 + [20.0] * 40 + [0.0] * 10:
        schedule.evaluated(importance)
        due.append(schedule.due(0))
    assert due[0] and not any(due[1:80])
    assert 3 <= sum(due[80:]) <= 7


@pytest.mark.parametrize(("recompute", "share"), [("successive", 1.0), ("k-successive", 0.1)])
def test_recomputations_are_told(recompute: str, share: float) -> None:
    operator = wr.Operator(query("ab", 10, replace(IJOIN, recompute=recompute), evaluate="eager"))
    operator.process(every_second(200))
    measured = operator.metrics()
    assert measured.quality.priority_recomputations == pytest.approx(share * measured.rows_evicted, abs=2)


# --- Parameters that are not given -----------------------------------------------------------------------


def test_thresholds_follow_memory_and_rates() -> None:
    """5 rows of each stream at one a second: two seconds to mature, as in the paper's Table 5."""
    for memory, rate, wanted in ((10, 1, 2.0), (20, 1, 4.0), (20, 4, 1.0)):
        policy = Importance(by=by("ab"), **PLAIN)
        operator = wr.Operator(query("ab", memory, policy, evaluate="eager"))
        table = timed({"ts": [n / rate for n in range(120)], "k": [0] * 120, "imp": [1.0] * 120})
        operator.process({"a": table, "b": table})
        found: Any = ranking(operator)
        assert found._maturity(view(operator, 0)) == pytest.approx(wanted, rel=0.02)
        assert found._unproductive(view(operator, 0)) == pytest.approx(1.5 * wanted, rel=0.02)


def test_scale_of_importance_does_not_matter() -> None:
    tables = feeds("ab", 300)
    policies = [Importance(by={a: f"{factor} * {a}.imp" for a in "ab"}) for factor in (1.0, 1024.0)]
    first, second = (wr.Operator(query("ab", 20, p)).process(tables) for p in policies)
    assert first.equals(second)
