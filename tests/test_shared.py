"""Isolation (claim S7): whatever shares the join, however scheduled, a query gets what it gets alone.

Every example runs each query alone as well, which takes long: few in every run, thousands of others in
make soak.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windrow as wr
from queries import Case, examples
from results import ids
from shared_cases import (
    Asked,
    flat,
    ids_in_order,
    newest_in_order,
    run_alone,
    schemas_of,
    shared_cases,
    ticking,
)

SCHEDULES = ("lwo", "swf", "greedy")


def check_content(case: Case, query: wr.Query, got: list) -> None:
    op = wr.Operator(query, schemas=schemas_of(case))
    plain: Counter = Counter()
    for call in case.inputs():
        plain += ids(op.process(call))
    assert Counter(got) == plain + ids(op.finish())


@pytest.mark.parametrize("counted", [False, True])
def test_each_query_gets_what_it_gets_alone(counted):
    @examples(8)
    @given(shared_cases(counted=counted), st.frozensets(st.integers(0, 6), max_size=2))
    def check(drawn: tuple[Case, dict[str, Asked]], restarts: frozenset[int]) -> None:
        case, asked = drawn
        queries = {name: a.query(case) for name, a in asked.items()}
        op = wr.SharedOperator(queries, schemas=schemas_of(case))
        assert len(op.groups) == 1
        outputs = []
        for number, call in enumerate(case.inputs()):
            outputs.append(op.process(call))
            if number in restarts:
                op = wr.SharedOperator.restore(queries, op.snapshot())
        outputs.append(op.finish())
        for name, query in queries.items():
            alone = run_alone(case, query)
            assert [ids_in_order(out[name]) for out in outputs] == [ids_in_order(t) for t in alone]
            for table in alone:
                assert all(x <= y for x, y in pairwise(newest_in_order(table)))
            check_content(case, query, flat(alone))

    check()


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_under_a_deadline_nothing_is_lost_and_the_order_stays(schedule, counted):
    @examples(6)
    @given(
        shared_cases(counted),
        st.sampled_from(["100 ms", "300 ms", "1 s", "20 rows/s"]),
        st.sampled_from([None, 0, 5, 10_000]),
        st.frozensets(st.integers(0, 6), max_size=2),
    )
    def check(drawn, deadline: str, backlog: int | None, restarts: frozenset[int]) -> None:
        case, asked = drawn
        queries = {name: a.query(case) for name, a in asked.items()}
        options = {"schedule": schedule, "deadline": deadline, "max_backlog": backlog, "clock": ticking()}
        op = wr.SharedOperator(queries, schemas=schemas_of(case), **options)
        outputs = []
        for number, call in enumerate(case.inputs()):
            outputs.append(op.process(call))
            if number in restarts:
                op = wr.SharedOperator.restore(queries, op.snapshot(), **options)
            if backlog is not None:
                assert all(q.backlog_rows <= backlog for q in op.metrics().queries.values())
        outputs.append(op.finish())
        for name, query in queries.items():
            got = [row for out in outputs for row in ids_in_order(out[name])]
            assert got == flat(run_alone(case, query))
        assert all(q.backlog_rows == 0 for q in op.metrics().queries.values())

    check()


@pytest.mark.parametrize("counted", [False, True])
def test_who_repeats_a_call_leaves_off_at_the_same_place(counted):
    """Under a deadline: one that has run all along, and one made from its state; other clocks, too."""

    @examples(6)
    @given(shared_cases(counted), st.sampled_from(SCHEDULES))
    def check(drawn, schedule: str) -> None:
        case, asked = drawn
        queries = {name: a.query(case) for name, a in asked.items()}
        options = {"schedule": schedule, "deadline": "500 ms", "max_backlog": 10_000}
        op = wr.SharedOperator(queries, schemas=schemas_of(case), clock=ticking(), **options)
        for number, call in enumerate(case.inputs()):
            if number % 4:
                op.process(call)
                continue
            twin = wr.SharedOperator.restore(queries, op.snapshot(), clock=ticking(0.01), **options)
            mine, theirs = op.process(call), twin.process(call)
            for name in queries:
                assert ids_in_order(mine[name]) == ids_in_order(theirs[name])
            left = [{n: q.backlog_rows for n, q in o.metrics().queries.items()} for o in (op, twin)]
            assert left[0] == left[1]

    check()


@pytest.mark.parametrize("schedule", [None, "counted", *SCHEDULES])
def test_queries_come_and_go_without_disturbing_others(schedule):
    counted = schedule == "counted"

    @examples(8)
    @given(shared_cases(counted), st.data(), restarts_around_changes())
    def check(drawn, data, restarts: frozenset[tuple[int, str]]) -> None:
        case, asked = drawn
        queries = {name: a.query(case) for name, a in asked.items()}
        timed = {} if counted or schedule is None else {"schedule": schedule, "deadline": "300 ms"}
        op = wr.SharedOperator({"q0": queries["q0"]}, schemas=schemas_of(case), clock=ticking(), **timed)
        calls = case.inputs()
        times = [t for call in calls for table in call.values() for t in newest_in_order_of(table)]
        moment = st.none() | (st.sampled_from(times) if times else st.none())
        added = {n: (data.draw(st.integers(0, len(calls))), data.draw(moment)) for n in list(queries)[1:]}
        gone = {
            n: (data.draw(st.integers(begin, len(calls))), data.draw(moment))
            for n, (begin, _) in added.items()
            if data.draw(st.booleans())
        }
        got: dict[str, list] = {name: [] for name in queries}
        complete, since, until = {}, {}, {}

        def restarted(op: wr.SharedOperator) -> wr.SharedOperator:
            return wr.SharedOperator.restore({"q0": queries["q0"]}, op.snapshot(), clock=ticking(), **timed)

        for number in range(len(calls) + 1):
            op = restarted(op) if (number, "before") in restarts else op
            newest = [
                s.max_event_time
                for s in op.metrics().joins[0].streams.values()
                if s.max_event_time is not None
            ]
            now = max(newest) + 1 if newest else None
            for name, (begin, at) in added.items():
                if begin == number:
                    op.add(name, queries[name], at)
                    told = op.metrics().queries[name]
                    complete[name], since[name] = told.complete_from, told.since
                    assert told.since == (now if at is None else at)
            for name, (end, at) in gone.items():
                if end == number and name in op.queries:
                    op.remove(name, at)
                    until[name] = now if at is None else at
            op = restarted(op) if (number, "after") in restarts else op
            out = op.process(calls[number]) if number < len(calls) else op.finish()
            complete |= {n: q.complete_from for n, q in op.metrics().queries.items()}
            for name, table in out.items():
                got[name] += zip(ids_in_order(table), newest_in_order(table), strict=True)
        assert [row for row, _ in got["q0"]] == flat(run_alone(case, queries["q0"]))
        for name, (begin, _) in added.items():
            alone = run_alone(case, queries[name])
            end, _ = gone.get(name, (len(alone), None)) if name in until else (len(alone), None)
            first, last = since[name], until.get(name)
            mine = [
                (row, t)
                for number, table in list(enumerate(alone))[begin:]
                for row, t in zip(ids_in_order(table), newest_in_order(table), strict=True)
                if (first is None or t >= first) and (number < end or (last is not None and t < last))
            ]
            whole = complete[name]
            assert not Counter(got[name]) - Counter(mine)
            want = [pair for pair in mine if whole is None or pair[1] >= whole]
            assert [pair for pair in got[name] if whole is None or pair[1] >= whole] == want

    check()


def restarts_around_changes() -> st.SearchStrategy[frozenset[tuple[int, str]]]:
    """Numbers of calls: a restart before queries are added and removed there, or after it."""
    return st.frozensets(st.tuples(st.integers(0, 5), st.sampled_from(["before", "after"])), max_size=3)


def newest_in_order_of(table) -> list[int]:
    return [t for t in table.column("ts").cast("int64").to_pylist() if t is not None]
