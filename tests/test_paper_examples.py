"""Worked examples of the papers, with the numbers they print."""

from __future__ import annotations

import pyarrow as pa
import pytest

import windrow as wr
from queries import tiny

# MultiJoin, Table 2: three windows of 100 seconds, all rows with attr = 1.
TIMES = {"s1": [90, 100], "s2": [150, 180], "s3": [195, 205]}
# Table 3, bottom: the correct results that contain a new row of S3.
CORRECT = {(100, 150, 195), (100, 180, 195)}
# Table 3, top: what the naive algorithm returns if it does not check each row against the newest.
INCORRECT = {(x, y, z) for x in (90, 100) for y in (150, 180) for z in (195, 205)}

ALGORITHMS = ["eager", "naive", "general"]
PATHS = ["hash", "sorted", "scan"]


def query(**options) -> wr.Query:
    access = options.pop("access", None)
    streams = {alias: wr.Stream("ts", "100 seconds", access) for alias in TIMES}
    return wr.Query(streams, "s1.attr = s2.attr and s2.attr = s3.attr", **options)


def rows(alias: str, *times: float) -> dict[str, pa.Table]:
    return {alias: tiny(times, attr=[1] * len(times))}


def seconds(output: pa.Table) -> set[tuple[int, ...]]:
    columns = (
        [[row["ts"].timestamp() for row in output.column(a).to_pylist()] for a in TIMES] if output else []
    )
    found = list(zip(*columns, strict=True))
    assert len(set(found)) == len(found)
    return set(found)


def all_correct() -> set[tuple[int, int, int]]:
    """Each pair within 100 s: 90 is too old for 195, 100 for 205 (by 5 s); nothing else is lost."""
    return {combination for combination in INCORRECT if max(combination) - min(combination) <= 100}


def test_the_exact_answer_over_table_2_is_table_3() -> None:
    """No combination without S3 exists in a three-way join, so the new-row results are all results."""
    assert all_correct() == CORRECT


@pytest.mark.parametrize("access", PATHS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_table_3_in_one_call(algorithm: str, access: str) -> None:
    """Lazy re-evaluation at time 210: everything since the start at once."""
    op = wr.Operator(query(algorithm=algorithm, access=access))
    output = op.process({a: tiny(t, attr=[1, 1]) for a, t in TIMES.items()})
    assert seconds(output) == CORRECT


@pytest.mark.parametrize("access", PATHS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_table_3_with_new_rows_of_s3(algorithm: str, access: str) -> None:
    """The windows of S1 and S2 as in Table 2, then both new S3 rows in one batch, as in Section 3.1."""
    op = wr.Operator(query(algorithm=algorithm, access=access, order=("s1", "s2", "s3")))
    assert op.process(rows("s1", *TIMES["s1"]) | rows("s2", *TIMES["s2"])).num_rows == 0
    assert seconds(op.process(rows("s3", *TIMES["s3"]))) == CORRECT


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_table_3_row_by_row(algorithm: str) -> None:
    """In order of arrival: the row at 195 completes both results, the row at 205 none."""
    op = wr.Operator(query(algorithm=algorithm))
    arriving = sorted((time, alias) for alias, times in TIMES.items() for time in times)
    found = {time: op.process(rows(alias, time)) for time, alias in arriving}
    assert {time for time, output in found.items() if output.num_rows} == {195}
    assert seconds(found[195]) == CORRECT


def test_each_arriving_stream_may_be_the_newest() -> None:
    """Section 3.1: whichever stream brings the newest row, each other row must be in its own window then."""
    times = {"s1": [0, 205], "s2": [100, 110], "s3": [104, 200]}
    op = wr.Operator(query())
    output = op.process({a: tiny(t, attr=[1, 1]) for a, t in times.items()})
    want = {(x, y, z) for x in times["s1"] for y in times["s2"] for z in times["s3"]}
    want = {combination for combination in want if max(combination) - min(combination) <= 100}
    assert want == {(205, 110, 200)}
    assert seconds(output) == {(205, 110, 200)}
