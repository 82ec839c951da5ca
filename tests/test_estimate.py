"""Aggregates from samples: unbiased, with intervals that hold what they promise."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from windrow.engine.sampled_aggregates import estimate
from windrow.errors import DataError, QueryError
from windrow.estimation.cluster_variance import cluster_variance

START = datetime(2024, 1, 1)
RUNS = 300


def table(rows: list[tuple], weight: list[float], cluster: list[int]) -> pa.Table:
    """Results from (seconds, seller, price)."""
    a = pa.array(
        [{"seller": seller} for _, seller, _ in rows],
        pa.struct({"seller": pa.string(), "shop": pa.list_(pa.int8())}),
    )
    bids = [{"bid_at": START + timedelta(seconds=s), "price": price} for s, _, price in rows]
    b = pa.array(bids, pa.struct({"bid_at": pa.timestamp("ms"), "price": pa.float32()}))
    return pa.table(
        {"a": a, "b": b, "weight": pa.array(weight, pa.float64()), "cluster": pa.array(cluster, pa.int64())}
    )


def minutes(sample: pa.Table, *arguments, **options) -> list[dict]:
    return estimate(sample, *arguments, **({"time": "b.bid_at", "window": "1 minute"} | options)).to_pylist()


ROWS = [(5, "x", 10.0), (30, "x", 20.0), (59, "y", 5.0), (60, "x", 1.0), (61, None, None)]
CERTAIN = table(ROWS, [1.0] * 5, [-1] * 5)
SAMPLED = table(ROWS, [4.0, 4.0, 2.0, 1.0, 1.0], [1, 1, 2, -1, -1])


def test_results_that_are_all_certain_are_aggregated_exactly() -> None:
    assert minutes(CERTAIN, "b.price", "sum", group_by="a.seller") == [
        {
            "window": START,
            "a.seller": "x",
            "estimate": 30.0,
            "low": 30.0,
            "high": 30.0,
            "rows": 2,
            "exact": True,
        },
        {
            "window": START,
            "a.seller": "y",
            "estimate": 5.0,
            "low": 5.0,
            "high": 5.0,
            "rows": 1,
            "exact": True,
        },
        row(1, "x", 1.0, 1),
        row(1, None, None, 0),
    ]
    assert [r["estimate"] for r in minutes(CERTAIN, "b.price", "avg")] == [35 / 3, 1.0]
    assert [r["estimate"] for r in minutes(CERTAIN)] == [3, 2]
    assert [r["estimate"] for r in minutes(CERTAIN, "b.price")] == [3, 1], (
        "a count of values leaves out nulls"
    )


def row(minute: int, seller: str | None, value: float | None, rows: int) -> dict:
    window = START + timedelta(minutes=minute)
    figures = dict.fromkeys(("estimate", "low", "high"), value)
    return {"window": window, "a.seller": seller, **figures, "rows": rows, "exact": True}


def test_weights_count_and_windows_without_chance_are_exact() -> None:
    first, second = minutes(SAMPLED, "b.price", "sum")
    assert (first["estimate"], first["rows"], first["exact"]) == (4 * 10 + 4 * 20 + 2 * 5, 3, False)
    assert first["low"] < first["estimate"] < first["high"]
    assert first["high"] - first["estimate"] == pytest.approx(first["estimate"] - first["low"])
    assert (second["estimate"], second["low"], second["high"], second["exact"]) == (1.0, 1.0, 1.0, True)
    assert minutes(SAMPLED, "b.price", "avg")[0]["estimate"] == pytest.approx(130 / 10)
    assert minutes(SAMPLED)[0]["estimate"] == 10


def test_a_group_of_certain_results_is_not_exact_if_its_window_was_sampled() -> None:
    """Another seller's results in the window were left to chance, so some of this one's may be missing."""
    sample = table(ROWS[:3], [1.0, 1.0, 2.0], [-1, -1, 2])
    assert [r["exact"] for r in minutes(sample, group_by=["a.seller"])] == [False, False]


def test_the_interval_of_a_count_does_not_exclude_what_was_seen() -> None:
    assert minutes(SAMPLED)[0]["low"] == 3


def test_an_average_of_one_sampled_cluster_has_no_interval() -> None:
    sample = table(ROWS[:2], [4.0, 4.0], [1, 1])
    only = minutes(sample, "b.price", "avg")[0]
    assert (only["estimate"], only["low"], only["high"]) == (15.0, None, None)


def test_a_wider_interval_for_more_confidence() -> None:
    width = [
        r["high"] - r["low"]
        for c in (0.5, 0.9, 0.99)
        for r in minutes(SAMPLED, "b.price", "sum", confidence=c)[:1]
    ]
    assert width == sorted(set(width))


def test_expressions_windows_and_zones() -> None:
    found = minutes(
        SAMPLED, "2 * b.price + 1", "sum", group_by=("upper(A.Seller)", "b.price > 8"), window="30 seconds"
    )
    assert [list(r.values())[:4] for r in found] == [
        [START, "X", True, 4 * 21.0],
        [START + timedelta(seconds=30), "X", True, 4 * 41.0],
        [START + timedelta(seconds=30), "Y", False, 2 * 11.0],
        [START + timedelta(seconds=60), "X", False, 3.0],
        [START + timedelta(seconds=60), None, None, None],
    ]
    zoned = estimate(SAMPLED, time="cast(b.bid_at as timestamptz)", window=timedelta(days=1))
    assert zoned["window"].to_pylist() == [START.replace(tzinfo=UTC)]
    early = estimate(SAMPLED, time="b.bid_at - interval '36524' day", window="1 minute")
    assert early["window"].to_pylist()[0] == datetime(1924, 1, 2)


def test_nothing_in_nothing_out() -> None:
    for aggregate in ("sum", "avg", "count"):
        empty = estimate(
            SAMPLED.slice(0, 0), "b.price", aggregate, time="b.bid_at", window="1 minute", group_by="a.seller"
        )
        full = estimate(
            SAMPLED, "b.price", aggregate, time="b.bid_at", window="1 minute", group_by="a.seller"
        )
        assert empty.num_rows == 0 and empty.schema == full.schema


def test_chunks_make_no_difference() -> None:
    cut = pa.concat_tables([SAMPLED.slice(0, 2), SAMPLED.slice(2, 1), SAMPLED.slice(3)])
    assert minutes(cut, "b.price", "avg") == minutes(SAMPLED, "b.price", "avg")


def test_a_value_that_is_not_finite_spoils_its_own_window_only() -> None:
    rows = [(0, "x", float("inf")), (70, "x", 2.0), (80, "x", 3.0)]
    sample = table(rows, [2.0, 2.0, 3.0], [0, 1, 2])
    for aggregate in ("sum", "avg"):
        first, second = minutes(sample, "b.price", aggregate)
        assert first["estimate"] == float("inf")
        assert second["low"] < second["estimate"] < second["high"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"value": "b.prize"},
            QueryError,
            "value: unknown column 'prize' of stream 'b'. Did you mean 'price'",
        ),
        ({"value": "c.price"}, QueryError, "value: unknown stream 'c'.*Available: a, b"),
        ({"value": "price"}, QueryError, "value: column 'price' names no stream"),
        ({"value": "b.price +"}, QueryError, "value: cannot parse"),
        ({"value": "a.seller"}, QueryError, "value: expected a number, got a.seller of type string"),
        ({"value": 3}, QueryError, "value: expected an expression such as 'b.price', got 3"),
        ({"value": None}, QueryError, "sum needs a value, such as value='b.price'"),
        ({"aggregate": "summ"}, QueryError, "unknown aggregate 'summ'. Did you mean 'sum'"),
        ({"confidence": 95}, QueryError, "confidence must be between 0 and 1, got 95"),
        ({"time": "b.price"}, QueryError, "time: expected a timestamp, got b.price of type float"),
        ({"time": "b.bid_ot"}, QueryError, "time: .*Did you mean 'bid_at'"),
        ({"time": "case when b.price > 5 then b.bid_at end"}, DataError, "is null in 3 results"),
        ({"window": "0 seconds"}, QueryError, "window: must be positive, got 0 seconds"),
        ({"window": "1 fortnight"}, QueryError, "window: unknown unit 'fortnight'"),
        ({"group_by": "a.buyer"}, QueryError, "group_by: unknown column 'buyer' of stream 'a'"),
        ({"group_by": "a.shop"}, QueryError, "group_by: cannot group by a.shop of type list"),
    ],
)
def test_a_wrong_question_is_refused(options: dict, error: type[Exception], message: str) -> None:
    asked = {"value": "b.price", "aggregate": "sum", "time": "b.bid_at", "window": "1 minute"}
    with pytest.raises(error, match=message):
        estimate(SAMPLED, **(asked | options))


def replaced(name: str, values: list) -> pa.Table:
    return SAMPLED.set_column(SAMPLED.column_names.index(name), name, pa.array(values))


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (SAMPLED.drop_columns("weight"), "no column 'weight' among a, b, cluster; sample the join"),
        (SAMPLED.drop_columns("cluster"), "no column 'cluster' among a, b, weight"),
        (replaced("weight", ["4"] * 5), "'weight' must hold a number in each row, got string"),
        (replaced("weight", [4.0, None, 1.0, 1.0, 1.0]), "'weight' must hold a number in each row"),
        (replaced("weight", [4.0, 0.5, 1.0, 1.0, 1.0]), "a weight is at least 1, got 0.5"),
        (replaced("weight", [4.0, float("nan"), 1.0, 1.0, 1.0]), "a weight is at least 1, got nan"),
        (SAMPLED.select(["weight", "cluster"]), "expected a struct per stream, got weight, cluster"),
        (replaced("cluster", [-1] * 5), "a certain result .cluster -1. has weight 1"),
    ],
)
def test_a_wrong_sample_is_refused(sample: pa.Table, message: str) -> None:
    with pytest.raises(DataError, match=message):
        minutes(sample)


def population() -> tuple[pa.Table, np.ndarray]:
    """600 clusters of very unequal sizes over two windows, and the chance of each to be sampled.

    The chance grows with the size; the largest are certain. Half of the value belongs to the cluster (the
    hard case for cluster sampling), half to the result.
    """
    random = np.random.default_rng(11)
    size = np.minimum(random.zipf(1.7, size=600), 60)
    cluster = np.repeat(np.arange(600), size)
    price = random.normal(100, 50, size=600)[cluster] + random.normal(0, 50, size=len(cluster))
    price = np.where(random.random(len(cluster)) < 0.05, np.nan, price)
    seconds = random.integers(0, 120, size=len(cluster)) * 1_000_000
    chance = np.minimum(1.0, 0.25 * size / size.mean() + 0.05)
    b = pa.StructArray.from_arrays(
        [pa.array(seconds, pa.timestamp("us")), pa.array(price, from_pandas=True)], ["bid_at", "price"]
    )
    a = pa.StructArray.from_arrays([pa.array(cluster % 2)], ["seller"])
    certain = chance[cluster] == 1
    columns = {"a": a, "b": b, "weight": 1 / chance[cluster], "cluster": np.where(certain, -1, cluster)}
    return pa.table(columns), chance


def whole_clusters(chance: np.ndarray, people: pa.Table, seed: int) -> pa.Table:
    drawn = np.random.default_rng(seed).random(len(chance)) < chance
    cluster = people["cluster"].to_numpy()
    return people.filter(pa.array((cluster == -1) | drawn[cluster]))


def single_results(chance: np.ndarray, people: pa.Table, seed: int) -> pa.Table:
    """UNIFORM: each result is a cluster of its own."""
    drawn = np.random.default_rng(seed).random(people.num_rows) < 0.2
    alone = people.drop_columns(["weight", "cluster"])
    alone = alone.append_column("weight", pa.array(np.full(len(drawn), 5.0)))
    return alone.append_column("cluster", pa.array(np.arange(len(drawn)))).filter(pa.array(drawn))


@pytest.mark.parametrize("draw", [whole_clusters, single_results])
@pytest.mark.parametrize("aggregate", ["sum", "count", "avg"])
def test_estimates_are_unbiased_and_intervals_hold(draw: Callable[..., pa.Table], aggregate: str) -> None:
    people, chance = population()
    asked = {
        "value": "b.price",
        "aggregate": aggregate,
        "time": "b.bid_at",
        "window": "1 minute",
        "group_by": "a.seller",
    }
    everyone = people.set_column(2, "weight", pa.array(np.ones(len(people))))
    truth = np.array(estimate(everyone, **asked)["estimate"])
    found = [estimate(draw(chance, people, seed), **asked) for seed in range(RUNS)]
    estimates, low, high = (
        np.array([f[name].to_numpy() for f in found]) for name in ("estimate", "low", "high")
    )
    assert estimates.shape == (RUNS, 4), "two windows of two sellers in each run"
    error = np.abs(estimates.mean(axis=0) - truth)
    assert (error < 4 * estimates.std(axis=0) / np.sqrt(RUNS)).all()
    covered = ((low <= truth) & (truth <= high)).mean(axis=0)
    assert (covered >= 0.90).all(), covered
    assert (covered < 1).any(), "intervals are not so wide that they say nothing"


def test_the_variance_is_unbiased_even_if_clusters_are_thinned() -> None:
    """Each cluster is kept with chance 1/2 at first and, half way, thinned to 1/6: later results weigh 6."""
    random = np.random.default_rng(5)
    cluster = np.repeat(np.arange(40), 6)
    value = random.normal(3, 2, size=240) + random.normal(0, 2, size=40)[cluster]
    weight = np.tile([2.0, 2.0, 2.0, 6.0, 6.0, 6.0], 40)
    sums, variances = [], []
    for _ in range(4_000):
        kept = random.random(40)[cluster] < 1 / weight
        part = (np.zeros(kept.sum(), np.int64), cluster[kept], weight[kept], value[kept])
        sums.append(weight[kept] @ value[kept])
        variances.append(cluster_variance(*part, 1).variance[0])
    assert np.mean(sums) == pytest.approx(value.sum(), rel=0.03)
    assert np.mean(variances) == pytest.approx(np.var(sums), rel=0.06)


def test_equal_weights_give_the_formula_for_whole_clusters() -> None:
    random = np.random.default_rng(2)
    cluster, value = random.integers(0, 9, size=50), random.normal(size=50)
    weight = random.uniform(1, 5, size=9)[cluster]
    totals = np.bincount(cluster, value)
    weights = np.array([weight[cluster == c][0] for c in range(9)])
    expected = ((1 - 1 / weights) * (weights * totals) ** 2).sum()
    assert cluster_variance(np.zeros(50, np.int64), cluster, weight, value, 1).variance[0] == pytest.approx(
        expected
    )
