"""Predicates of every sort over random rows: the pairs that DuckDB finds, and no others."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from random import Random

import duckdb
import pyarrow as pa
import pytest

import windrow as wr
from queries import play, tiny

ANYTHING = [
    # bands that are not centred, scaled, of mixed types, with odd widths
    "a.x between b.x - 1 and b.x + 3",
    "a.x between b.x and b.x + 2",
    "a.x >= b.x - 1 and a.x <= b.x + 1",
    "a.x > b.x - 2 and b.x + 2 > a.x",
    "a.x not between b.x - 1 and b.x + 1",
    "abs(a.x - b.x) <= 1.5",
    "abs(a.x - b.x) < 1.5",
    "abs(a.x - b.x) < 0.5",
    "abs(a.x - b.x) <= -1",
    "abs(a.x - b.x) <= 1e30",
    "abs(a.x - b.x) >= 2",
    "abs(a.x - b.x) > 1",
    "abs(a.x - b.x) = 1",
    "abs(a.x - b.x - 1) <= 1",
    "abs(a.x + b.x) <= 3",
    "abs(2 * a.x - b.x) <= 1",
    "abs(a.x - b.f) <= 0.5",
    "abs(a.f - b.x) < 1",
    "abs(a.x - b.x) <= a.y",
    "abs(a.m - b.m) < 1.01",
    "abs(a.m - b.x) <= 1",
    "a.m between b.m - 0.5 and b.m + 0.5",
    "a.f between b.f - 0.25 and b.f + 0.5",
    "a.x between b.x and b.y",
    "a.x between 1 and b.x",
    # equality of every sort
    "a.x = b.y and a.y = b.x",
    "a.x = b.x and a.x = b.y",
    "a.x = b.x and a.y = b.x",
    "a.x = b.f",
    "a.m = b.x",
    "a.m = b.f",
    "a.x = b.x + 1 and a.y = b.y",
    "a.x - 1 = b.x * 2",
    "(a.x = b.x) = (a.y = b.y)",
    "a.x is not distinct from b.x",
    "a.x = b.x and a.d = b.d and a.s = b.s",
    # comparisons
    "a.x < b.x and a.y > b.y",
    "a.x < b.y and a.x > b.x",
    "a.x + a.y < b.x",
    "a.f < b.x",
    "a.d < b.t",
    "a.d >= b.d",
    "a.t <> b.t",
    "a.m <> b.m and a.m < 2",
    "a.s > b.s",
    # logic with nulls
    "a.x = b.x or a.y = b.y",
    "not (a.x = b.x or a.y = b.y)",
    "not (a.x = b.x and a.y = b.y)",
    "(a.x = b.x and a.y > 0) or (a.y = b.y and a.x is null)",
    "a.x = b.x and (a.y > 0 or b.y > 0)",
    "a.x = b.x and false",
    "a.x = b.x and (true or a.y = 1)",
    "a.x = b.x and null is null",
    "a.x in (b.x, b.y, 2)",
    "a.x not in (b.x, 2)",
    "a.x = b.x and a.s in ('p', 'q')",
    "coalesce(a.x, b.x, 0) = 1",
    "nullif(a.x, b.x) is null",
    "case when a.x > b.x then a.y else b.y end = 1",
    "case a.x when b.x then true else a.s = b.s end",
    "case when a.x = b.x then 'p' else 'q' end = b.s",
    "greatest(a.x, b.x) = 2",
    "least(a.x, b.y) > 0",
    # arithmetic
    "a.x + b.x * 2 = 4",
    "(a.x + b.x) * 2 >= 4",
    "a.x - b.x = -1",
    "a.x * 1.5 = b.f",
    "a.m + b.m > 2.5",
    "round(a.f) = b.x",
    "floor(a.f) = b.x",
    "ceil(a.f) = b.x",
    # text
    "a.s || b.s = 'pq'",
    "a.s like b.s || '%'",
    "a.s like '_' and b.s not like 'p%'",
    "upper(a.s) = upper(b.s)",
    "length(a.s) < length(b.s)",
    "substring(a.s, 1, 1) = substring(b.s, 1, 1)",
    "replace(a.s, 'p', 'q') = b.s",
    "trim(a.s) = b.s",
    # dates and times
    "a.d = cast(b.t as date)",
    "a.t between b.t - interval '1 day' and b.t",
    "a.t < b.t + interval '2 hours'",
    "a.d between date '2024-01-01' and b.d",
    "extract(day from a.d) = extract(day from b.d)",
    "cast(a.x as varchar) = b.s",
    "cast(a.x as double) = b.f and cast(b.f as varchar) is not null",
]


@pytest.mark.parametrize("on", ANYTHING)
def test_whatever_duckdb_says(on: str) -> None:
    """All pairs of 30 random rows, with nulls and NaN, which equals itself and is above any other number."""
    tables = {}
    for alias in "ab":
        rng = Random(f"rows of {alias}")
        columns = {
            "x": (pa.int64(), [0, 1, 2, 3, None]),
            "y": (pa.int32(), [0, 1, 2, None]),
            "f": (pa.float64(), [0.0, -0.0, 0.75, 1.5, 2.0, 3.0, float("nan"), None]),
            "m": (pa.decimal128(9, 2), [Decimal("0.50"), Decimal("1.00"), Decimal("2.00"), None]),
            "s": (pa.string(), ["p", "q", "P", "pq", " p", "1", "", None]),
            "d": (pa.date32(), [date(2024, 1, 1), date(2024, 1, 2), date(1969, 12, 31), None]),
            "t": (pa.timestamp("us"), [datetime(2024, 1, 1), datetime(2024, 1, 2, 1), None]),
        }
        made = {n: pa.array(rng.choices(values, k=30), kind) for n, (kind, values) in columns.items()}
        tables[alias] = tiny([0] * 30, **made)
    with duckdb.connect() as connection:
        for alias, table in tables.items():
            connection.register(alias, table)
        want = Counter(connection.execute(f"select a.id, b.id from a, b where {on}").fetchall())
    query = wr.Query({alias: wr.Stream("ts", "1 hour") for alias in "ab"}, on, allow_cross_join=True)
    assert play(query, tables) == want
    assert play(query, {"b": tables["b"]}, {"a": tables["a"]}) == want
