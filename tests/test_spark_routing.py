"""Where rows go: the rows of every result meet in exactly one partition, whatever they are joined on; rows of
files go where Spark sends the same rows."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache, reduce

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

import windrow as wr
from flows import SCHEMA, VALUES
from results import ids
from spark_tools import spark
from windrow.model.execution import Execution
from windrow.spark.join import PreparedJoin, prepare
from windrow.spark.layout_encoding import read_layout, stored_layout
from windrow.spark.routing import Router, place_finder
from windrow.state.layout import StoredLayout

EXTRA = {
    "c": "collate(s, 'UTF8_LCASE')",
    "span": "make_dt_interval(0, 0, 0, i)",
}
"""Columns of types that files do not bring."""

KEYS = [
    "a.s = lower(b.s)",
    "upper(a.s) = b.s",
    "a.s = substr(b.s, 1, 1)",
    "trim(a.s) = b.s",
    "cast(a.i as string) = replace(b.s, 'x', '1')",
    "a.d = cast(b.w as date)",
    "cast(a.z as date) = b.d",
    "a.d = b.w",
    "a.w = cast(b.d as timestamp)",
    "a.z = cast(b.w as timestamptz)",
    "a.flag = (b.i > 0)",
    "(not a.flag) = b.flag",
    "a.y = cast(b.s as binary)",
    "a.i = b.j + 1",
    "a.h = b.i",
    "a.h * 2 = b.j",
    "a.i = b.f",
    "a.f = 0 - b.f",
    "a.g = b.f",
    "a.g = cast(b.g as double)",
    "a.m = b.q",
    "a.m = b.i",
    "a.m = b.f",
    "a.m + 1 = b.m",
    "a.e = b.i",
    "a.e = b.m",
    "a.e = b.e",
    "a.e = b.m + 1",
    "a.w = b.w",
    "a.z = b.z",
    "a.flag = b.flag",
    "a.y = b.y",
    "a.c = b.c",
    "a.c = b.s",
    "a.c = lower(b.s)",
    "a.span = b.span",
]
BANDS = [
    "abs(a.m - b.q) <= 1.5",
    "abs(a.m - b.j) <= 1",
    "abs(a.i - (b.j + 1)) <= 1",
    "abs((a.i + 1) - b.f) <= 0.5",
    "abs(a.m - b.f) <= 0.5",
    "abs(a.g - b.f) <= 0.25",
    "abs(a.w - b.w) <= interval '1' day",
    "abs(a.z - cast(b.w as timestamptz)) <= interval '1' hour",
    "abs(a.d - b.d) <= interval '1' day",
    "a.f between b.f - 1 and b.f + 1",
    "abs(a.span - b.span) <= interval '1' second",
]
MANY = [
    ("a.i = b.i + 1 and b.i = c.i + 1", "abc"),
    ("a.i = b.i + 1 and abs(b.f - (c.i + 1)) <= 1", "abc"),
    ("a.s = lower(b.s) and b.s = upper(c.s)", "abc"),
    ("a.i = b.i and abs(a.i - (b.i + 1)) <= 3 and b.j = c.j", "abc"),
]


def table(alias: str) -> pa.Table:
    """Every pair of values, and nothing, in some row."""
    longest = 2 * max(len(values) for values in VALUES.values())
    shift = "abc".index(alias)
    rows = []
    for n in range(longest):
        row = {"id": n, "ts": datetime(2024, 1, 1)}
        rows.append(row | {k: [*v, None][(n + shift) % (len(v) + 1)] for k, v in VALUES.items()})
    return pa.Table.from_pylist(rows, SCHEMA)


@cache
def frame(alias: str) -> DataFrame:
    more = [f"{sql} as {name}" for name, sql in EXTRA.items()]
    plain = spark().createDataFrame(table(alias), from_arrow_schema(SCHEMA)).coalesce(1)
    return plain.selectExpr("*", *more).cache()


@cache
def arrow(alias: str) -> pa.Table:
    return frame(alias).toArrow()


def prepared(on: str, aliases: str = "ab", partitions: int = 8, **options) -> PreparedJoin:
    query = wr.Query({a: wr.Stream("ts", "1 s") for a in aliases}, on, allow_cross_join=True)
    return prepare({a: frame(a) for a in aliases}, query, Execution(partitions, **options))


def union(frames: list[DataFrame]) -> DataFrame:
    """By halves: Spark looks through the whole plan with every union."""
    while len(frames) > 1:
        frames = [reduce(DataFrame.union, frames[at : at + 2]) for at in range(0, len(frames), 2)]
    return frames[0]


def routes(cases: list[PreparedJoin]) -> Counter[tuple[int, int, int, int]]:
    """How often each row of each stream of each case goes to a partition, found in one job."""
    parts = []
    for number, case in enumerate(cases):
        for stream in range(len(case.frames)):
            finder = place_finder(case.join, case.layout, case.frames[stream], stream)
            router = Router(finder, case.frames[stream], case.layout.replicates)
            at = router.partitions()
            to = at if case.layout.replicates else sf.array(at)
            parts.append(
                router.rows().select(sf.lit(number), sf.lit(stream), sf.col("id"), sf.explode(to).alias("p"))
            )
    return Counter(tuple(row) for row in union(parts).coalesce(1).collect())


def answer(case: PreparedJoin) -> Counter[tuple]:
    op = wr.Operator(case.query, dict(zip(case.query.aliases, [f.arrow for f in case.frames], strict=True)))
    return ids(op.process({f.alias: arrow(f.alias).cast(f.arrow) for f in case.frames}))


def routes_of_files(case: PreparedJoin, number: int) -> Counter[tuple[int, int, int, int]]:
    """As `routes`, by the code that sends rows of files."""
    went: Counter[tuple[int, int, int, int]] = Counter()
    for stream, frame in enumerate(case.frames):
        rows = arrow(frame.alias).cast(frame.arrow).combine_chunks().to_batches()[0]
        starts, values = place_finder(case.join, case.layout, frame, stream).partitions(rows).listed
        for row, one in enumerate(rows.column("id").to_pylist()):
            went.update((number, stream, one, p) for p in values[starts[row] : starts[row + 1]].tolist())
    return went


def check(cases: list[PreparedJoin]) -> Counter[tuple[int, int, int, int]]:
    """Every result's rows meet once. Returns where they went."""
    went = routes(cases)
    for number, case in enumerate(cases):
        files = routes_of_files(case, number)
        spark = Counter({key: n for key, n in went.items() if key[0] == number})
        assert files == spark, f"{case}\nfiles: {files - spark}\nSpark: {spark - files}"
    assert set(went.values()) == {1}, "a row goes to a partition twice"
    to: dict[tuple[int, int, int], set[int]] = {}
    for number, stream, row, partition in went:
        to.setdefault((number, stream, row), set()).add(partition)
    for number, case in enumerate(cases):
        results = answer(case)
        assert results, str(case)
        for result in results:
            meet = set.intersection(*(to[number, stream, row] for stream, row in enumerate(result)))
            assert len(meet) == 1, f"{case}\n{result} meet in {meet}"
    return went


