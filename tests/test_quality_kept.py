"""What is told of an answer stays true over restarts, and where little of it was seen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow.engine.operator import runner_of
from windrow_lab.clock import VirtualClock, WorkClock


def rows(seconds: Any, **columns: Any) -> pa.Table:
    times = (np.asarray(seconds) * 1e6).astype(np.int64)
    return pa.table({"ts": pa.array(times, pa.timestamp("us")), **columns})


def two(on: str = "a.k = b.k", within: str = "100 seconds", **options: Any) -> wr.Query:
    return wr.Query({alias: wr.Stream("ts", within) for alias in "ab"}, on, **options)


def slow(query: wr.Query, capacity: float, insertion: float = 0.0, blob: bytes | None = None) -> wr.Operator:
    """On a virtual machine of so many comparisons a second."""
    clock = WorkClock(VirtualClock(capacity, insertion))
    made = wr.Operator(query, clock=clock) if blob is None else wr.Operator.restore(query, blob, clock)
    clock.operator = made
    return made


def told(operator: wr.Operator) -> tuple[float, float, float]:
    measured = operator.metrics()
    return measured.recall, measured.recall_low, measured.recall_high


def test_to_have_found_nothing_is_not_to_have_lost_nothing_for_lack_of_memory() -> None:
    schemas, count = dict.fromkeys("ab", rows([], k=np.empty(0, np.int64)).schema), 500
    operator = wr.Operator(two(memory="20 rows", shed="fifo"), schemas)
    operator.process({"a": rows(np.arange(count) / 10, k=np.arange(count))})
    found = operator.process({"b": rows(50 + np.arange(count) / 100, k=np.arange(count))})
    assert found.num_rows == 0
    assert math.isnan(told(operator)[0]) and told(operator)[1:] == (0.0, 1.0)


def test_to_have_found_nothing_is_not_to_have_lost_nothing_for_lack_of_time() -> None:
    operator = slow(two("a.v > b.v + 1000", deadline="1 ms", shed="drop"), 100)
    for call in range(4):
        batch = rows(5 * call + np.arange(50) / 10, v=np.arange(50.0))
        operator.process({"a": batch, "b": batch})
    assert operator.metrics().rows_dropped > 0 and operator.metrics().results == 0
    assert math.isnan(told(operator)[0]) and told(operator)[1:] == (0.0, 1.0)


def test_a_restored_operator_knows_how_fast_rows_come() -> None:
    """From all that came, not from the few rows of the next call."""
    query = two(within="10 seconds")
    operator = wr.Operator(query)
    for call in range(4):
        batch = rows(10 * call + np.arange(1000) / 100, k=np.arange(1000))
        operator.process({"a": batch, "b": batch})
    before = operator.metrics()
    restored = wr.Operator.restore(query, operator.snapshot())
    assert restored.metrics().replans == before.replans
    restored.process(dict.fromkeys("ab", rows([40.0], k=[1])))
    for alias, stream in restored.metrics().streams.items():
        assert stream.rate == before.streams[alias].rate == pytest.approx(100, rel=0.01)


def test_rows_of_one_moment_are_not_a_million_a_second() -> None:
    operator = wr.Operator(two())
    operator.process({"a": rows([7.0], k=[1]), "b": rows([7.0] * 3, k=[1, 2, 3])})
    assert [s.rate for s in operator.metrics().streams.values()] == [1.0, 3.0]


def test_a_hopeless_deadline_is_told_even_if_the_join_moves_after_every_call() -> None:
    query, blob = two("a.v > b.v", deadline="1 ms"), None
    with pytest.warns(UserWarning, match=r"limit 0\.001 s|longer than 0\.001 s"):
        for call in range(10):
            operator = slow(query, 1_000, 1_000.0, blob)
            batch = rows(call + np.arange(50) / 50, v=np.arange(50.0))
            operator.process({"a": batch, "b": batch})
            blob = operator.snapshot()


def test_partitions_have_chances_of_their_own() -> None:
    """With the same in all of them they err alike, and together several times more than is told."""
    from windrow.spark.task import JoinTask

    seeds = [
        JoinTask(two(seed=seed), (), (), 4, "j", None).of(partition).query.seed
        for seed in range(3)
        for partition in range(4)
    ]
    assert len(set(seeds)) == 12


def test_rows_without_importance_count_once_however_often_they_are_judged() -> None:
    """By three documents, of which two are the same and one is of the past."""
    query = two(memory="200 rows", shed=wr.policies.Importance(by={"a": "a.w"}))
    batch = rows(np.arange(100) / 10, k=np.arange(100), w=pa.array([None, 1.0] * 50))
    operator = wr.Operator(query)
    operator.process({"a": batch, "b": batch})
    for at in (10_500_000, 10_500_000, 3):
        operator.control({"at": at, "importance": {"a": "a.w * 2"}})
    later = rows(11 + np.arange(10) / 10, k=np.arange(10), w=pa.array([None, 1.0] * 5))
    operator.process({"a": later, "b": later})
    assert operator.metrics().quality.rows_null_importance == 55


@pytest.mark.parametrize("unit", [1, 3600])
def test_lags_are_learned_anew_when_counted_windows_come_to_cover_more_time(unit: int) -> None:
    """600 rows come in the first two seconds, and then in thirty; rows that match lie twenty apart. Or hours:
    what was learned fades with the time that windows cover."""
    rng = np.random.default_rng(0)
    calls: list[dict[str, pa.Table]] = [{} for _ in range(90)]
    for alias, ahead in (("a", 0), ("b", 20)):
        times = np.sort(np.concatenate([rng.uniform(0, 2, 600), rng.uniform(2, 90, 20 * 88)]))
        values = (5 * (times + ahead) + rng.standard_normal(len(times))) % 1000
        for second, call in enumerate(calls):
            chosen = (times >= second) & (times < second + 1)
            call[alias] = rows(times[chosen] * unit, v=values[chosen])
    streams = {alias: wr.Stream("ts", "600 rows", "scan") for alias in "ab"}
    found = []
    for limits in ({}, {"deadline": "1 second"}):
        operator = slow(wr.Query(streams, "abs(a.v - b.v) <= 1", **limits), 6_000)
        found.append([operator.process(call).num_rows for call in calls])
    exact, harvested = (sum(counts[45:]) for counts in found)
    assert operator.metrics().throttle_fraction < 0.6
    assert harvested > 0.75 * exact


def test_a_restored_operator_keeps_the_memory_it_was_given_last() -> None:
    """As `wr.allocate` divides it; unless the query itself says something else by now."""
    batch = rows(np.arange(100) / 10, k=np.arange(100))
    operator = wr.Operator(two(memory="80 rows"))
    operator.process({"a": batch, "b": batch})
    runner_of(operator).set_memory_limit(wr.types.MemoryLimit("rows", 30))
    later = rows(10 + np.arange(50) / 10, k=np.arange(50))
    for memory, most in (("80 rows", 30), ("60 rows", 60)):
        restored = wr.Operator.restore(two(memory=memory), operator.snapshot())
        restored.process({"a": later, "b": later})
        assert most - 10 < restored.metrics().window_rows <= most


def test_a_uniform_sample_of_rows_that_had_to_go_tells_how_unsure_it_is() -> None:
    """Where most rows go whatever they may bring, results come or stay away with their rows, in clumps."""
    inside = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        calls = [{a: rows([5.0] * 80, k=rng.integers(0, 50, 80)) for a in "ab"} for _ in range(8)]
        exact = wr.Operator(two())
        sampled = wr.Operator(two(memory="60 rows", shed="uniform", seed=seed))
        true, found = (sum(op.process(call).num_rows for call in calls) for op in (exact, sampled))
        _, low, high = told(sampled)
        inside += low <= found / true <= high
    assert inside >= 10


@pytest.mark.parametrize("policy", ["fifo", "random", "auto"])
def test_rows_that_were_pushed_out_take_no_memory_from_others(policy: str) -> None:
    """Twenty keys of each stream, of which one row each can join: forty rows are all there is to hold."""
    streams = {alias: wr.Stream("ts", "1 rows per key") for alias in "ab"}
    exact = wr.Operator(wr.Query(streams, "a.k = b.k"))
    limited = wr.Operator(wr.Query(streams, "a.k = b.k", memory="60 rows", shed=policy))
    rng = np.random.default_rng(0)
    for call in range(10):
        times = call + np.arange(100) / 100
        tables = {alias: rows(times, k=np.minimum(rng.zipf(1.3, 100), 20)) for alias in "ab"}
        assert limited.process(tables).num_rows == exact.process(tables).num_rows
    measured = limited.metrics()
    assert (measured.recall, measured.recall_low, measured.rows_evicted) == (1.0, 1.0, 0)
    assert sum(s.rows_expired for s in measured.streams.values()) + measured.window_rows == 2000
