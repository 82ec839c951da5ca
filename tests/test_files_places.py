"""Rows of files go where Spark would send the same rows: hashes and partitions compared value by value."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

import test_spark_routing as routing
from spark_tools import spark
from windrow.spark.files.packed_rows import place_finder
from windrow.spark.files.places import spark_hash
from windrow.spark.join import PreparedJoin

pytestmark = pytest.mark.usefixtures("uncompiled")


def hashed_by_spark(table: pa.Table, columns: list[str]) -> list[int]:
    frame = spark().createDataFrame(table, from_arrow_schema(table.schema)).coalesce(1)
    return [row[0] for row in frame.select(sf.xxhash64(*columns)).collect()]


def hashed_here(table: pa.Table, columns: list[str]) -> list[int]:
    batch = table.combine_chunks().to_batches()[0]
    return spark_hash([batch.column(c) for c in columns], batch.num_rows).tolist()


NUMBERS = [0, 1, -1, 7, 127, -128, None]
MORE = [255, 256, 32767, -32768, 2**31 - 1, -(2**31)]
LONGS = [2**31, -(2**31) - 1, 2**62, -(2**63), 2**63 - 1]
TEXTS = [
    "",
    "a",
    "abc",
    "abcd",
    "abcdefg",
    "abcdefgh",
    "é" * 5,
    "x" * 31,
    "y" * 32,
    "z" * 33,
    "w" * 100,
    None,
]
VALUES = {
    pa.bool_(): [True, False, None],
    pa.int8(): NUMBERS,
    pa.int16(): [*NUMBERS, *MORE[:4]],
    pa.int32(): [*NUMBERS, *MORE],
    pa.int64(): [*NUMBERS, *MORE, *LONGS],
    pa.float32(): [0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), float("-inf"), 1e-45, None],
    pa.float64(): [0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), float("-inf"), 5e-324, None],
    pa.date32(): [*NUMBERS, 20_000],
    pa.timestamp("us"): [*NUMBERS, *LONGS[:2]],
    pa.timestamp("us", "UTC"): [*NUMBERS, *LONGS[:2]],
    pa.duration("us"): [*NUMBERS, *LONGS[:2]],
    pa.string(): TEXTS,
    pa.binary(): [None if t is None else t.encode() for t in TEXTS],
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_every_type_is_hashed_as_by_spark(kind):
    values = VALUES[kind]
    given = pa.array(values, pa.int64()).cast(pa.int32()) if pa.types.is_date32(kind) else None
    column = given.view(kind) if given is not None else pa.array(values, kind)
    table = pa.table({"v": column})
    assert hashed_here(table, ["v"]) == hashed_by_spark(table, ["v"])


@pytest.mark.parametrize("digits", [5, 18, 19, 38])
def test_decimals_are_hashed_as_by_spark(digits):
    numbers = [
        0,
        1,
        -1,
        127,
        128,
        -128,
        -129,
        255,
        99_999,
        10**17,
        -(10**17),
        2**64,
        -(2**64),
        10**37,
        -(10**37),
    ]
    fitting = [n for n in numbers if abs(n) < 10**digits]
    values = pa.array([str(n) for n in fitting]).cast(pa.decimal128(digits, 0))
    table = pa.table({"v": pa.concat_arrays([values, pa.nulls(1, values.type)])})
    assert hashed_here(table, ["v"]) == hashed_by_spark(table, ["v"])


def test_columns_are_chained_and_slices_hashed_alike():
    random = np.random.default_rng(1)
    table = pa.table(
        {
            "k": pa.array(random.integers(-9, 9, 200), mask=random.random(200) < 0.2),
            "s": pa.array(
                random.choice([t for t in TEXTS if t is not None], 200), mask=random.random(200) < 0.2
            ),
            "x": pa.array(random.normal(size=200), mask=random.random(200) < 0.2),
        }
    )
    want = hashed_by_spark(table, ["s", "k", "x"])
    assert hashed_here(table, ["s", "k", "x"]) == want
    assert hashed_here(table.slice(17, 90), ["s", "k", "x"]) == want[17:107]


def found_here(case: PreparedJoin, number: int) -> Counter[tuple[int, int, int, int]]:
    went: Counter[tuple[int, int, int, int]] = Counter()
    for stream, frame in enumerate(case.frames):
        rows = routing.arrow(frame.alias).cast(frame.arrow).combine_chunks().to_batches()[0]
        starts, values = place_finder(case.join, case.layout, case.frames, stream).partitions(rows).listed
        for row, one in enumerate(rows.column("id").to_pylist()):
            went.update((number, stream, one, p) for p in values[starts[row] : starts[row + 1]].tolist())
    return went


def compare(cases: list[PreparedJoin]) -> None:
    want = routing.routes(cases)
    for number, case in enumerate(cases):
        here = found_here(case, number)
        there = Counter({key: n for key, n in want.items() if key[0] == number})
        assert here == there, f"{case}\nhere: {here - there}\nSpark: {there - here}"


def test_keys_go_where_spark_sends_them():
    compare([routing.prepared(on) for on in routing.KEYS])


def test_cells_and_their_neighbours_too():
    cases = [routing.prepared(on, partitioning="range") for on in routing.BANDS]
    compare([*cases, *(routing.prepared(on, partitioning="range(0.3)") for on in routing.BANDS[:6])])


def test_grids_of_two_dimensions_too():
    wanted = [routing.prepared(on, aliases, p) for on, aliases in routing.MANY for p in (2, 7)]
    compare([*wanted, routing.prepared("a.i < b.i + 1", partitioning="grid")])


def test_spread_values_too():
    spread = [
        routing.prepared(on, spread={"key": v, "ways": w}) for on, v in routing.SPREAD.items() for w in (2, 4)
    ]
    compare(spread)
