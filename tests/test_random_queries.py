"""The engine against the oracle over random queries, and the oracle against DuckDB.

`pytest --soak` runs ten times more, with new seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given

import results
import windrow as wr
from flows import CUTS
from queries import Case, cases, examples, play
from terms import equality
from windrow.testing.oracle import SECOND


def check(case: Case) -> None:
    output, measured = case.run()
    answer = case.answer()
    got = results.ids(output)
    assert got == answer, f"too many: {got - answer}, missing: {answer - got}"
    results.assert_payload(output, case.tables)
    admitted = case.admitted()
    assert measured.results == answer.total()
    assert measured.rows_in == sum(table.num_rows for table in case.tables.values())
    assert measured.rows_null_time == admitted.null_time.total()
    assert measured.rows_late == admitted.late.total()
    for alias, table in case.tables.items():
        assert measured.streams[alias].rows_in == table.num_rows
        assert measured.streams[alias].rows_late == admitted.late[alias]


@examples(70)
@given(cases(most_streams=2, spills=True))
def test_two_streams(case: Case) -> None:
    check(case)


@examples(120)
@given(cases(spills=True))
def test_two_to_five_streams(case: Case) -> None:
    check(case)


@examples(80)
@given(cases(counted=True, most_streams=4, spills=True))
def test_count_windows(case: Case) -> None:
    check(case)


def in_windows(windows: Mapping[str, int]) -> str:
    """The time condition on every pair of streams, in DuckDB's SQL."""
    return " and ".join(
        f"epoch_us({j}.ts) - epoch_us({i}.ts) <= {windows[i]}" for i in windows for j in windows if i != j
    )


def duckdb_answer(case: Case) -> Counter[tuple]:
    """The same question as plain SQL: the time condition on every pair of streams, spelled out."""
    aliases = list(case.windows)
    where = f"{case.sql} and {in_windows(case.windows)}"
    with duckdb.connect() as connection:
        for alias in aliases:
            connection.register(f"stream_{alias}", case.tables[alias])
        columns = ", ".join(f"{a}.id" for a in aliases)
        source = ", ".join(f"stream_{a} {a}" for a in aliases)
        return Counter(connection.execute(f"select {columns} from {source} where {where}").fetchall())


@examples(40)
@given(cases(late=False, idle=False, nans=False, snapshots=False))
def test_the_oracle_agrees_with_duckdb(case: Case) -> None:
    assume(not any(name in case.sql for name in ("alike", "jaccard", "overlap")))  # unknown to DuckDB
    in_order = [{alias: list(range(table.num_rows)) for alias, table in case.tables.items()}]
    everything = Case(case.windows, case.terms, case.tables, in_order)
    assert everything.answer() == duckdb_answer(everything)


@pytest.mark.parametrize("algorithm", ["eager", "naive", "general"])
@pytest.mark.parametrize("cut", [500, 20_000])
def test_twenty_thousand_rows_per_stream_against_duckdb(algorithm: str, cut: int) -> None:
    """Three streams joined in a chain of an equality, a band and a comparison, late rows included."""
    count, rng = 20_000, np.random.default_rng(5)
    late, windows = 2 * SECOND, {"a": 20 * SECOND, "b": 5 * SECOND, "c": 40 * SECOND}
    tables = {}
    for alias in windows:
        times = np.sort(rng.integers(0, 2_000 * SECOND, count))
        arrival = np.argsort(times + rng.integers(0, late, count), kind="stable")
        tables[alias] = pa.table(
            {
                "id": np.arange(count),
                "ts": pa.array(times[arrival], pa.timestamp("us")),
                "k": rng.integers(0, 500, count),
                "x": rng.normal(size=count) * 100,
                "name": pa.array([f"{alias}{n % 97}" for n in range(count)]),
            }
        )
    on = "a.k = b.k and abs(b.x - c.x) <= 1.5 and a.x < c.x"
    streams = {a: wr.Stream(time="ts", within=f"{window} us") for a, window in windows.items()}
    op = wr.Operator(wr.Query(streams, on, late=late, algorithm=algorithm))
    outputs = [op.process({a: t.slice(n, cut) for a, t in tables.items()}) for n in range(0, count, cut)]
    output = pa.concat_tables(outputs)
    results.assert_payload(output, tables)
    with duckdb.connect() as connection:
        for alias, table in tables.items():
            connection.register(alias, table)
        answer = connection.sql(
            f"select a.id a, b.id b, c.id c from a, b, c where {on} and {in_windows(windows)} order by all"
        ).to_arrow_table()
    got = pa.table({a: pa.array([row["id"] for row in output.column(a).to_pylist()]) for a in windows})
    assert got.num_rows == answer.num_rows > 1_000
    assert got.sort_by([(a, "ascending") for a in windows]).equals(answer)
    assert op.metrics().rows_late == 0


