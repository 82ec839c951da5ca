"""Functions that predicates use every day: text, dates, elements of lists and maps."""

from __future__ import annotations

import pyarrow as pa
import pytest

from windrow.errors import QueryError
from windrow.expr.evaluate import evaluate
from windrow.expr.parse import parse

DAILY: dict[tuple[str, str], pa.Array] = {
    ("a", "s"): pa.array(["kitten", "\u00e9,b", None, ""]),
    ("a", "t"): pa.array(["sitting", "e,b", "x", "abc"]),
    ("a", "at"): pa.array([1_715_953_559_123_456, None, -1, 0], pa.timestamp("us")),
    ("a", "l"): pa.array([[1, 2], None, [], [7]]),
    ("a", "m"): pa.array([[("x", 1)], [("y", 2)], None, []], pa.map_(pa.string(), pa.int64())),
    ("a", "r"): pa.array([{"f": {"g": 5}}, None, {"f": None}, {"f": {"g": 6}}]),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("levenshtein(a.s, a.t)", [3, 1, None, 3]),
        ("levenshtein(a.s, 'b')", [6, 2, None, 1]),
        ("levenshtein('\u4f60\u597d', '\u4f60')", [1] * 4),
        ("split(a.s, ',')[1]", [None, "b", None, None]),
        ("split(a.s, '[, ]')[0]", ["kitten", "\u00e9", None, ""]),
        ("a.l[0]", [1, None, None, 7]),
        ("a.l[1]", [2, None, None, None]),
        ("a.l[-1]", [None] * 4),
        ("a.m['x']", [1, None, None, None]),
        ("a.r.f.g", [5, None, None, 6]),
        ("regexp_like(a.s, '^k')", [True, False, None, False]),
        (
            "year(date_trunc('month', a.at)) * 100 + day(date_trunc('month', a.at))",
            [202401, None, 196901, 197001],
        ),
        ("date_trunc('WEEK', a.at) = timestamp '2024-05-13 00:00:00'", [True, None, False, False]),
        ("second(date_trunc('minute', a.at))", [0, None, 0, 0]),
    ],
)
def test_functions_of_every_day(text: str, expected: list) -> None:
    node = parse(text, ["a"])
    assert evaluate(node, DAILY, 4, {}).to_pylist() == expected
    sliced = {name: array.slice(1, 2) for name, array in DAILY.items()}
    assert evaluate(node, sliced, 2, {}).to_pylist() == expected[1:3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("date_trunc('eon', a.at)", "date_trunc takes one of year, .*, got 'eon'"),
        ("a.s[0]", "is neither a list nor a map"),
        ("a.l[a.l[0]]", "needs one constant in brackets"),
        ("split(a.s, '(')", r"'\(' is not a valid pattern"),
        ("split(a.s, '')", "the empty text does not match"),
        ("split(a.s, 'x*')", "the empty text does not match"),
        ("soundex(a.s)", r"unknown function 'soundex'.*functions=\{'soundex': ...\}"),
    ],
)
def test_what_these_functions_refuse(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        evaluate(parse(text, ["a"]), DAILY, 4, {})
