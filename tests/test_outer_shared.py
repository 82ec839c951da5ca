"""Outer, semi, anti and as-of joins among shared queries: each gets its exact answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windrow as wr
from outer_cases import OuterCase, outer_cases, outer_ids
from outer_oracle import MISSING, Bound
from queries import examples, tiny
from shared_cases import schemas_of, ticking

PAIR = {x: wr.Stream("ts", "5 s") for x in "ab"}


def wider(case: OuterCase) -> OuterCase:
    wide = {a: 3 * w if isinstance(w, int) else (3 * w[0], w[1]) for a, w in case.windows.items()}
    return replace(case, windows=wide)


def newest(bound: Bound) -> int:
    return max(row["ts"] for row in bound.values() if row is not MISSING)


def answer(case: OuterCase, taken: Callable[[int], bool]) -> Counter[tuple]:
    """Results whose newest row has a time that is taken."""
    found = (bound for bound in case.question().combinations() if taken(newest(bound)))
    return Counter(tuple(row.get("id") for row in bound.values()) for bound in found)


@examples(30)
@given(
    outer_cases(snapshots=False) | outer_cases(snapshots=False, counted=True),
    st.frozensets(st.integers(0, 6), max_size=2),
    st.sampled_from([None, "300 ms"]),
)
def test_each_query_gets_its_answer(case: OuterCase, restarts: frozenset[int], deadline: str | None) -> None:
    cases = {
        "outer": case,
        "again": case,
        "wide": wider(case),
        "inner": replace(case, how="inner", match=None),
    }
    queries = {name: each.query() for name, each in cases.items()}
    options = {"deadline": deadline, "clock": ticking()}
    op = wr.SharedOperator(queries, schemas=schemas_of(case), **options)
    outputs = []
    for number, call in enumerate(case.inputs()):
        outputs.append(op.process(call))
        if number in restarts:
            op = wr.SharedOperator.restore(queries, op.snapshot(), **options)
    outputs.append(op.finish())
    for name, each in cases.items():
        got = sum((outer_ids(output[name]) for output in outputs), Counter())
        assert got == each.answer(), name
        assert op.metrics().queries[name].results == got.total()


@examples(60)
@given(
    outer_cases(snapshots=False) | outer_cases(snapshots=False, counted=True),
    st.integers(0, 6),
    st.integers(0, 12),
    st.frozensets(st.integers(0, 6), max_size=2),
)
def test_queries_come_and_go(case: OuterCase, add_at: int, length: int, restarts: frozenset[int]) -> None:
    """Times are given, so what the query gets does not depend on the calls."""
    queries = {"first": case.query()}
    op = wr.SharedOperator(queries, schemas=schemas_of(case))
    calls = list(case.inputs())
    add_at = min(add_at, len(calls) - 1)
    times = sorted(row["ts"] for rows in case.question().streams.values() for row in rows)
    since = times[len(times) // 2] if times else 0
    until = since + length * 1_000_000
    got: Counter[tuple] = Counter()
    reached = None
    for number, call in enumerate(calls):
        if number == add_at:
            reached = max((t for t in op_times(op)), default=None)
            op.add("added", case.query(), at=since)
            op.remove("added", at=until)
        if number in restarts:
            op = wr.SharedOperator.restore(queries, op.snapshot())
        got += outer_ids(op.process(call).get("added", pa.table({})))
    got += outer_ids(op.finish().get("added", pa.table({})))
    expected = answer(case, lambda ts: since <= ts < until)
    if reached is None or reached < since:
        assert got == expected
    else:  # what was decided before it was added is not repeated
        assert not got - expected


def op_times(op: wr.SharedOperator) -> list[int]:
    found = [s.max_event_time for join in op.metrics().joins for s in join.streams.values()]
    return [t for t in found if t is not None]


def left(**options: object) -> wr.Query:
    return wr.Query(PAIR, "a.k = b.k", how="left", **options)


def test_select_lists_and_conditions_see_nulls() -> None:
    queries = {
        "all": left(),
        "unmatched": wr.Subscription(left(), where="b.ts is null", select=["a.id"]),
        "filled": wr.Subscription(left(), select=["a.id", "coalesce(b.k, 9) as k"]),
    }
    op = wr.SharedOperator(queries)
    assert len(op.groups) == 1
    outputs = [op.process({"a": tiny([0.0, 1.0], k=[1, 2]), "b": tiny([2.0], k=[2])}), op.finish()]
    found = {name: pa.concat_tables([out[name] for out in outputs]).to_pylist() for name in queries}
    assert [(row["a"]["id"], row["b"] and row["b"]["id"]) for row in found["all"]] == [(1, 0), (0, None)]
    assert found["unmatched"] == [{"id": 0}]
    assert found["filled"] == [{"id": 1, "k": 2}, {"id": 0, "k": 9}]


def test_a_stream_that_only_filters_cannot_be_selected() -> None:
    schemas = {x: tiny([], k=pa.array([], pa.int64())).schema for x in "ab"}
    semi = wr.Query(PAIR, "a.k = b.k", how="semi")
    assert wr.SharedOperator({"q": semi}, schemas=schemas).process({})["q"].column_names == ["a"]
    with pytest.raises(wr.QueryError, match=r"query 'q': select: .*'b'"):
        wr.SharedOperator({"q": wr.Subscription(semi, select=["b.k"])}, schemas=schemas)


def test_messages_name_the_kind_of_join() -> None:
    op = wr.SharedOperator({"inner": wr.Query(PAIR, "a.k = b.k"), "left": left()})
    on = {"within": "5 s", "on": "a.k = b.k"}
    op.control({"add": {"name": "l2", **on, "how": "left", "where": "b.ts is null"}})
    op.control({"add": {"name": "i2", **on}})
    op.control({"add": {"name": "l3", "within": "5 s", "like": "left"}})
    assert [set(group.subscriptions) for group in op.groups] == [{"inner", "i2"}, {"left", "l2", "l3"}]
    with pytest.raises(wr.QueryError, match=r"cannot share the join: different windows: 5 .* and 9 seconds"):
        op.control({"add": {"name": "l4", "within": "9 s", "like": "left"}})
    with pytest.raises(wr.QueryError, match=r"different kinds of join: inner and anti"):
        op.control({"add": {"name": "l5", **on, "how": "anti"}})
    with pytest.raises(wr.QueryError, match=r"add: .*how: unknown kind of join 'outer'"):
        op.control({"add": {"name": "l6", **on, "how": "outer", "like": "left"}})
