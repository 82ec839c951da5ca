"""Rows far ahead of the clock are set aside, and a stream that one has pushed ahead is set back."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from results import ids
from windrow.errors import QueryError

SECOND = 1_000_000
DAY = 86_400 * SECOND
FAR = 70 * 365 * DAY


def query(within: str = "5 s", **options: Any) -> wr.Query:
    return wr.Query({a: wr.Stream("ts", within) for a in "ab"}, "a.k = b.k", **options)


def rows(seed: int, start: float, count: int = 40, span: float = 10, keys: int = 4) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.integers(int(start * SECOND), int((start + span) * SECOND), count))
    return pa.table(
        {
            "id": np.arange(count) + seed * 1_000,
            "ts": pa.array(times, pa.timestamp("us")),
            "k": rng.integers(0, keys, count),
            "v": rng.random(count),
        }
    )


def garbage(seed: int, time: int = FAR) -> pa.Table:
    one = rows(seed, 0, 1)
    return one.set_column(1, "ts", pa.array([time], pa.timestamp("us")))


def calls(first: int = 0, end: int = 6) -> list[dict[str, pa.Table]]:
    return [{"a": rows(n, 10 * n), "b": rows(100 + n, 10 * n)} for n in range(first, end)]


def run(op: wr.Operator, given: list[dict[str, pa.Table]], now: int | None = None) -> Counter:
    return sum((ids(op.process(call, now=now)) for call in given), Counter())


@pytest.mark.parametrize("within", ["5 s", "8 rows", "3 rows per key"])
def test_a_row_ahead_of_the_clock_is_set_aside_and_changes_nothing(within):
    plain, op = wr.Operator(query(within)), wr.Operator(query(within))
    want = run(plain, calls())
    wrong = calls()
    for n in (0, 2, 5):
        wrong[n]["b"] = pa.concat_tables([wrong[n]["b"], garbage(900 + n)])
    assert run(op, wrong, now=60 * SECOND) == want
    told = op.metrics()
    assert (told.rows_ahead, told.rows_late, told.streams["b"].rows_ahead) == (3, 0, 3)
    assert "3 too far ahead" in str(told)
    again = wr.Operator.restore(query(within), op.snapshot())
    assert again.metrics().rows_ahead == 3


def test_the_bound_is_what_the_query_says_and_can_be_taken_away():
    edge = garbage(900, 100 * SECOND)
    for ahead, now, kept in [
        ("40 s", 60 * SECOND, 0),
        ("40 s", 59 * SECOND, 1),
        ("40 s", None, 0),
        (None, 0, 0),
        ("unlimited", 0, 0),
    ]:
        op = wr.Operator(query(ahead=ahead))
        op.process({"a": edge, "b": rows(1, 0)}, now=now)
        assert op.metrics().rows_ahead == kept, (ahead, now)
    assert query().head_start == DAY
    with pytest.raises(QueryError, match="ahead: must not be negative"):
        query(ahead="-1 s")
    with pytest.raises(QueryError, match="ahead: expected a duration"):
        query(ahead="soon")


def test_shared_queries_have_one_bound():
    op = wr.SharedOperator({"x": query(), "y": query("1 s")})
    op.process({"a": garbage(9), "b": rows(1, 0)}, now=0)
    assert op.metrics().joins[0].rows_ahead == 1
    assert len(wr.SharedOperator({"x": query(), "y": query(ahead="2 days")}).groups) == 2


POLICIES = [
    "auto",
    "age",
    "frequency",
    "fifo",
    "random",
    wr.policies.Importance(by="b.v"),
    wr.policies.Greedy(by="b.v"),
    "size",
]


@pytest.mark.parametrize("shed", [None, *POLICIES], ids=str)
@pytest.mark.parametrize("within", ["5 s", "8 rows", "3 rows per key"])
@pytest.mark.parametrize("late", ["0 s", "1 s"])
def test_a_stream_that_was_pushed_ahead_is_set_back(shed, within, late):
    """From the message on everything comes as before; what came in between is lost."""
    limited = {} if shed is None else {"memory": "30 rows", "shed": shed}
    op = wr.Operator(query(within, late=late, **limited))
    run(op, calls(0, 2))
    run(op, [{"b": garbage(900)}])
    run(op, calls(2, 3))
    lost = op.metrics()
    assert lost.streams["b"].rows_late == 40, "the stream has ended"
    op.control({"event_time": {"b": 30 * SECOND}})
    op = wr.Operator.restore(op.query, op.snapshot())
    got = run(op, calls(3, 9)) + ids(op.finish())
    assert op.metrics().rows_late == lost.rows_late
    whole = wr.Operator(query(within, late=late))
    run(whole, calls(0, 2))
    run(whole, [{"a": rows(2, 20)}])
    want = run(whole, calls(3, 9)) + ids(whole.finish())
    if within == "5 s":
        assert not got - want
        if shed is None:
            # Rows of `a` before the message had expired with the far row.
            assert want - got == Counter({r: n for r, n in want.items() if r[0] < 3_000})
        else:
            assert got.total() > want.total() / 10
            assert op.metrics().window_rows <= 30
    elif shed is None:
        # Of counted windows, what came in between is missing for as many rows as they hold.
        late_enough = Counter({r: n for r, n in want.items() if min(r[0], r[1] - 100_000) >= 5_000})
        assert late_enough <= got


def test_a_stream_that_has_not_come_so_far_is_left_as_it_is():
    op, plain = wr.Operator(query()), wr.Operator(query())
    for each in (op, plain):
        run(each, calls(0, 2))
    op.control({"event_time": {"a": FAR, "b": 10**9}})
    assert op.metrics().streams["a"].max_event_time == plain.metrics().streams["a"].max_event_time
    assert run(op, calls(2, 5)) == run(plain, calls(2, 5))


def test_shared_joins_are_set_back():
    op = wr.SharedOperator({"x": query(), "y": query("1 s")})
    for call in [*calls(0, 2), {"b": garbage(900)}, *calls(2, 3)]:
        op.process(call)
    op.control({"event_time": {"b": "1970-01-01T00:00:30Z"}})
    got: Counter = sum((ids(op.process(call)["x"]) for call in calls(3, 6)), Counter())
    want = wr.Operator(query())
    assert got == run(want, calls(3, 6)) and got.total() > 0