def test_equal_keys_meet():
    cases = [prepared(on) for on in KEYS]
    assert all(case.layout.dimensions[0].kind == "key" for case in cases)
    check(cases)


def test_near_values_meet():
    cases = [prepared(on, partitioning="range") for on in BANDS]
    check([*cases, *(prepared(on, partitioning="range(0.3)") for on in BANDS[:6])])


def test_any_layout_takes_any_key():
    wanted = [prepared(on, aliases, partitions) for on, aliases in MANY for partitions in (2, 7)]
    wanted += [prepared(on, aliases, 7, partitioning="key") for on, aliases in MANY]
    grids = [prepared(on, partitioning="grid") for on in (KEYS[0], BANDS[2])]
    check([*wanted, *grids, prepared("a.i < b.i + 1", partitioning="grid")])


def test_a_word_may_be_a_key_in_one_dimension_and_a_number_in_another():
    """Spark hashes the one natively and Windrow computes the other; each is the same for all streams."""
    on = "a.i = b.i and abs(b.f - (c.i + 1)) <= 1 and abs(a.i - (b.j + 1)) <= 8"
    case = prepared(on, "abc", 8)
    assert {cut.kind for cut in case.layout.dimensions} == {"key", "range"}, str(case)
    check([case])


SKEWED = {
    "a.s = b.s": ["x", ""],
    "a.s = lower(b.s)": ["x"],
    "a.i = b.i": [0, 1],
    "a.i = b.f": [0, 1.0],
    "a.f = b.f": [0.0],
    "a.g = b.f": [1.0],
    "a.i + 1 = b.j": [1],
    "a.m = b.m": [Decimal("1.00"), 1.01],
    "a.m = b.q": [1],
    "a.e = b.e": [Decimal("12345678901234567890.5")],
    "a.d = b.d": [date(2024, 2, 29), "1969-12-31"],
    "a.d = cast(b.w as date)": [date(2024, 2, 29)],
    "a.w = b.w": [datetime(2024, 2, 29)],
    "a.z = b.z": [datetime(2024, 2, 29, tzinfo=UTC)],
    "a.flag = b.flag": [True],
    "a.y = b.y": [b"x", b""],
    "a.c = b.s": ["x"],
}