LONG_RUNS = [
    *product(
        ["a.k = b.k", "a.k = b.k and abs(a.x - b.x) <= 50"], [None, "hash", "hash(16)", "sorted", "scan"]
    ),
    *product(["abs(a.x - b.x) <= 0.5"], [None, "sorted", "scan"]),
]


@pytest.mark.parametrize(("on", "access"), LONG_RUNS)
def test_a_long_run_by_each_path(on: str, access: str | None) -> None:
    """Windows turn over some fifty times, rows come up to 3 s late, in uneven calls, with restarts."""
    count, late, rng = 4_000, 3 * SECOND, np.random.default_rng(8)
    windows = {"a": 20 * SECOND, "b": 10 * SECOND}
    tables, calls = {}, []
    for alias in windows:
        times = np.sort(rng.integers(-500 * SECOND, 500 * SECOND, count))
        arrival = np.argsort(times + rng.integers(0, late, count), kind="stable")
        stamps = pa.array(times[arrival], pa.timestamp("us"))
        keys, values = rng.integers(0, 20, count), rng.normal(size=count) * 100
        tables[alias] = pa.table({"id": np.arange(count), "ts": stamps, "k": keys, "x": values})
    at = 0
    while at < count:
        size = int(rng.choice([1, 7, 50, 200]))
        calls.append({alias: table.slice(at, size) for alias, table in tables.items()})
        at += size
    streams = {a: wr.Stream(time="ts", within=f"{window} us", access=access) for a, window in windows.items()}
    query = wr.Query(streams, on, late=late)
    op, outputs = wr.Operator(query), []
    for number, call in enumerate(calls):
        outputs.append(op.process(call))
        if number % 20 == 19:
            op = wr.Operator.restore(query, op.snapshot())
    output = pa.concat_tables(outputs)
    with duckdb.connect() as connection:
        for alias, table in tables.items():
            connection.register(alias, table)
        answer = connection.execute(f"select a.id, b.id from a, b where {on} and {in_windows(windows)}")
        assert results.ids(output) == Counter(answer.fetchall()) != Counter()
    results.assert_payload(output, tables)
    assert op.metrics().rows_late == 0
    assert op.metrics().window_rows < 1_000


@pytest.mark.parametrize("cut", CUTS)
def test_batch_cuts_do_not_change_the_answer(cut: int) -> None:
    """200 rows a stream, in order, with many equal times, handed over in pieces of each size."""
    rng = np.random.default_rng(1)
    tables = {
        alias: pa.table(
            {
                "id": np.arange(200),
                "ts": pa.array(np.sort(rng.integers(-50, 50, 200)) * SECOND, pa.timestamp("us")),
                "k": rng.integers(0, 5, 200),
            }
        )
        for alias in "ab"
    }
    windows = {"a": 3 * SECOND, "b": 7 * SECOND}
    in_order = [{alias: list(range(200)) for alias in windows}]
    answer = Case(windows, [equality("a", "b", "k")], tables, in_order).answer()
    streams = {a: wr.Stream(time="ts", within=f"{window} us") for a, window in windows.items()}
    calls = [{a: t.slice(n, cut) for a, t in tables.items()} for n in range(0, 200, cut)]
    assert play(wr.Query(streams, "a.k = b.k"), *calls) == answer
