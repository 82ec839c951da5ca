"""Unknown is never 1: what is told of a recall where next to nothing stands behind it."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow.estimation.recall import UNKNOWN, batch_recall
from windrow.model.metrics import ResultCounts
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.parse import POLICIES

ROWS, SPAN, CALLS = 240, 60.0, 6
MONITORED = {"none": 0.0, "none is drawn": 1e-9, "as usual": 0.05}


def table(times: np.ndarray, keys: np.ndarray) -> pa.Table:
    at = pa.array((times * 1e6).astype(np.int64), pa.timestamp("us"))
    return pa.table({"at": at, "k": keys.astype(np.int64)})


def streams(case: str, seed: int = 0) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    times = {alias: np.sort(rng.uniform(0, SPAN, ROWS)) for alias in "ab"}
    keys = {alias: rng.integers(0, 12, ROWS) for alias in "ab"}
    if case == "a single result":
        keys = {"a": np.arange(ROWS), "b": np.arange(ROWS) + ROWS}
        keys["b"][np.searchsorted(times["b"], times["a"][ROWS // 3] + 5)] = ROWS // 3
    if case == "a stream that ends":
        early = times["a"] < SPAN / 3
        times["a"], keys["a"] = times["a"][early], keys["a"][early]
    if case == "an empty stream":
        times["a"], keys["a"] = np.empty(0), np.empty(0)
    return {alias: table(times[alias], keys[alias]) for alias in "ab"}


CASES = ("many results", "a single result", "a stream that ends", "an empty stream")


def counts(found: float, estimated: float, variance: float, weight: float = 0.0) -> ResultCounts:
    return ResultCounts(
        results_found=found,
        results_estimated=estimated,
        results_variance=variance,
        results_max_weight=weight,
    )


def policy(name: str, monitor: float) -> MemoryPolicy:
    given: dict[str, object] = {"by": {"a": "a.k + 1"}} if name in ("importance", "greedy") else {}
    if name == "age" and monitor == 0:
        given["age_curves"] = {"a": (1.0,), "b": (1.0,)}
    return POLICIES[name](monitor_fraction=monitor, **given)


def operator(rows: dict[str, pa.Table], memory: int, shed: MemoryPolicy | None) -> wr.Operator:
    limit = {} if shed is None else {"memory": f"{memory} rows", "shed": shed, "evaluate": "every 20 rows"}
    query = wr.Query({alias: wr.Stream("at", "15 s") for alias in rows}, on="a.k = b.k", **limit)
    return wr.Operator(query, {alias: part.schema for alias, part in rows.items()})


def calls(rows: dict[str, pa.Table]) -> list[dict[str, pa.Table]]:
    edges = np.linspace(0, SPAN * 1e6, CALLS + 1)
    found = []
    for low, high in pairwise(edges):
        times = {alias: part["at"].cast(pa.int64()).to_numpy() for alias, part in rows.items()}
        found.append({a: p.filter(pa.array((times[a] >= low) & (times[a] < high))) for a, p in rows.items()})
    return found


def exact(rows: dict[str, pa.Table]) -> int:
    return operator(rows, 0, None).process(rows).num_rows


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("case", CASES)
def test_the_interval_says_how_little_is_known(case: str, name: str) -> None:
    """Also where nearly everything is evicted, and in every call of a run."""
    rows = streams(case)
    true = exact(rows)
    for monitored in MONITORED.values():
        for memory in (2, 24):
            joined, found = operator(rows, memory, policy(name, monitored)), 0
            for call in calls(rows):
                found += joined.process(call).num_rows
            told = joined.metrics()
            recall = found / true if true else 1.0
            assert told.recall_low <= recall <= told.recall_high
            if not told.rows_evicted:
                continue
            assert told.recall != 1.0 and told.recall_low < 1.0
            if not POLICIES[name].samples and monitored < 0.01:
                assert math.isnan(told.recall) and (told.recall_low, told.recall_high) == (0.0, 1.0)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("monitored", MONITORED)
def test_sums_over_partitions_and_batches_keep_what_is_not_known(name: str, monitored: str) -> None:
    """As `spark.metrics` adds them up: rows of odd and even keys in partitions of their own."""
    whole = streams("many results")
    parts = [
        {a: t.filter(pa.compute.equal(pa.compute.bit_wise_and(t["k"], 1), odd)) for a, t in whole.items()}
        for odd in (0, 1)
    ]
    joins = [operator(part, 4, policy(name, MONITORED[monitored])) for part in parts]
    before = [join.metrics().quality for join in joins]
    all_sums, all_results = np.zeros(3), 0
    largest = 0.0
    for batch in zip(*map(calls, parts), strict=True):
        results = sum(join.process(call).num_rows for join, call in zip(joins, batch, strict=True))
        after = [join.metrics().quality for join in joins]
        sums = [
            sum(getattr(new, part) - getattr(old, part) for old, new in zip(before, after, strict=True))
            for part in ("results_found", "results_estimated", "results_variance")
        ]
        unit = max(quality.results_max_weight for quality in after)
        shed = sum(join.metrics().rows_evicted for join in joins)
        recall, low, _ = batch_recall(counts(*sums, unit), results, True)
        assert not shed or (recall != 1.0 and low < 1.0)
        before, all_results = after, all_results + results
        all_sums, largest = all_sums + np.array(sums), max(largest, unit)
    recall, low, high = batch_recall(counts(*all_sums.tolist(), largest), all_results, True)
    assert low <= all_results / exact(whole) <= high
    if not POLICIES[name].samples and monitored != "as usual":
        assert largest == UNKNOWN and math.isnan(recall)


def test_a_batch_without_results_or_sums_tells_nothing() -> None:
    assert batch_recall(counts(0, 0, 0), 0, True) == (1.0, 1.0, 1.0)  # nothing can have been lost yet
    assert math.isnan(batch_recall(counts(0, 0, 0, UNKNOWN), 0, True)[0])
    assert batch_recall(counts(10, 10, 0, UNKNOWN), 10, True)[1:] == (0.0, 1.0)
    # One partition that knows nothing among others that do.
    assert batch_recall(counts(1000, 1010, 20, max(1.0, UNKNOWN)), 1000, True)[1:] == (0.0, 1.0)


def test_without_a_limit_that_binds_the_recall_is_1() -> None:
    rows = streams("many results")
    for name in POLICIES:
        for monitored in MONITORED.values():
            joined = operator(rows, 4 * ROWS, policy(name, monitored))
            joined.process(rows)
            told = joined.metrics()
            if not told.rows_evicted:
                assert (told.recall, told.recall_low, told.recall_high) == (1.0, 1.0, 1.0)
                assert told.quality.results_found == told.quality.results_estimated == told.results
