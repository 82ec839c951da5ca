"""Evaluation against DuckDB on random data with nulls, and by hand where SQL engines disagree."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from windrow.errors import DataError, QueryError
from windrow.expr.evaluate import evaluate, result_type
from windrow.expr.parse import parse
from windrow.model.query import Function

ROWS = 500


def _stream(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    null = rng.random((10, ROWS)) < 0.1
    words = np.array(["", "a", "foo", "Foobar", "bar", " x ", "ünï", "a_b%", "2024", "12.5"])
    start = 1_700_000_000_000_000
    columns = {
        "i": pa.array(rng.integers(-20, 20, ROWS), pa.int64(), mask=null[0]),
        "j": pa.array(rng.integers(-20, 20, ROWS), pa.int32(), mask=null[1]),
        "x": pa.array(rng.normal(0, 10, ROWS).round(2), mask=null[2]),
        "s": pa.array(rng.choice(words, ROWS), pa.string(), mask=null[3]),
        "t": pa.array(start + rng.integers(-(10**13), 10**13, ROWS), pa.timestamp("us"), mask=null[4]),
        "d": pa.array(
            [
                None if n else Decimal(int(v)).scaleb(-2)
                for v, n in zip(rng.integers(-999, 999, ROWS), null[5], strict=True)
            ],
            pa.decimal128(9, 2),
        ),
        "day": pa.array(rng.integers(19000, 19030, ROWS), pa.int32(), mask=null[6]).cast(pa.date32()),
        "f": pa.array(rng.random(ROWS) < 0.5, mask=null[7]),
        "l": pa.array(
            [None if n else list(rng.integers(0, 5, rng.integers(0, 4))) for n in null[8]],
            pa.list_(pa.int64()),
        ),
    }
    return pa.table(columns)


A, B = _stream(1), _stream(2)
COLUMNS = {
    (alias, name): table[name].combine_chunks()
    for alias, table in (("a", A), ("b", B))
    for name in table.column_names
}
TYPES = {reference: column.type for reference, column in COLUMNS.items()}


def run(text: str, columns: dict = COLUMNS, length: int = ROWS, functions: dict | None = None) -> list:
    return evaluate(parse(text, ["a", "b"], functions or {}), columns, length, functions or {}).to_pylist()


EXPRESSIONS = """
a.i + b.i * 2 - 1
-a.i
- (a.x - b.x)
a.i / nullif(b.i, 0)
a.x / nullif(b.x, 0)
a.i % nullif(b.i, 0)
mod(a.i, nullif(b.j, 0))
a.j + a.i
a.i + a.x
a.d + b.d
a.d - b.d * 2
a.d + 1.05
a.d * -1.5
a.d + a.i
a.d % 0.7
a.i = b.i
a.i <> b.j
a.i < b.x
a.x >= b.x
a.d = b.d
a.d <= 1.25
a.d > a.i
a.s < b.s
a.s = b.s
a.f = b.f
a.t < b.t
a.day = b.day
a.day <= b.t
a.t > timestamp '2023-11-14 00:00:00'
a.t > '2023-11-14'
a.day >= '2022-01-15'
a.day >= date '2022-01-15'
a.f and b.f
a.f or b.f
not a.f
a.f and a.i > 0 or not b.f and b.x < 1
a.i is null
a.i is not null
a.i is null or a.i > 3
a.f is true
a.f is not true
a.i is distinct from b.i
a.i is not distinct from b.i
a.i between b.i - 5 and b.i + 5
a.x not between -1 and b.x
a.i in (1, 2, 3)
a.i not in (1, 2, 3)
a.i in (1, null)
a.i in (b.i, b.j)
a.s in ('foo', 'bar')
case when a.i > 0 then 'pos' when a.i < 0 then 'neg' else b.s end
case when a.f then a.i end
case a.i when 1 then 'one' when b.i then 'b' end
if(a.f, a.i, b.x)
coalesce(a.i, b.i, 0)
nullif(a.i, b.i)
nullif(a.s, 'foo')
cast(a.i as double)
cast(a.i as varchar)
cast(a.i as decimal(10, 3))
a.i::bigint
cast(a.t as date)
cast(a.f as int)
try_cast(a.s as double)
abs(a.i)
abs(a.x - b.x)
abs(a.d)
abs(a.i - b.i) <= 5
round(a.x)
round(a.x, 1)
round(a.d, 1)
floor(a.x)
ceil(a.x)
sqrt(abs(a.x))
exp(a.x / 10)
ln(abs(a.x) + 1)
log10(abs(a.x) + 1)
log2(abs(a.x) + 1)
power(a.x, 2)
sign(a.i)
greatest(a.i, b.i)
least(a.i, b.i, 3)
lower(a.s)
upper(a.s)
length(a.s)
trim(a.s)
ltrim(a.s)
rtrim(a.s)
substring(a.s, 2, 2)
substring(a.s, 2)
substring(a.s, -2, 1)
a.s || '-' || b.s
a.s like '%o%'
a.s like 'f__'
a.s not like 'F%'
a.s ilike 'FOO%'
a.s like b.s
starts_with(a.s, 'fo')
ends_with(a.s, 'ar')
contains(a.s, 'oo')
contains(a.s, b.s)
replace(a.s, 'o', '0')
reverse(a.s)
left(a.s, 2)
right(a.s, 2)
year(a.t)
month(a.t)
day(a.t)
hour(a.t)
minute(a.t)
second(a.t)
year(a.day)
extract(month from a.day)
a.t - interval '5' second
a.t + interval '2 hours'
a.t - interval 5 minutes
a.t - b.t
a.t - b.t < interval '1 day'
a.day - interval '3' day
a.t between b.t - interval '1 day' and b.t + interval '1 day'
""".strip().splitlines()


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("ta", A)
    connection.register("tb", B)
    connection.execute("create table a as from ta")
    connection.execute("create table b as from tb")
    return connection


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) or isinstance(theirs, float):
        return (
            ours is not None
            and theirs is not None
            and math.isclose(float(ours), float(theirs), rel_tol=1e-12, abs_tol=1e-12)
        )
    return ours == theirs


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_like_duckdb(text: str, duck: duckdb.DuckDBPyConnection) -> None:
    theirs = [row[0] for row in duck.execute(f"select {text} from a positional join b").fetchall()]
    ours = run(text)
    wrong = [(i, o, t) for i, (o, t) in enumerate(zip(ours, theirs, strict=True)) if not same(o, t)]
    assert not wrong, wrong[:5]
    assert any(o is not None for o in ours)
    node = parse(text, ["a", "b"])
    assert result_type(node, TYPES, {}) == evaluate(node, COLUMNS, ROWS, {}).type


LARGE = 2**63 - 1
SMALL: dict[tuple[str, str], pa.Array] = {
    ("a", "i"): pa.array([1, None, -3, LARGE]),
    ("a", "x"): pa.array([2.5, math.nan, None, -0.0]),
    ("a", "s"): pa.array(["7", "x", None, "99999999999999999999"]),
    ("a", "t"): pa.array([0, -1, None, 10**15], pa.timestamp("us")),
    ("b", "z"): pa.array([0, -1, None, 10**15], pa.timestamp("ms", "Asia/Tokyo")),
    ("a", "day"): pa.array([0, 1, None, 2], pa.date32()),
    ("a", "r"): pa.array([{"f": 1}, None, {"f": 3}, {"f": None}]),
    ("a", "n"): pa.array([None] * 4, pa.null()),
    ("a", "d"): pa.array([Decimal("0.1"), Decimal("0.3"), None, Decimal("-2.5")], pa.decimal128(30, 10)),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.i + 1", [2, None, -2, None]),  # overflow is null
        ("a.i * a.i", [1, None, 9, None]),
        ("a.i - 2", [-1, None, -5, LARGE - 2]),
        ("a.i / 0", [None] * 4),
        ("a.x / 0", [None] * 4),
        ("a.i % 0", [None] * 4),
        ("-7 % 3", [-1] * 4),
        ("7 / 2", [3.5] * 4),
        ("a.x = a.x", [True, True, None, True]),  # NaN equals itself
        ("a.x <> a.x", [False, False, None, False]),
        ("a.x <> 1", [True, True, None, True]),
        ("a.x >= a.x", [True, True, None, True]),
        ("a.x > 1e308", [False, True, None, False]),  # and is above every other number
        ("1e308 < a.x", [False, True, None, False]),
        ("a.x < a.x", [False, False, None, False]),
        ("a.x <= 1", [False, False, None, True]),
        ("a.x in (2.5)", [True, False, None, False]),
        ("a.x = 0", [False, False, None, True]),
        ("cast(a.s as bigint)", [7, None, None, None]),  # a cast that fails is null
        ("cast(2.7 as int)", [2] * 4),
        ("cast(-2.7 as int)", [-2] * 4),
        ("cast(a.x as bigint)", [2, None, None, 0]),
        ("sqrt(0 - 1)", [None] * 4),
        ("ln(0)", [None] * 4),
        ("log(2, 8)", [pytest.approx(3)] * 4),
        ("a.r.f + 1", [2, None, 4, None]),
        ("a.n = 1", [None] * 4),
        ("null and false", [False] * 4),
        ("null or true", [True] * 4),
        ("a.i = null", [None] * 4),
        ("a.i > 9223372036854775808", [False, None, False, False]),
        ("a.d + a.d = 0.2", [True, False, None, False]),
        ("a.d * a.d = 0.01", [True, False, None, False]),
        ("a.day < b.z", [True, False, None, True]),  # midnight in Tokyo is 15:00 UTC the day before
        ("b.z >= timestamp '1970-01-01 09:00:00'", [True, False, None, True]),
        ("b.z >= '1970-01-01T00:00:00Z'", [True, False, None, True]),
        ("cast(a.t as timestamptz) = b.z", [True, False, None, False]),
        ("hour(b.z)", [9, 8, None, 10]),
        ("abs(a.t - a.t) <= interval '0' second", [True, True, None, True]),
        ("datediff(a.day, date '1970-01-01')", [0, 1, None, 2]),
        ("concat(a.s, 1)", ["71", "x1", None, "999999999999999999991"]),
        ("a.s rlike '^[0-9]+$'", [True, False, None, True]),
        ("regexp_like(a.s, 'x')", [False, True, None, False]),
        ("(a.i)", [1, None, -3, LARGE]),
        ("2 * interval '1 second' + interval '500 ms' = interval '2.5 seconds'", [True] * 4),
    ],
)
def test_by_hand(text: str, expected: list) -> None:
    assert run(text, SMALL, 4) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a.s = a.i",
            "cannot compare a.s (string) with a.i (int64); cast one of them, for example cast(a.s as bigint)",
        ),
        (
            "a.i < a.s",
            "cannot compare a.i (int64) with a.s (string); cast one of them, for example cast(a.s as bigint)",
        ),
        (
            "a.t = b.z",
            "cannot compare a.t (timestamp[us]) with b.z (timestamp[ms, tz=Asia/Tokyo]): "
            "one has a time zone and the other has none; cast one of them, "
            "for example cast(a.t as timestamptz), which reads it as UTC",
        ),
        ("a.t - b.z", "one has a time zone and the other has none"),
        (
            "a.t + 5",
            "cannot compute a.t (timestamp[us]) + 5 (int64); write a span of time like interval '5' second",
        ),
        ("abs(a.t - a.t) <= 5", "write a span of time like interval '5' second"),
        ("a.s + 1", "cannot compute a.s (string) + 1 (int64); cast to a number first"),
        ("- a.s", "cannot compute - a.s (string)"),
        ("a.i and true", "expected a condition that is true or false, got a.i of type int64"),
        ("lowr(a.s)", "unknown function 'lowr'. Did you mean 'lower'?"),
        ("abs(a.s)", "abs takes a number, got a.s (string)"),
        ("lower(a.i)", "lower takes a string, got a.i (int64)"),
        ("year(a.i)", "year takes a date or timestamp, got a.i (int64)"),
        ("abs()", "abs takes 1 argument, got 0"),
        ("round(1, 2, 3)", "round takes 1 to 2 arguments, got 3"),
        ("round(a.x, a.i)", "round takes a constant integer here, got a.i"),
        ("a.s rlike '('", "is not a valid pattern"),
        ("a.r.g", "a.r (struct<f: int64>) has no field 'g'"),
        ("a.i & 1", "a.i & 1 is not supported in a predicate"),
        ("cast(a.i as foo)", "unknown type 'foo'. Did you mean 'float'?"),
        ("cast(a.i as decimal(99, 2))", "decimal takes 1 to 38 digits"),
        ("a.t > 'tomorrow'", "cannot read 'tomorrow' as a timestamp"),
        ("a.t - interval '1' month", "an interval of months has no fixed length; write it in days"),
        ("a.t - interval '1' parsec", "unknown unit 'parsec'"),
        ("a.t - interval 'soon'", "cannot read INTERVAL 'soon'"),
        ("coalesce(a.i, a.s)", "cannot combine a.i (int64) with a.s (string) in coalesce"),
        ("jaccard(a.i, a.i)", "jaccard takes a list, got a.i (int64)"),
    ],
)
def test_errors_come_before_data(text: str, message: str) -> None:
    types = {reference: column.type for reference, column in SMALL.items()}
    with pytest.raises(QueryError) as caught:
        result_type(parse(text, ["a", "b"]), types, {})
    assert message in str(caught.value)


def test_own_functions() -> None:
    functions = {
        "near": Function(lambda x, y: None if x is None else abs(x) < y),
        "Twice": Function(lambda array: pa.compute.multiply(array, 2), pa.int64(), vectorized=True),
        "lower": Function(lambda s: "mine", pa.string()),
        "max": Function(lambda x, y: x, pa.int64()),
        "fail": Function(lambda x: 1 // 0, pa.int64()),
        "short": Function(lambda array: array[:1], pa.int64(), vectorized=True),
        "wrong": Function(lambda x: "text", pa.int64()),
    }
    assert run("near(a.i, 2)", SMALL, 4, functions) == [True, None, False, False]
    assert run("twice(a.i) = 2", SMALL, 4, functions)[:3] == [True, None, False]
    assert run("LOWER(a.s)", SMALL, 4, functions) == ["mine"] * 4
    assert run("max(a.i, 1)", SMALL, 4, functions)[:2] == [1, None]
    for name, message in (
        ("fail", "function 'fail' failed: ZeroDivisionError"),
        ("short", "got 4 rows and returned 1"),
        ("wrong", "must return int64"),
    ):
        with pytest.raises(DataError, match=message):
            run(f"{name}(a.i)", SMALL, 4, functions)
    assert run("fail(a.i)", {("a", "i"): pa.array([], pa.int64())}, 0, functions) == []


@pytest.mark.parametrize(
    "layout", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_layouts_of_text(layout: pa.DataType) -> None:
    columns = {("a", "s"): pa.array(["x", "foo", None]).cast(layout), ("b", "s"): pa.array(["x", "bar", "y"])}
    assert run("a.s = b.s", columns, 3) == [True, False, None]
    assert run("lower(a.s) || b.s like 'f%'", columns, 3) == [False, True, None]
