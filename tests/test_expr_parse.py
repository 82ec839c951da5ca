"""Parsing: what the grammar keeps, and every refusal with its text."""

from __future__ import annotations

import pyarrow as pa
import pytest

from windrow.errors import QueryError
from windrow.expr.dialect import render
from windrow.expr.parse import conjuncts, parse, references, resolve


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A.id=B.id", "a.id = b.id"),
        ("a.id == b.id", "a.id = b.id"),
        ("a.id != b.id", "a.id <> b.id"),
        ("(a.id = b.id)", "a.id = b.id"),
        ('a.`we ird` = b."x y"', 'a."we ird" = b."x y"'),
        ("Lower( a.n )='it''s'", "LOWER(a.n) = 'it''s'"),
        ("a.t - interval 5 seconds < b.t", "a.t - INTERVAL '5' SECONDS < b.t"),
        ("my_fn(a.x, 1) -- why", "MY_FN(a.x, 1)"),
        ("a.n::bigint = 1", "CAST(a.n AS BIGINT) = 1"),
        ("a.s.f.g = 1", "a.s.f.g = 1"),
        ("a.time = b.date", "a.time = b.date"),
        ("a.x", "a.x"),
    ],
)
def test_canonical_text(text: str, expected: str) -> None:
    node = parse(text, ["a", "b"])
    assert render(node) == expected
    assert node.parent is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a.id ==== b.id",
            "cannot parse 'a.id ==== b.id' at line 1, column 8, near '==': something is missing",
        ),
        ("a.id = b.id)", "cannot parse 'a.id = b.id)' at line 1, column 12, near ')': not expected here"),
        ("(a.id = b.id", "at line 1, column 11, near 'id': expected ) after this"),
        ("a.n = 'x", "a quote is opened and never closed"),
        ("a.x = 1; b.x = 1", "expected one predicate such as 'a.id = b.id', got"),
        ("c.id = a.id", "unknown stream 'c'. Available: a, b (in c.id)"),
        ("id = b.id", "column 'id' names no stream. The streams are a, b; write a.id"),
        ("a.id = (select 1)", "subqueries are not supported"),
        ("a.id in (select id from t)", "subqueries are not supported"),
        ("exists (select 1)", "subqueries are not supported"),
        ("sum(a.x) > 1", "sum(...) needs many rows"),
        ("count(*) > 1", "count(...) needs many rows"),
        ("row_number() over (order by a.x) = 1", "window functions are not supported"),
        ("a.*", "* is not supported here"),
        ("a.x = ?", "parameters are not supported"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text, ["a", "b"])
    assert message in str(caught.value)


def test_conjuncts_and_references() -> None:
    node = parse("(a.x = 1) and ((b.y = 2 and a.z = 3) or a.x = 2) and (a.q = 1 and b.r = 1)", ["a", "b"])
    assert [render(part) for part in conjuncts(node)] == [
        "a.x = 1",
        "(b.y = 2 AND a.z = 3) OR a.x = 2",
        "a.q = 1",
        "b.r = 1",
    ]
    assert references(node) == {("a", "x"), ("b", "y"), ("a", "z"), ("a", "q"), ("b", "r")}


def test_columns_as_the_schema_spells_them() -> None:
    schemas = {"a": pa.schema([("Id", pa.int64()), ("id", pa.int64()), ("Name", pa.string())])}
    node = resolve(parse("a.id = a.Id and a.NAME = 'x'", ["a"]), schemas)
    assert render(node) == "a.id = a.Id AND a.Name = 'x'"
    with pytest.raises(
        QueryError, match="column 'ID' of stream 'a' could be Id or id; write it in the right case"
    ):
        resolve(parse("a.ID = 1", ["a"]), schemas)
    with pytest.raises(
        QueryError, match=r"unknown column 'nam' of stream 'a'\. Did you mean 'Name'\? Available"
    ):
        resolve(parse("a.nam = 1", ["a"]), schemas)
