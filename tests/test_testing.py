"""What users test their queries with: the exact answer, tables from text, the player, the comparison."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest
from hypothesis import given

import windrow as wr
from queries import Case, cases, examples
from windrow.testing import StreamPlayer, assert_same_rows, exact_answer, in_steps, table

QUERY = wr.Query({"a": wr.Stream("at", "5 s"), "b": wr.Stream("at", "3 s")}, on="a.k = b.k")


@examples(15)
@given(cases(nans=False))
def test_the_exact_answer_is_that_of_the_oracle(case: Case) -> None:
    """Conditions evaluated from SQL give the combinations that conditions written in Python give."""
    found = exact_answer(case.query(), *case.inputs()) if all(_present(case)) else None
    if found is not None:
        columns = [[row["id"] for row in found.column(alias).to_pylist()] for alias in case.windows]
        assert sorted(zip(*columns, strict=True)) == sorted(case.answer().elements())


def _present(case: Case) -> list[bool]:
    return [any(alias in step for step in case.inputs()) for alias in case.windows]


def test_tables_from_text():
    found = table("""
        at                   k  x    s      flag
        2024-05-01T12:00:00  1  1.5  "a b"  true
        12:00:05             -  2    c      -
    """)
    kinds = [pa.timestamp("us"), pa.int64(), pa.float64(), pa.string(), pa.bool_()]
    assert found.schema.types == kinds
    assert found.to_pylist()[1] == {
        "at": datetime(2024, 1, 1, 12, 0, 5), "k": None, "x": 2.0, "s": "c", "flag": None,
    }  # fmt: skip
    with pytest.raises(wr.DataError, match="expected a value for each"):
        table("at k; 1")
    with pytest.raises(wr.DataError, match="no time column 'at'"):
        table("ts k; 1 2")
    with pytest.raises(wr.DataError, match="expected seconds, a time or a timestamp, got 'soon'"):
        table("at; soon")


def test_a_player_gives_the_exact_answer_in_any_steps_and_through_restarts():
    tables = {"a": table("at k; 0 1; 1 2; 4 1; 9 1"), "b": table("at k; 2 1; 6 2; 7 1")}
    for rows in (1, 2, 3, 100):
        player = StreamPlayer(QUERY)
        for step in in_steps(QUERY, tables, rows):
            player.feed(**step)
            player.restart()
        assert_same_rows(player.finish(), exact_answer(QUERY, tables))


def test_rows_are_compared_as_a_multiset():
    twice = [{"k": 1}, {"k": 1}]
    assert_same_rows(twice, list(twice))
    assert_same_rows([{"x": float("nan")}], [{"x": float("nan")}])
    with pytest.raises(AssertionError, match=r"1 row is missing: \{'k': 1\}; 1 row is too many: \{'k': 2\}"):
        assert_same_rows([{"k": 2}, {"k": 1}], twice)


def test_too_large_tables_are_refused():
    large = pa.table({"at": pa.array(range(3000), pa.timestamp("us")), "k": range(3000)})
    with pytest.raises(wr.QueryError, match="combinations of rows"):
        exact_answer(QUERY, {"a": large, "b": large})