def test_skewed_values_are_known_on_every_side():
    cases = [prepared(on, skewed_keys={"values": values, "splits": 4}) for on, values in SKEWED.items()]
    cases += [prepared(on, skewed_keys={"values": SKEWED[on], "splits": 2}) for on in list(SKEWED)[1:8:2]]
    copies = Counter((number, stream, row) for number, stream, row, _ in check(cases))
    for number, case in enumerate(cases[: len(SKEWED)]):
        spread = {s for (n, s, _), count in copies.items() if n == number and count > 1}
        assert spread == {0, 1}, str(case)


@pytest.mark.parametrize(
    ("on", "values", "message"),
    [
        ("a.i = b.i", ["7"], r"skewed_keys: the key a.i is int64, and '7' is no such value"),
        ("a.i = b.i", [7.5], "7.5 is no such value"),
        ("a.i = b.i", [True], "True is no such value"),
        ("a.i = b.i", [2**70], "is no such value"),
        ("a.i = b.i", [None], "None is no such value"),
        ("a.f = b.f", [float("nan")], "nan is no such value"),
        ("a.s = b.s", [7], "the key a.s is string, and 7 is no such value"),
        ("a.m = b.m", [Decimal("1.001")], "no such value"),
        ("a.d = b.d", ["yesterday"], "'yesterday' is no such value"),
        ("a.d = b.d", [datetime(2024, 1, 1, 12)], "no such value"),
        ("a.z = b.z", [datetime(2024, 1, 1)], "no such value"),
        ("a.y = b.y", ["x"], "no such value"),
        ("a.i = b.i", [object()], "no such value"),
        ("a.i = b.i", [], r"a list of one or more values, got \[\]"),
        ("a.s = b.s", "x", "a list of one or more values, got 'x'"),
        ("a.i = b.i", 7, "a list of one or more values, got 7"),
    ],
)
def test_what_is_no_value_of_the_key_is_refused(on, values, message):
    with pytest.raises(wr.QueryError, match=message):
        prepared(on, skewed_keys={"values": values, "splits": 2})


def test_what_decides_where_rows_go_is_stored_and_was_so_in_words():
    case = prepared("a.i = b.i and b.f < c.i", "abc", skewed_keys={"values": [7], "splits": 2})
    words = {
        "partitioning": "4 by key a.i = b.i x 2 by rows of c",
        "skewed_keys": "values [7] over 2 partitions",
        "routing": "a by value of a.i as int64, b by value of b.i as int64, c by everywhere, a divided, "
        "b divided x a by everywhere, b by everywhere, c by content",
        "hashing": "version 2: by Spark, by Spark",
    }
    assert stored_layout(case.layout) == StoredLayout.from_words(8, words)
    near = prepared("abs((a.i + 1) - b.j) <= 2", partitioning="range(5)")
    words = {
        "partitioning": "8 by range of a.i + 1 in cells of 5.0",
        "skewed_keys": "none",
        "routing": "a by cell of a.i + 1 as int64, b by near of b.j as int64 within 2.0",
        "hashing": "version 2: by Windrow",
    }
    assert stored_layout(near.layout) == StoredLayout.from_words(8, words)
    one = prepared("a.i = b.i", partitions=1)
    words = {"partitioning": "single", "skewed_keys": "none", "routing": "none", "hashing": "version 2"}
    assert stored_layout(one.layout) == StoredLayout.from_words(1, words)


@pytest.mark.parametrize(
    ("on", "options"),
    [
        ("a.i = b.i and b.f < c.i", {"skewed_keys": {"values": [7, 9], "splits": 2}}),
        ("a.s = b.s", {"skewed_keys": {"values": ["x", "it's"], "splits": 3}}),
        ("a.d = b.d", {"skewed_keys": {"values": ["2024-02-29"], "splits": 2}}),
        ("abs((a.i + 1) - b.j) <= 2", {"partitioning": "range(5)"}),
        ("abs(a.f - b.f) <= 0.1", {}),
        ("a.i < b.i", {}),
        ("a.i = b.i", {"partitions": 1}),
    ],
)
def test_a_layout_is_read_as_it_was_stored(on, options):
    case = prepared(on, "abc" if "c." in on else "ab", **options)
    stored = StoredLayout.from_json(json.loads(json.dumps(stored_layout(case.layout).to_json())))
    assert stored == stored_layout(case.layout)
    read = read_layout(case.join, stored)
    assert read is not None and read.dimensions == case.layout.dimensions
    assert read_layout(case.join, replace(stored, hashing=1)) is None
    for number, cut in enumerate(stored.dimensions):
        placements = tuple(replace(place, column="other") for place in cut.placements)
        others = (*stored.dimensions[:number], replace(cut, placements=placements))
        assert read_layout(case.join, replace(stored, dimensions=others)) is None
