"""`join` over batch DataFrames: the rows that one operator finds, whatever the partitioning."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import windrow as wr
from spark_tools import found, frame, in_process, rows, spark
from windrow.spark.join import join

pytestmark = pytest.mark.usefixtures("compiled")

TABLES = {"a": rows(1, 300), "b": rows(2, 300), "c": rows(3, 60)}


# A lambda goes to the workers as it is; a function of this module they could not import.
NEAR = {"near": lambda x, y: None not in (x, y) and abs(x - y) < 0.1}


def both(on: str, aliases: str = "ab", within="2 seconds", **options):
    """The answer of Spark and of the operator."""
    functions = options.get("functions") or {}
    query = wr.Query(
        {a: wr.Stream("ts", within) for a in aliases}, on, allow_cross_join=True, functions=functions
    )
    tables = {a: TABLES[a] for a in aliases}
    frames = {a: frame(t) for a, t in tables.items()}
    out = join(frames, on, "ts", within, **{"partitions": 4, "allow_cross_join": True, **options})
    return found(out), in_process(query, tables)


@pytest.mark.parametrize(
    ("on", "aliases", "options"),
    [
        ("a.k = b.k", "ab", {}),
        ("a.k = b.x", "ab", {}),  # int and double
        ("a.s = b.s", "ab", {}),
        ("a.k + 1 = b.x * 2", "ab", {}),
        ("cast(a.k as decimal(20, 2)) = cast(b.x as decimal(10, 3))", "ab", {}),
        ("a.k = b.k", "ab", {"skewed_keys": {"values": [3, 4], "splits": 4}}),
        ("a.k = b.k", "ab", {"partitioning": "grid", "partitions": 5}),
        ("abs(a.x - b.x) <= 0.25", "ab", {}),
        ("abs(a.k - b.k) < 2", "ab", {"partitioning": "range(1)"}),
        ("a.x between b.x - 1 and b.x + 1", "ab", {"partitions": 7}),
        ("abs(a.ts - b.ts) <= interval '300' millisecond", "ab", {}),
        ("a.k < b.k and a.s = 'x'", "ab", {}),
        (
            "near(a.x, b.x)",
            "ab",
            {"functions": NEAR},
        ),
        ("a.k = b.k and b.k = c.k", "abc", {}),
        ("a.k = b.k and abs(b.x - c.x) <= 1", "abc", {}),
        ("abs(a.x - b.x) <= 0.25 and abs(b.x - c.x) <= 1", "abc", {}),
        ("a.k = b.k and a.k < c.k", "abc", {"partitions": 6, "skewed_keys": {"values": [0], "splits": 2}}),
    ],
)
def test_every_partitioning_finds_each_result_once(on, aliases, options):
    got, want = both(on, aliases, **options)
    assert len(want) > 100
    assert got == want


@pytest.mark.parametrize("within", ["5 rows", "3 rows per key"])
def test_windows_counted_in_rows(within):
    got, want = both("a.k = b.k", within=within)
    assert len(want) > 100
    assert got == want


def test_the_answer_is_that_of_plain_sql():
    database = duckdb.connect()
    for alias in "ab":
        database.register(alias, TABLES[alias])
    want = database.sql("""select a.id, b.id from a join b on a.k = b.x
        and a.ts - b.ts <= interval 2 second and b.ts - a.ts <= interval 2 second""").fetchall()
    assert sorted(both("a.k = b.x")[0].elements()) == sorted(want)


def test_odd_floats_go_where_their_equals_go():
    odd = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e300, None, 2.0**53]
    table = TABLES["a"].slice(0, len(odd)).drop_columns(["x", "ts"])
    table = table.append_column("ts", pa.array([0] * len(odd), pa.timestamp("us", "UTC")))
    a = table.append_column("x", pa.array(odd, pa.float64()))
    b = table.append_column("x", pa.array(odd[::-1], pa.float64()))
    for on in ("a.x = b.x", "a.x between b.x - 1 and b.x + 1", "abs(a.x - b.x) <= 1"):
        query = wr.Query({s: wr.Stream("ts", "1 s") for s in "ab"}, on)
        out = join({"a": frame(a), "b": frame(b)}, on, "ts", "1 s", partitions=4)
        assert found(out) == in_process(query, {"a": a, "b": b}), on


def test_types_and_nullability_come_through():
    a = spark().range(3).selectExpr(
        "id", "timestamp_seconds(id) as ts", "cast(id as decimal(9,2)) as m", "date'2024-02-29' as d",
        "named_struct('name', 'x', 'list', array(1, 2)) as nest", "id % 2 = 0 as flag", "binary('y') as y",
    )  # fmt: skip
    out = join({"a": a, "b": a}, "a.m = b.id", "ts", "1 s", partitions=2)
    for alias in "ab":
        assert out.schema[alias].dataType == a.schema
    assert sorted(out.select("a.*").collect()) == sorted(a.collect())
    assert out.where(sf.col("a").isNull()).count() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on": "a.id = b.kk"}, r"unknown column 'kk' of stream 'b'"),
        ({"time": "tz"}, r"stream 'a': time: unknown column 'tz'. Did you mean 'ts'"),
        ({"time": "k"}, r"time column 'k' must be a timestamp"),
        ({"time": {"a": "ts"}}, r"time: stream 'b' is missing"),
        ({"within": {"a": "1 s", "B": "1 s"}}, r"within: unknown stream 'B'"),
        ({"partitions": 0}, r"partitions: must be a whole number of at least 1"),
        ({"partitioning": "kee"}, r"Did you mean 'key'"),
        ({"on": "a.k < 3 and b.k < 3"}, r"no condition links"),
    ],
)
def test_mistakes_are_told_before_any_data_is_read(options, message):
    frames = {"a": frame(TABLES["a"]), "b": frame(TABLES["b"])}
    with pytest.raises(wr.QueryError, match=message):
        join(frames, **{"on": "a.k = b.k", "time": "ts", "within": "1 s", **options})


def test_what_is_no_frame_is_refused():
    with pytest.raises(wr.QueryError, match=r"stream 'b': expected a Spark DataFrame, got pyarrow\.Table"):
        join({"a": frame(TABLES["a"]), "b": TABLES["b"]}, "a.k = b.k", "ts", "1 s")
    twice = frame(TABLES["a"]).selectExpr("ts", "k", "k")
    with pytest.raises(wr.QueryError, match="stream 'b': column 'k' occurs 2 times"):
        join({"a": frame(TABLES["a"]), "b": twice}, "a.k = b.k", "ts", "1 s")


@pytest.mark.parametrize(("compiled", "level"), [(True, "INFO"), (False, "WARNING")])
def test_it_says_why_the_first_batch_takes_longest(caplog, monkeypatch, compiled, level):
    monkeypatch.setattr("windrow.engine.compile_notice.is_compiled", lambda: compiled)
    caplog.set_level("INFO", "windrow")
    join({a: frame(TABLES[a]) for a in "ab"}, "a.k = b.k", "ts", "2 seconds")
    (said,) = caplog.records
    assert said.levelname == level
    assert said.message.startswith("the first batch takes longest: workers ")
