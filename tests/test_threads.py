"""Several threads give the answer of one, in an order that does not depend on which is faster."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import results
import windrow as wr
from outer_cases import OuterCase, outer_cases, outer_ids
from queries import Case, cases, examples
from windrow.engine import threads
from windrow.engine.threads import AHEAD, Threads
from windrow.errors import QueryError, StateError
from windrow.testing.oracle import SECOND


@pytest.fixture(scope="module", autouse=True)
def _used_for_few_rows() -> Iterator[None]:
    """Random cases have few rows, which one thread would join alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "LEAST_ROWS", 0)
        yield


# --- Answers ----------------------------------------------------------------------------------------------


@examples(60)
@given(cases())
def test_inner_joins_equal_the_oracle_and_go_on_with_another_number_of_threads(case: Case) -> None:
    output, measured = case.run(threads=(2, 1, 3))
    answer = case.answer()
    assert results.ids(output) == answer
    results.assert_payload(output, case.tables)
    assert measured.results == answer.total()
    assert measured.rows_late == case.admitted().late.total()


@examples(30)
@given(cases(counted=True, most_streams=4))
def test_row_windows_equal_the_oracle(case: Case) -> None:
    assert results.ids(case.run(threads=(3, 1))[0]) == case.answer()


@examples(40)
@given(outer_cases())
def test_outer_joins_equal_the_oracle(case: OuterCase) -> None:
    output, measured = case.run(threads=(2, 1, 3))
    answer = case.answer()
    assert outer_ids(output) == answer
    assert measured.results == answer.total()


@examples(20)
@given(cases(most_streams=3))
def test_results_come_in_the_same_order_every_time(case: Case) -> None:
    first, again = (list(results.ids(case.run(threads=(2,))[0])) for _ in range(2))
    assert first == again


# --- Many rows, so that the threads meet ------------------------------------------------------------------

ROWS, CALL = 60_000, 12_000


def _streams(seed: int = 3) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    return {
        alias: pa.table(
            {
                "id": np.arange(ROWS),
                "ts": pa.array(np.sort(rng.integers(0, 600 * SECOND, ROWS)), pa.timestamp("us")),
                "k": rng.integers(0, 2_000, ROWS),
                "s": pa.array([f"key {n}" for n in rng.integers(0, 2_000, ROWS)]),
            }
        )
        for alias in "abc"
    }


def _played(query: wr.Query, count: int) -> tuple[pa.Table, wr.Operator]:
    tables, operator = _streams(), wr.Operator(query, threads=count)
    calls = [{a: tables[a].slice(n, CALL) for a in query.aliases} for n in range(0, ROWS, CALL)]
    return pa.concat_tables([*(operator.process(call) for call in calls), operator.finish()]), operator


@pytest.mark.parametrize(
    "on", ["a.k = b.k", "a.s = b.s and a.k <= b.k", "a.k = b.k and b.s = c.s", "a.k = b.k and b.k = c.k"]
)
def test_many_rows_give_the_results_of_one_thread(on: str) -> None:
    streams = {a: wr.Stream("ts", "20 s") for a in "abc" if f"{a}." in on}
    (one, alone), (two, both) = (_played(wr.Query(streams, on), count) for count in (1, 2))
    assert results.ids(one) == results.ids(two)
    assert one.num_rows > 1_000
    assert alone.metrics() == both.metrics()


@pytest.mark.parametrize("shed", ["auto", "frequency", "importance", "uniform", "fifo"])
def test_a_memory_limit_holds_and_what_is_shed_does_not_depend_on_the_faster_thread(shed: Any) -> None:
    streams = {a: wr.Stream("ts", "60 s") for a in "ab"}
    if shed == "importance":
        shed = wr.policies.Importance(by={"a": "a.k"})
    query = wr.Query(streams, "a.k = b.k", memory="4000 rows", shed=shed, seed=1)
    (first, operator), (again, other) = (_played(query, 2) for _ in range(2))
    assert first.equals(again)
    measured = operator.metrics()
    assert measured == other.metrics()
    assert measured.window_rows <= 4_000 and measured.rows_evicted > 0
    exact = results.ids(_played(wr.Query(streams, "a.k = b.k"), 2)[0])
    found = results.ids(first.select(["a", "b"]))
    assert found <= exact and 0 < found.total() < exact.total()


def test_snapshots_are_the_same_on_any_number_of_threads() -> None:
    query = wr.Query({a: wr.Stream("ts", "20 s") for a in "ab"}, "a.k = b.k")
    one, two = (_played(query, count)[1].snapshot() for count in (1, 2))
    assert one == two


# --- What goes wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "2", None])
def test_a_number_of_threads_below_one_is_refused(count: Any) -> None:
    query = wr.Query({a: wr.Stream("ts", "20 s") for a in "ab"}, "a.k = b.k")
    with pytest.raises(QueryError, match="threads: expected a number of threads from 1 on"):
        wr.Operator(query, threads=count)


def test_a_deadline_is_refused_on_several_threads() -> None:
    query = wr.Query({a: wr.Stream("ts", "20 s") for a in "ab"}, "a.k = b.k", deadline="1 s")
    with pytest.raises(QueryError, match="threads: a call with a deadline runs on one thread"):
        wr.Operator(query, threads=2)
    wr.Operator(query, threads=1)


def test_an_error_on_a_thread_reaches_the_caller_and_the_operator_is_not_used_again() -> None:
    def fails(left: pa.Array, right: pa.Array) -> pa.Array:
        raise ValueError(f"in {threading.current_thread().name}")

    query = wr.Query(
        {a: wr.Stream("ts", "20 s") for a in "ab"},
        "a.k = b.k and fails(a.id, b.id)",
        functions={"fails": wr.Function(fails, pa.bool_())},
    )
    operator, tables = wr.Operator(query, threads=2), _streams()
    with pytest.raises(Exception, match="in windrow"):
        operator.process({a: tables[a].slice(0, CALL) for a in "ab"})
    with pytest.raises(StateError, match="an earlier call of this operator failed"):
        operator.snapshot()


# --- The threads themselves -------------------------------------------------------------------------------


def test_results_are_in_the_order_of_the_work() -> None:
    first_waits = threading.Event()

    def work(item: int) -> list[int]:
        if item == 0:
            first_waits.wait(10)
        if item == 1:
            first_waits.set()
        return [item] * item

    assert list(Threads(2).map(work, range(5))) == [1, 2, 2, 3, 3, 3, 4, 4, 4, 4]


def test_work_is_done_only_a_few_items_ahead() -> None:
    read: list[int] = []
    found = Threads(2).map(lambda item: [item], (read.append(n) or n for n in range(100)))
    assert next(found) == 0
    assert len(read) == 2 * AHEAD
    assert Counter(found) == Counter(range(1, 100))


def test_one_thread_computes_a_result_when_it_is_asked_for() -> None:
    done: list[int] = []
    found = Threads(1).map(lambda item: (done.append(item) or item for _ in range(2)), [1, 2])
    assert next(found) == 1
    assert done == [1]


def test_parts_cover_all_rows_and_are_of_bounded_size() -> None:
    for rows in (1, 2, 7, 70_000, 1_000_000):
        parts = Threads(2).parts(10, 10 + rows)
        assert [a for a, _ in parts] == [10, *(b for _, b in parts[:-1])]
        assert parts[-1][1] == 10 + rows
        assert max(b - a for a, b in parts) <= threads.MOST_ROWS
        assert len(parts) >= min(2, rows)
