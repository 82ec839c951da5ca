"""Each kind of predicate on tables small enough to read: which pairs of rows match, and no others."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import windrow as wr
from queries import TWIN_PAIRS, TWIN_TEXTS, play, tiny
from windrow.kernels import hashing

NAN, INF = float("nan"), float("inf")
NOON = datetime(2024, 3, 1, 12)
DAY = date(2024, 3, 1)
Columns = dict[str, list[Any] | pa.Array]


def matches(on: str, a: Columns, b: Columns, **options: Any) -> set[tuple[int, int]]:
    """Pairs of row numbers that match, whether the rows of a come before, with or after those of b."""
    query = wr.Query({alias: wr.Stream("ts", "1 hour") for alias in "ab"}, on, **options)
    size = {x: len(next(iter(columns.values()))) for x, columns in {"a": a, "b": b}.items()}
    left, right = tiny([0] * size["a"], **a), tiny([0] * size["b"], **b)
    together = play(query, {"a": left, "b": right})
    assert play(query, {"a": left}, {"b": right}) == together
    assert play(query, {"b": right}, {"a": left}) == together
    assert together == Counter(set(together)), "a result came twice"
    return set(together)


def column(kind: pa.DataType, *values: Any) -> dict[str, pa.Array]:
    return {"x": pa.array(values, kind)}


EQUALITY = {
    "int64": (column(pa.int64(), 1, -(2**63), None, 2**63 - 1), column(pa.int64(), -(2**63), 1, 2, None)),
    "int8 and int64": (column(pa.int8(), 1, -1, None, 5), column(pa.int64(), -1, 1, 2, None)),
    "uint64": (column(pa.uint64(), 1, 2**64 - 1, None), column(pa.uint64(), 2**64 - 1, 1, None)),
    "uint64 and int64": (column(pa.uint64(), 1, 7, None, 2**64 - 1), column(pa.int64(), 7, 1, -1, None)),
    "float64": (column(pa.float64(), 1.5, -0.0, None, NAN, 2.0), column(pa.float64(), 0.0, 1.5, INF, None)),
    "infinity": (column(pa.float64(), INF, -INF), column(pa.float64(), -INF, INF)),
    "float32 and float64": (column(pa.float32(), 0.5, 2.0, 0.1), column(pa.float64(), 2.0, 0.5, 0.1)),
    "int32 and float64": (column(pa.int32(), 3, -1, None, 4), column(pa.float64(), -1.0, 3.0, 4.5, NAN)),
    "string": (column(pa.string(), "x", "", None, "long " * 9), column(pa.string(), "", "x", "X", None)),
    "string and large string": (column(pa.string(), "é", "y"), column(pa.large_string(), "y", "é")),
    "boolean": (column(pa.bool_(), True, False, None), column(pa.bool_(), False, True, None)),
    "date": (column(pa.date32(), DAY, date(1960, 1, 1), None), column(pa.date32(), date(1960, 1, 1), DAY)),
    "timestamp": (
        column(pa.timestamp("us"), NOON, datetime(1960, 1, 1), None),
        column(pa.timestamp("us"), datetime(1960, 1, 1), NOON, None),
    ),
    "timestamps of two units": (
        column(pa.timestamp("ms"), NOON, datetime(1960, 1, 1)),
        column(pa.timestamp("ns"), datetime(1960, 1, 1), NOON),
    ),
    "date and timestamp": (
        column(pa.date32(), DAY, date(1960, 1, 1)),
        column(pa.timestamp("s"), datetime(1960, 1, 1), datetime(2024, 3, 1), NOON),
    ),
    "decimal": (
        column(pa.decimal128(10, 2), Decimal("1.10"), Decimal("-3"), None),
        column(pa.decimal128(10, 2), Decimal("-3.00"), Decimal("1.10"), Decimal("1.11"), None),
    ),
    "decimals of two scales": (
        column(pa.decimal128(10, 2), Decimal("1.10"), Decimal("7.00")),
        column(pa.decimal128(20, 5), Decimal("7"), Decimal("1.1"), Decimal("1.10001")),
    ),
    "wide decimal": (
        column(pa.decimal128(38, 0), Decimal(10**37), Decimal(10**37 + 1)),
        column(pa.decimal128(38, 0), Decimal(10**37 + 1), Decimal(10**37), Decimal(2**64)),
    ),
    "decimal and integer": (
        column(pa.decimal128(10, 2), Decimal("2.00"), Decimal("3.00")),
        column(pa.int64(), 3, 2),
    ),
    "binary": (column(pa.binary(), b"x\x00", b"", None), column(pa.binary(), b"", b"x\x00", b"x", None)),
    "dictionary of strings": (
        {"x": pa.array(["x", "y", None, "z"]).dictionary_encode()},
        {"x": pa.array(["y", "x", None]).dictionary_encode()},
    ),
    "dictionary and string": ({"x": pa.array(["x", "y"]).dictionary_encode()}, column(pa.string(), "y", "x")),
}


@pytest.mark.parametrize("access", [None, "hash", "hash(2)", "sorted", "scan"])
@pytest.mark.parametrize("kind", EQUALITY)
def test_equality(kind: str, access: str | None) -> None:
    """In each pair of columns row 0 equals row 1 of the other and row 1 equals row 0; nothing else does."""
    a, b = EQUALITY[kind]
    want = {(0, 1), (1, 0)}
    streams = {alias: wr.Stream("ts", "1 hour", access) for alias in "ab"}
    left, right = tiny([0] * len(a["x"]), **a), tiny([0] * len(b["x"]), **b)
    assert play(wr.Query(streams, "a.x = b.x"), {"a": left, "b": right}) == Counter(want)
    assert play(wr.Query(streams, "b.x = a.x"), {"a": left}, {"b": right}) == Counter(want)


def test_equality_on_several_columns() -> None:
    a = {"x": [1, 1, 2, None], "y": ["p", "q", "p", "p"], "z": [DAY] * 4}
    b = {"x": [1, 2, 1, None], "y": ["q", "p", "r", "p"], "z": [DAY] * 4}
    assert matches("a.x = b.x and a.y = b.y and a.z = b.z", a, b) == {(1, 0), (2, 1)}
    assert matches("a.x = b.x and a.x = b.w", a, b | {"w": [1, 1, 1, 1]}) == {(0, 0), (1, 0), (0, 2), (1, 2)}


def test_equality_of_expressions() -> None:
    assert matches("a.x + 1 = b.x", {"x": [1, 2, None]}, {"x": [3, 2, None]}) == {(0, 1), (1, 0)}
    assert matches("lower(a.s) = lower(b.s)", {"s": ["Ab", "c"]}, {"s": ["aB", "C", "d"]}) == {(0, 0), (1, 1)}


A = {"x": [0, 1, 5, None, 9], "f": [0.0, 0.3, INF, NAN, None], "s": ["ab", "b", "", None, "é"]}
B = {"x": [1, 4, 9, None], "f": [0.1, 0.2, NAN, INF], "s": ["b", "abc", None, "AB"]}
COMPARISONS = {
    # bands: as written, in the column's own arithmetic
    "abs(a.x - b.x) <= 1": {(0, 0), (1, 0), (2, 1), (4, 2)},
    "abs(a.x - b.x) < 1": {(1, 0), (4, 2)},
    "1 >= abs(a.x - b.x)": {(0, 0), (1, 0), (2, 1), (4, 2)},
    "abs(b.x - a.x) <= 0": {(1, 0), (4, 2)},
    "a.x between b.x - 1 and b.x + 1": {(0, 0), (1, 0), (2, 1), (4, 2)},
    "b.x between a.x - 4 and a.x + 4": {(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (4, 2)},
    "a.x between b.x - 3 and b.x": {(0, 0), (1, 0), (1, 1), (4, 2)},
    "abs(a.f - b.f) <= 0.1": {(0, 0), (1, 1)},  # 0.3 - 0.2 < 0.1 in doubles
    "abs(a.f - b.f) <= 0.2": {(0, 0), (0, 1), (1, 0), (1, 1)},
    "a.f between b.f - 0.1 and b.f + 0.1": {(0, 0), (1, 1), (2, 3)},  # 0.2 + 0.1 > 0.3; inf is in inf +- 0.1
    # comparisons
    "a.x < b.x": {(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)},
    "a.x <= b.x": {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 2), (4, 2)},
    "a.x > b.x": {(2, 0), (2, 1), (4, 0), (4, 1)},
    "a.x >= b.x": {(1, 0), (2, 0), (2, 1), (4, 0), (4, 1), (4, 2)},
    "a.x <> b.x and a.x > 0": {(1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (4, 0), (4, 1)},
    "a.x != b.x and b.x = 9": {(0, 2), (1, 2), (2, 2)},
    "a.f <> b.f": {(i, j) for i in range(4) for j in range(4)} - {(2, 3), (3, 2)},
    "a.f < b.f": {(0, 0), (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 2)},
    "a.f >= b.f": {(1, 0), (1, 1), (2, 0), (2, 1), (2, 3), (3, 0), (3, 1), (3, 2), (3, 3)},
    "a.s < b.s": {(0, 0), (0, 1), (2, 0), (2, 1), (2, 3)},
    "a.s <> b.s and a.x = 1": {(1, 1), (1, 3)},
    # residuals
    "a.x = b.x or a.s = b.s": {(1, 0), (4, 2)},
    "a.x = b.x or a.s like 'a%'": {(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (4, 2)},
    "a.x + b.x = 6": {(2, 0)},
    "a.x * b.x > 40": {(2, 2), (4, 2)},
    "a.x % 2 = b.x % 2": {(0, 1), (1, 0), (1, 2), (2, 0), (2, 2), (4, 0), (4, 2)},
    "-a.x < b.x - 5": {(2, 0), (2, 1), (4, 0), (4, 1), (4, 2), (1, 2), (2, 2), (0, 2)},
    "case when a.x = 0 then b.x = 4 else a.x = b.x end": {(0, 1), (1, 0), (4, 2)},
    "case when b.s = 'b' then 1 when b.s is null then 2 end = a.x": {(1, 0)},
    "not (a.x <> b.x)": {(1, 0), (4, 2)},
    "a.x in (b.x, 5) and b.x < 5": {(1, 0), (2, 0), (2, 1)},
    "a.x is not null and b.x is null and a.x = 1": {(1, 3)},
    "coalesce(a.x, 4) = b.x": {(1, 0), (3, 1), (4, 2)},
    # text
    "upper(a.s) = b.s": {(0, 3)},
    "lower(b.s) = a.s": {(0, 3), (1, 0)},
    "length(a.s) = b.x": {(1, 0), (4, 0)},
    "b.s like '%b%' and a.s like 'b' and b.x = 4": {(1, 1)},
    "starts_with(b.s, a.s) and length(a.s) > 1": {(0, 1)},
    "a.s || 'c' = b.s": {(0, 1)},
    "concat(a.s, 'c') = b.s": {(0, 1)},
    "substring(b.s, 1, 2) = a.s": {(0, 1), (1, 0)},
    "trim(a.s) = b.s": {(1, 0)},
    # conditions on one stream go before the join
    "a.x = b.x and a.s = 'b'": {(1, 0)},
    "a.x = b.x and b.f is null": set(),
    "a.x = b.x and a.x > 100": set(),
    "a.x = b.x and true": {(1, 0), (4, 2)},
}


@pytest.mark.parametrize("on", COMPARISONS)
def test_everything_but_equality(on: str) -> None:
    assert matches(on, A, B, allow_cross_join=True) == COMPARISONS[on]


@pytest.mark.parametrize("access", ["sorted", "scan"])
@pytest.mark.parametrize(
    "on", [on for on in COMPARISONS if on.startswith(("abs", "a.x between", "a.f", "a.x <"))]
)
def test_bands_and_comparisons_by_each_path(on: str, access: str) -> None:
    streams = {alias: wr.Stream("ts", "1 hour", access) for alias in "ab"}
    got = play(wr.Query(streams, on), {"a": tiny([0] * 5, **A)}, {"b": tiny([0] * 4, **B)})
    assert got == Counter(COMPARISONS[on])


def test_integers_at_the_edge_of_their_type() -> None:
    """Differences that do not fit 64 bits must not wrap around into a match."""
    low, high = -(2**63), 2**63 - 1
    a, b = {"x": [low, high, 0]}, {"x": [high, low, high - 1]}
    assert matches("abs(a.x - b.x) <= 1", a, b) == {(0, 1), (1, 0), (1, 2)}
    assert matches("a.x between b.x - 1 and b.x + 1", a, b) == {(0, 1), (1, 0), (1, 2)}
    assert matches("a.x < b.x", a, b) == {(0, 0), (0, 2), (2, 0), (2, 2)}


@pytest.mark.parametrize(
    ("on", "want"),
    [
        ("a.d < b.d", {(0, 1)}),
        ("a.d = b.d", {(0, 0), (1, 1)}),
        ("a.t < b.t", {(0, 1)}),
        ("b.t - a.t <= interval '1 hour' and b.t > a.t", {(0, 1)}),
        ("a.t between b.t - interval 1 hour and b.t + interval 1 hour", {(0, 0), (0, 1), (1, 0), (1, 1)}),
        ("a.m > b.m", {(1, 0)}),
        ("abs(a.m - b.m) <= 0.01", {(0, 0), (1, 1)}),
        ("a.d = date '2024-03-01' and b.x = a.x", {(0, 0)}),
        ("cast(a.t as date) = b.d", {(0, 0), (1, 0)}),
    ],
)
def test_dates_timestamps_and_decimals(on: str, want: set) -> None:
    columns = {
        "x": [1, 2],
        "d": [DAY, date(2024, 3, 2)],
        "t": [NOON, datetime(2024, 3, 1, 13)],
        "m": [Decimal("1.50"), Decimal("2.50")],
    }
    assert matches(on, columns, columns) == want


SIMILARITY = {
    # {p q}, {q} against {p q}, {q}: sharing 2 of 2, 1 of 2, 1 of 2 and 1 of 1
    "jaccard(a.w, b.w) >= 0.5": {(0, 0), (0, 1), (1, 0), (1, 1)},
    "jaccard(a.w, b.w) > 0.5": {(0, 0), (1, 1)},
    "overlap(a.w, b.w) >= 1": {(0, 0), (0, 1), (1, 0), (1, 1)},
    "overlap(a.w, b.w) >= 2": {(0, 0)},
    # (1, 0), (0, 2) against (2, 0), (0, 1)
    "cosine(a.v, b.v) > 0.9": {(0, 0), (1, 1)},
    "inner_product(a.v, b.v) >= 2": {(0, 0), (1, 1)},
    "distance(a.v, b.v) <= 1": {(0, 0), (1, 1)},
    "distance(a.v, b.v) < 1.5": {(0, 0), (0, 1), (1, 1)},
    "distance(a.v, b.v) < 1.5 and a.x = b.x": {(0, 0), (1, 1)},
}


@pytest.mark.parametrize("on", SIMILARITY)
def test_similarity_of_lists(on: str) -> None:
    """Sets have no repeats; a null list is similar to nothing."""
    words, vectors = pa.list_(pa.string()), pa.list_(pa.float64())
    a = {
        "x": [1, 2, 3],
        "w": pa.array([["p", "q", "p"], ["q"], None], words),
        "v": pa.array([[1.0, 0.0], [0.0, 2.0], None], vectors),
    }
    b = {
        "x": [1, 2, 3],
        "w": pa.array([["q", "p"], ["q", "q"], None], words),
        "v": pa.array([[2.0, 0.0], [0.0, 1.0], None], vectors),
    }
    assert matches(on, a, b) == SIMILARITY[on]


def test_similarity_of_integer_sets() -> None:
    a = {"w": pa.array([[1, 2, 3], [], [4, None]], pa.list_(pa.int64()))}
    b = {"w": pa.array([[2, 3, 4], [9]], pa.list_(pa.int64()))}
    assert matches("jaccard(a.w, b.w) >= 0.5", a, b) == {(0, 0)}
    assert matches("jaccard(a.w, b.w) >= 0.2", a, b) == {(0, 0), (2, 0)}


def test_registered_functions() -> None:
    a, b = {"x": [1, 2, None]}, {"x": [4, 1, None]}
    by_row = {"square": lambda x, y: x is not None and y is not None and x * x == y}
    assert matches("square(a.x, b.x)", a, b, functions=by_row) == {(0, 1), (1, 0)}
    whole = wr.Function(lambda x, y: pc.equal(pc.multiply(x, x), y), vectorized=True)
    assert matches("square(a.x, b.x)", a, b, functions={"square": whole}) == {(0, 1), (1, 0)}
    number = wr.Function(lambda x: None if x is None else x * x, returns=pa.int64())
    assert matches("twice(a.x) = b.x", a, b, functions={"twice": number}) == {(0, 1), (1, 0)}
    assert matches("a.x < b.x and square(a.x, b.x)", a, b, functions=by_row) == {(1, 0)}


def test_a_condition_over_three_streams() -> None:
    query = wr.Query({alias: wr.Stream("ts", "1 hour") for alias in "abc"}, "a.x + b.x = c.x")
    tables = {alias: tiny([0, 1, 2], x=[1, 2, 3]) for alias in "abc"}
    want = Counter([(0, 0, 1), (0, 1, 2), (1, 0, 2)])
    assert play(query, tables) == want
    assert play(query, {"c": tables["c"]}, {"a": tables["a"]}, {"b": tables["b"]}) == want


def test_a_cross_product_must_be_allowed() -> None:
    streams = {alias: wr.Stream("ts", "2 seconds") for alias in "ab"}
    tables = {alias: tiny([0, 2, 4], x=[1, 2, 3]) for alias in "ab"}
    near = Counter((x, y) for x in range(3) for y in range(3) if abs(x - y) <= 1)
    assert play(wr.Query(streams, "true", allow_cross_join=True), tables) == near
    got = play(wr.Query(streams, "a.x > 1", allow_cross_join=True), tables)
    assert got == Counter({pair: 1 for pair in near if pair[0] > 0})
    with pytest.raises(wr.QueryError, match="allow_cross_join"):
        play(wr.Query(streams, "a.x > 1"), tables)


def test_a_cross_product_of_two_pairs() -> None:
    streams = {alias: wr.Stream("ts", "1 hour") for alias in "abcd"}
    tables = {alias: tiny([0, 1], x=[1, 2]) for alias in "abcd"}
    got = play(wr.Query(streams, "a.x = b.x and c.x = d.x", allow_cross_join=True), tables)
    assert got == Counter([(p, p, q, q) for p in range(2) for q in range(2)])


def test_fields_of_structs_and_names_that_need_quotes() -> None:
    nested = pa.array([{"k": 1, "z": "p"}, {"k": 2, "z": "q"}, None])
    odd = {"odd name": [2, 1, 3], "Mixed": [1, 2, 3]}
    assert matches('a.n.k = b."odd name"', {"n": nested}, odd) == {(0, 1), (1, 0)}
    assert matches("A.n.k = b.mixed", {"n": nested}, odd) == {(0, 0), (1, 1)}


def test_two_thousand_strings_match_only_themselves() -> None:
    names = [f"{n:05d}" for n in range(2_000)]
    got = matches("a.s = b.s", {"s": names}, {"s": list(reversed(names))})
    assert got == {(n, 1_999 - n) for n in range(2_000)}


def test_the_twins_collide() -> None:
    """If the hash function changes, other values must be made for the two tests below."""
    data = np.frombuffer("".join(TWIN_TEXTS).encode(), np.uint8)
    first, second = hashing.hash_bytes(np.array([0, 16, 32]), data)
    assert first == second
    first, second = hashing.combine(*np.array(TWIN_PAIRS).T.copy())
    assert first == second


@pytest.mark.parametrize("access", [None, "hash", "hash(1)", "sorted", "scan"])
def test_a_collision_of_hashes_is_no_match(access: str | None) -> None:
    streams = {alias: wr.Stream("ts", "1 hour", access) for alias in "ab"}
    left, right = ({"s": list(TWIN_TEXTS)}, {"s": [*reversed(TWIN_TEXTS), None]})
    tables = {"a": tiny([0, 0], **left), "b": tiny([0, 0, 0], **right)}
    assert play(wr.Query(streams, "a.s = b.s"), tables) == Counter([(0, 1), (1, 0)])
    k, z = (list(column) for column in zip(*TWIN_PAIRS, strict=True))
    tables = {alias: tiny([0, 0], k=k, z=z) for alias in "ab"}
    assert play(wr.Query(streams, "a.k = b.k and a.z = b.z"), tables) == Counter([(0, 0), (1, 1)])


def test_a_collision_of_hashes_makes_texts_neither_equal_nor_unequal_by_mistake() -> None:
    columns = {"s": list(TWIN_TEXTS), "x": [1, 1]}
    assert matches("a.s <> b.s", columns, columns) == {(0, 1), (1, 0)}
    assert matches("a.x = b.x and a.s <> b.s", columns, columns) == {(0, 1), (1, 0)}
    assert matches("a.s = b.s and a.x = b.x", columns, columns) == {(0, 0), (1, 1)}
