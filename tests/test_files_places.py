"""Values of files are hashed as by Spark. test_spark_routing.py compares where their rows go."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from spark_tools import spark
from windrow.spark.files.places import spark_hash


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


DECIMALS = [
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


def columns() -> dict[str, pa.Array]:
    """Values of every type, and of decimals of few and many digits."""
    made = {}
    for kind, values in VALUES.items():
        date = pa.types.is_date32(kind)
        made[str(kind)] = pa.array(values, pa.int32()).view(kind) if date else pa.array(values, kind)
    for digits in (5, 18, 19, 38):
        fitting = [str(n) for n in DECIMALS if abs(n) < 10**digits]
        made[f"decimal {digits}"] = pa.array([*fitting, None]).cast(pa.decimal128(digits, 0))
    return made


def test_every_type_is_hashed_as_by_spark():
    made = columns()
    longest = max(map(len, made.values()))
    padded = [
        pa.concat_arrays([column, pa.nulls(longest - len(column), column.type)]) for column in made.values()
    ]
    table = pa.table(padded, [f"c{n}" for n in range(len(made))])
    frame = spark().createDataFrame(table, from_arrow_schema(table.schema)).coalesce(1)
    want = frame.select(*(sf.xxhash64(name).alias(name) for name in table.column_names)).toArrow()
    for name, kind in zip(table.column_names, made, strict=True):
        assert hashed_here(table, [name]) == want[name].to_pylist(), kind


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
