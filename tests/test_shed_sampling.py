"""Samples under a memory limit: unbiased, inside the limit, the same whatever the quantum."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow.errors import QueryError
from windrow.kernels.row_sampling import FollowedRows, RowKeys, identify, init_row_sampling, uniforms
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.sampling import Cluster, PpsCluster, Uniform

SECOND = 1_000_000
WITHIN = "15 seconds"


def rows_of(seed: int, rows: int, keys: int, copies: int = 1, seconds: int = 60) -> pa.Table:
    """Rows of one stream, small keys more often. Copies come at the same instants, each with its own keys."""
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.choice(seconds * SECOND, rows, replace=False))
    key = (keys * rng.random(rows) ** 2).astype(np.int64)
    copy = np.tile(np.arange(copies), rows)
    return pa.table(
        {
            "ts": pa.array(np.repeat(ts, copies), pa.timestamp("us")),
            "k": np.repeat(key, copies) + keys * copy,
            "copy": copy,
            "x": np.repeat(rng.normal(10, 5, rows), copies),
        }
    )


def query(aliases: str, **more: Any) -> wr.Query:
    streams = {alias: wr.Stream("ts", WITHIN) for alias in aliases}
    on = " and ".join(f"{a}.k = {b}.k" for a, b in pairwise(aliases))
    return wr.Query(streams, on=on, **more)


def column(results: pa.Table, alias: str, name: str) -> np.ndarray:
    return results[alias].combine_chunks().field(name).to_numpy()


def sums(results: pa.Table, weight: np.ndarray, copies: int) -> np.ndarray:
    """Weighted count and weighted sum of a product, of each copy."""
    copy = column(results, "a", "copy")
    product = column(results, "a", "x") * column(results, "b", "x")
    return np.stack([np.bincount(copy, weight, copies), np.bincount(copy, weight * product, copies)])


# --- No sum is biased ------------------------------------------------------------------------------------

COPIES = 400
SMALL_QUANTA = "every 1 microseconds"
"""Each instant is a quantum: one row of each copy."""
TWO = [
    Cluster(),
    Cluster(p=1.0),
    Cluster(split="equal", margin=0),
    PpsCluster(),
    PpsCluster(p=0.3, split={"a": 1, "b": 3}),
    Uniform(),
    Uniform(p=0.3),
    Uniform(model="age", monitor_fraction=0.2),
    Uniform(reach=0, monitor_fraction=0.2),
]
THREE = [Cluster(), Cluster(p=1.0), PpsCluster()]


@pytest.mark.parametrize("evaluate", [None, SMALL_QUANTA])
@pytest.mark.parametrize(
    ("aliases", "policy"), [*(("ab", p) for p in TWO), *(("abc", p) for p in THREE)], ids=str
)
def test_weighted_sums_are_unbiased(aliases: str, policy: MemoryPolicy, evaluate: str | None) -> None:
    """Rows are drawn each for itself, so copies of a small join side by side are as many runs of it."""
    rows, keys = (32, 8) if aliases == "ab" else (24, 3)
    data = {alias: rows_of(5 + k, rows, keys, COPIES) for k, alias in enumerate(aliases)}
    exact = wr.Operator(query(aliases)).process(data)
    truth = sums(exact, np.ones(exact.num_rows), COPIES)[:, 0]
    limited = query(aliases, memory=f"{8 * COPIES} rows", shed=policy, evaluate=evaluate)
    operator = wr.Operator(limited)
    results = operator.process(data)
    assert operator.metrics().window_rows <= 8 * COPIES
    assert operator.metrics().rows_evicted > 0
    assert results.num_rows < 0.8 * exact.num_rows
    runs = sums(results, results["weight"].to_numpy(), COPIES)
    error = runs.std(axis=1, ddof=1) / np.sqrt(COPIES)
    assert (np.abs(runs.mean(axis=1) - truth) <= 3 * error).all(), (runs.mean(axis=1) - truth) / error


def test_the_sample_of_a_row_at_a_time_is_unbiased() -> None:
    """The same, with a quantum of one row and evictions at every step; copies follow each other in time."""
    copies, rows = 300, 4
    rng = np.random.default_rng(3)
    ts = (np.sort(rng.choice(15 * SECOND, (2, rows), replace=False)))[:, None, :]
    ts = ts + np.arange(copies)[None, :, None] * 60 * SECOND
    data = {
        alias: pa.table(
            {
                "ts": pa.array(ts[k].ravel(), pa.timestamp("us")),
                "k": np.ones(copies * rows, np.int64),
                "copy": np.repeat(np.arange(copies), rows),
                "x": np.tile(rng.normal(10, 5, rows), copies),
            }
        )
        for k, alias in enumerate("ab")
    }
    exact = wr.Operator(query("ab")).process(data)
    truth = sums(exact, np.ones(exact.num_rows), copies)[:, 0]
    limited = query("ab", memory="4 rows", shed=Cluster(p=1.0), evaluate="eager")
    results = wr.Operator(limited).process(data)
    runs = sums(results, results["weight"].to_numpy(), copies)
    error = runs.std(axis=1, ddof=1) / np.sqrt(copies)
    assert results.num_rows < 0.9 * exact.num_rows
    assert (np.abs(runs.mean(axis=1) - truth) <= 3 * error).all()


def test_the_paper_loses_what_a_row_brings_beyond_what_is_expected_of_it() -> None:
    """Without reach and monitored rows the sample is biased, as Memory says of a wrong n (s. 4.3)."""
    data = {alias: rows_of(k, 60, 8, 100) for k, alias in enumerate("ab")}
    exact = wr.Operator(query("ab")).process(data).num_rows
    policy = Uniform(reach=0, monitor_fraction=0, expected={a: dict.fromkeys(range(800), 2.0) for a in "ab"})
    results = wr.Operator(query("ab", memory="800 rows", shed=policy)).process(data)
    assert results["weight"].to_numpy().sum() < 0.8 * exact


# --- The same sample whatever the quantum ----------------------------------------------------------------


@pytest.mark.parametrize("aliases", ["ab", "abc"])
@pytest.mark.parametrize(
    "policy",
    [
        Cluster(p=0.3),
        PpsCluster(expected={a: {k: 2.0 - k / 8 for k in range(8)} for a in "abc"}),
        Uniform(p=0.3, monitor_fraction=0),
        Uniform(p=0.3, monitor_fraction=0, model="age", age_curves={"a": (3.0, 1.0), "b": (2.0,)}),
    ],
    ids=str,
)
def test_the_quantum_does_not_change_the_sample(aliases: str, policy: MemoryPolicy) -> None:
    if policy.name == "uniform" and aliases == "abc":
        return
    if isinstance(policy, PpsCluster):
        assert policy.expected is not None
        policy = PpsCluster(expected={a: policy.expected[a] for a in aliases})
    if isinstance(policy, Uniform) and policy.model is None:
        policy = Uniform(
            p=0.3, monitor_fraction=0, expected={a: dict.fromkeys(range(8), 4.0) for a in aliases}
        )
    data = {alias: rows_of(k, 80, 8) for k, alias in enumerate(aliases)}
    samples = []
    for evaluate in ("eager", "every 7 rows", "every 30 seconds", None):
        operator = wr.Operator(query(aliases, memory="1000 rows", shed=policy, evaluate=evaluate))
        results = operator.process(data)
        samples.append(results.flatten().sort_by([(f"{alias}.ts", "ascending") for alias in aliases]))
    exact = wr.Operator(query(aliases)).process(data).num_rows
    assert 0 < samples[0].num_rows <= exact
    for other in samples[1:]:
        assert other.equals(samples[0])


def test_a_row_outside_the_sample_is_not_used_in_its_own_quantum() -> None:
    data = {alias: rows_of(k, 200, 4) for k, alias in enumerate("ab")}
    operator = wr.Operator(query("ab", memory="1000 rows", shed=Cluster(p=0.1), evaluate="every 5 minutes"))
    results = operator.process(data)
    assert operator.metrics().sub_batches == 1
    stored = np.where(
        column(results, "a", "ts") <= column(results, "b", "ts"),
        column(results, "a", "ts"),
        column(results, "b", "ts"),
    )
    assert 20 < len(np.unique(stored)) < 60  # of 400
    assert (results["weight"].to_numpy() == 10.0).all()


def test_rows_that_come_late_count_by_arrival() -> None:
    """A row that was stored when a late, older one came had to be held for the result."""
    copies = 400
    early = rows_of(0, 10, 1, copies)
    shifted = pa.array(early["ts"].to_numpy().astype("datetime64[us]") - np.timedelta64(2, "s"))
    late = early.set_column(0, "ts", shifted)
    policy = Cluster(p=0.5)
    estimates = []
    for seed in range(3):
        operator = wr.Operator(query("ab", memory="100000 rows", shed=policy, late="1 minute", seed=seed))
        parts = [operator.process({"a": early, "b": early.slice(0, 0)}), operator.process({"b": late})]
        results = pa.concat_tables(parts)
        estimates.append(sums(results, results["weight"].to_numpy(), copies)[0])
    exact = wr.Operator(query("ab")).process({"a": early, "b": late}).num_rows / copies
    runs = np.concatenate(estimates)
    assert abs(runs.mean() - exact) <= 3 * runs.std(ddof=1) / np.sqrt(len(runs))


# --- Inside the limit, and adapting ----------------------------------------------------------------------


@pytest.mark.parametrize("policy", [Cluster(), PpsCluster(), Uniform(), Uniform(model="age")], ids=str)
def test_an_ample_limit_gives_everything_for_certain(policy: MemoryPolicy) -> None:
    data = {alias: rows_of(k, 100, 8) for k, alias in enumerate("ab")}
    exact = wr.Operator(query("ab")).process(data)
    operator = wr.Operator(query("ab", memory="10000 rows", shed=policy))
    results = operator.process(data)
    assert results.num_rows == exact.num_rows
    assert (results["weight"].to_numpy() == 1.0).all()
    assert (results["cluster"].to_numpy() == -1).all()
    quality = operator.metrics().quality
    assert (quality.recall, quality.recall_low, quality.recall_high, quality.sampling_fraction) == (
        1.0,
        1.0,
        1.0,
        1.0,
    )


@pytest.mark.parametrize("policy", [Cluster(), PpsCluster(), Uniform()], ids=str)
def test_the_sampled_part_follows_the_rates(policy: MemoryPolicy) -> None:
    operator = wr.Operator(query("ab", memory="400 rows", shed=policy))
    parts, held = [], []
    for at, rows in enumerate((400, 400, 1600, 1600, 400, 400)):
        data = {}
        for k, alias in enumerate("ab"):
            table = rows_of(at + k, rows, 20)
            ts = table["ts"].to_numpy().astype("datetime64[us]") + np.timedelta64(60 * at, "s")
            data[alias] = table.set_column(0, "ts", pa.array(ts))
        operator.process(data)
        measured = operator.metrics()
        assert measured.window_rows <= 400
        parts.append(measured.quality.sampling_fraction)
        held.append(measured.window_rows)
    assert parts[1] > 0.9 or policy.name == "uniform"
    assert parts[3] < 0.8 * parts[1]
    assert parts[5] > 1.25 * parts[3]
    assert min(held[1:]) > 0.4 * 200


def test_the_recall_and_its_interval() -> None:
    """Of 100 samples, the interval holds the true part in 90 or more."""
    data = {alias: rows_of(k, 200, 10) for k, alias in enumerate("ab")}
    exact = wr.Operator(query("ab")).process(data).num_rows
    inside = 0
    for seed in range(100):
        limited = query("ab", memory="40 rows", shed="cluster", seed=seed, evaluate="every 40 rows")
        operator = wr.Operator(limited)
        recall = operator.process(data).num_rows / exact
        measured = operator.metrics()
        inside += measured.recall_low <= recall <= measured.recall_high
    assert inside >= 90


def test_larger_clusters_are_sampled_more_often() -> None:
    data = {alias: rows_of(k, 2000, 100) for k, alias in enumerate("ab")}
    alike, pps = (
        wr.Operator(query("ab", memory="200 rows", shed=shed)).process(data)
        for shed in ("cluster", "pps-cluster")
    )
    assert pps.num_rows > 1.5 * alike.num_rows
    assert len(np.unique(pps["weight"].to_numpy().round(6))) > 10


def test_weights_and_clusters_are_what_an_estimate_needs() -> None:
    data = {alias: rows_of(k, 600, 20) for k, alias in enumerate("ab")}
    exact = wr.Operator(query("ab")).process(data).num_rows
    for shed in ("cluster", "pps-cluster", "uniform"):
        results = wr.Operator(query("ab", memory="120 rows", shed=shed)).process(data)
        (told,) = wr.estimate(results, time="a.ts", window="1 hour", confidence=0.999).to_pylist()
        assert told["low"] <= exact <= told["high"]
        assert told["high"] - told["low"] < exact
        assert not told["exact"]


# --- Errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: Cluster(p=0), "p: must be a fraction above 0 and up to 1, got 0"),
        (lambda: Uniform(p=1.5), "p: must be a fraction above 0"),
        (lambda: PpsCluster(margin=-1), "margin: must be a number of standard deviations, got -1"),
        (lambda: Cluster(half_life=0), "half_life: must be above 0"),
        (lambda: Uniform(model="agee"), "Did you mean 'age'"),
        (lambda: Uniform(reach=-1), "reach: must be"),
        (lambda: Uniform(age_bins=0), "age_bins: must be"),
        (lambda: Uniform(sketch_width=3), "sketch_width: must be"),
        (lambda: Uniform(model="age", monitor_fraction=0), "pass age_curves=... or set monitor_fraction"),
        (lambda: PpsCluster(expected={"a": {1: -2.0}}), "results by value, from 0 up"),
        (
            lambda: query("abc", memory="100 rows", shed="uniform"),
            "two streams, got 3: a, b, c; use 'cluster'",
        ),
        (lambda: query("ab", shed="cluster"), "pass memory="),
    ],
)
def test_wrong_settings_are_refused(wrong: Callable[[], object], told: str) -> None:
    with pytest.raises(QueryError, match=told.replace("(", r"\(")):
        wrong()


@pytest.mark.parametrize(
    ("shed", "told"),
    [
        (PpsCluster(expected={"c": {1: 2.0}}), "unknown stream 'c'"),
        (PpsCluster(expected={"a": {"x": 2.0}}), "give values of a.k"),
        (Uniform(model="age", age_curves={"c": (1.0,)}), "unknown stream 'c'"),
    ],
)
def test_settings_that_do_not_fit_the_streams_are_refused(shed: MemoryPolicy, told: str) -> None:
    with pytest.raises(QueryError, match=told):
        wr.Operator(query("ab", memory="10 rows", shed=shed), {a: rows_of(0, 1, 1).schema for a in "ab"})


def test_frequencies_need_a_key() -> None:
    streams = {alias: wr.Stream("ts", WITHIN) for alias in "ab"}
    schemas = {alias: rows_of(0, 1, 1).schema for alias in "ab"}
    band = "abs(a.x - b.x) <= 1"
    with pytest.raises(QueryError, match="needs an equality"):
        wr.Operator(wr.Query(streams, on=band, memory="10 rows", shed=Uniform(model="frequency")), schemas)
    data = {alias: rows_of(k, 100, 5) for k, alias in enumerate("ab")}
    for shed in ("uniform", "pps-cluster"):
        assert wr.Operator(wr.Query(streams, on=band, memory="20 rows", shed=shed)).process(data).num_rows


# --- Chances ---------------------------------------------------------------------------------------------


def test_chances_are_even_and_independent() -> None:
    numbers, ts = np.arange(40_000.0), np.zeros(40_000, np.int64)
    who = identify(RowKeys(1, numbers, ts, ts))
    assert len(np.unique(who)) == len(who)
    one, two = uniforms(who, 0), uniforms(who, 1)
    other = uniforms(identify(RowKeys(2, numbers, ts, ts)), 0)
    for drawn in (one, two, other):
        counts = np.histogram(drawn, 20, (0, 1))[0]
        assert ((counts - 2000) ** 2 / 2000).sum() < 44  # chi-square with 19 degrees of freedom, 0.1 %
    assert abs(np.corrcoef([one, two, other, numbers]) - np.eye(4)).max() < 0.02


def test_skips_are_geometric() -> None:
    zeros = np.zeros(40_000, np.int64)
    who = identify(RowKeys(3, np.arange(40_000.0), zeros, zeros))
    rows = FollowedRows(*np.zeros((7, len(who))))
    init_row_sampling(who, np.full(len(who), 100.0), 0.0, 1.0, 0.0, (-3, -1), rows)
    assert (rows.next == 1).all()
    init_row_sampling(who, np.full(len(who), 100.0), 0.0, 0.2, 0.0, (-3, -1), rows)
    drawn = rows.next
    assert drawn.min() == 1
    for k in range(1, 8):
        assert (drawn == k).mean() == pytest.approx(0.2 * 0.8 ** (k - 1), abs=0.008)
