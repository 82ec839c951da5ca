"""Rows that come late, streams that fall silent, and what is kept meanwhile."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given

import windrow as wr
from queries import Case, cases, examples, play, tiny
from results import ids


def query(streams: str = "ab", within: str = "5 seconds", **options) -> wr.Query:
    on = " and ".join(f"{x}.k = {y}.k" for x, y in pairwise(streams))
    return wr.Query({alias: wr.Stream("ts", within) for alias in streams}, on, **options)


def one(*times: float | None, k: int = 1):
    return tiny(times, k=[k] * len(times))


def test_a_row_exactly_window_length_old_matches_a_microsecond_older_does_not() -> None:
    assert play(query(), {"a": one(0), "b": one(5)}) == Counter([(0, 0)])
    assert play(query(), {"a": one(0), "b": one(5.000001)}) == Counter()
    assert play(query(), {"a": one(0)}, {"b": one(5)}) == Counter([(0, 0)])


def test_each_stream_has_its_own_window() -> None:
    """b may be 1 s older than a, a may be 5 s older than b."""
    asked = wr.Query({"a": wr.Stream("ts", "5 seconds"), "b": wr.Stream("ts", "1 second")}, "a.k = b.k")
    assert play(asked, {"a": one(0, 10), "b": one(5, 9)}) == Counter([(0, 0), (1, 1)])
    assert play(asked, {"a": one(0, 10), "b": one(6, 8.9)}) == Counter()


@pytest.mark.parametrize(("late", "dropped"), [("0 seconds", 2), ("1 second", 1), ("2 seconds", 0)])
def test_late_is_measured_against_earlier_calls_of_the_same_stream(late: str, dropped: int) -> None:
    op = wr.Operator(query(late=late))
    op.process({"a": one(10), "b": one(2)})
    op.process({"a": one(8, 9, 10)})  # 2, 1 and 0 s behind the 10 of the first call
    measured = op.metrics()
    assert measured.rows_late == dropped
    assert measured.streams["a"].rows_late == dropped
    assert measured.streams["b"].rows_late == 0
    assert measured.rows_in == 5


def test_disorder_within_a_call_is_never_late() -> None:
    op = wr.Operator(query())
    assert ids(op.process({"a": one(100, 0, 50), "b": one(51, 1, 101)})) == Counter([(0, 2), (1, 1), (2, 0)])
    assert op.metrics().rows_late == 0


def test_a_late_row_is_lost_to_the_answer_too() -> None:
    calls = [{"a": one(10), "b": one(10)}, {"a": one(9)}]
    assert play(query(), *calls) == Counter([(0, 0)])
    assert play(query(late="1 second"), *calls) == Counter([(0, 0), (0, 0)])


def test_a_row_in_time_on_its_stream_is_not_late_however_far_others_are() -> None:
    """b is far ahead; a goes on at its own pace and still meets the b rows of its time."""
    op = wr.Operator(query())
    op.process({"b": one(*range(0, 1000, 10))})
    got = Counter()
    for time in range(0, 1000, 100):
        got += ids(op.process({"a": one(time)}))
    assert got == Counter([(0, n) for n in range(0, 100, 10)])
    assert op.metrics().rows_late == 0


def test_late_rows_meet_late_rows_exactly() -> None:
    """Both sides arrive backwards within late: nothing is lost and nothing doubled."""
    times = [float(t) for t in range(20)]
    forward = play(query(), {"a": one(*times), "b": one(*times)})
    calls = [{x: one(*times).slice(n, 1) for x in "ab"} for n in reversed(range(20))]
    assert play(query(late="19 seconds"), *calls) == forward


def test_late_rows_reach_back_to_rows_older_than_the_window_of_the_newest() -> None:
    """a0 is 8 s older than b's newest, but b may still get rows from 4 s ago: a0 must still be there."""
    op = wr.Operator(query(late="4 seconds"))
    op.process({"a": one(0), "b": one(8)})
    assert ids(op.process({"b": one(4.5)})) == Counter([(0, 0)])


def test_null_times_are_counted_and_dropped() -> None:
    op = wr.Operator(query())
    assert ids(op.process({"a": one(None, 1), "b": one(1, None, None)})) == Counter([(1, 0)])
    measured = op.metrics()
    assert measured.rows_null_time == 3
    assert measured.streams["b"].rows_null_time == 2
    assert (measured.rows_in, measured.rows_late) == (5, 0)


def test_a_column_of_null_times_only() -> None:
    op = wr.Operator(query())
    assert op.process({"a": one(None, None), "b": one(1)}).num_rows == 0
    assert op.metrics().rows_null_time == 2
    assert ids(op.process({"a": one(2)})) == Counter([(0, 0)])


def test_filtered_rows_are_counted_but_move_time_on() -> None:
    """A row that fails its condition is not stored, yet later rows are late against it."""
    asked = wr.Query({x: wr.Stream("ts", "5 seconds") for x in "ab"}, "a.k = b.k and a.x > 0")
    op = wr.Operator(asked)
    op.process({"a": tiny([1, 2, 10], k=[1, None, 1], x=[1, 1, 0]), "b": one(1)})
    assert op.metrics().rows_filtered == 2  # a null key and a failed condition
    op.process({"a": tiny([9], k=[1], x=[1])})
    assert op.metrics().rows_late == 1


def held(op: wr.Operator) -> int:
    """Rows in the windows, and rows that wait for the schema of a stream not yet seen."""
    return op.metrics().window_rows + op.metrics().rows_buffered


def test_windows_are_let_go_as_time_moves_on() -> None:
    op = wr.Operator(query(expire="eager"))
    for second in range(0, 1000, 10):
        op.process({"a": one(second), "b": one(second)})
    assert held(op) <= 10


def test_a_silent_stream_holds_the_windows_open() -> None:
    op = wr.Operator(query(expire="eager"))
    for second in range(100):
        op.process({"a": one(second)})
    assert held(op) == 100
    assert ids(op.process({"b": one(2)})) == Counter([(0, 0)] * 8)  # a at 0 to 7


def test_idle_lets_the_others_go_on() -> None:
    """After 10 s of event time without b, a's rows leave, and b's rows from before are late."""
    op = wr.Operator(query(idle="10 seconds", expire="eager"))
    for second in range(100):
        op.process({"a": one(second)})
    assert held(op) <= 20
    assert op.process({"b": one(2)}).num_rows == 0
    assert op.metrics().rows_late == 1
    assert ids(op.process({"b": one(89)})) == Counter([(0, 0)] * 11)  # not late: 99 - 10; a at 84 to 94


def test_idle_is_no_reason_to_drop_rows_within_it() -> None:
    calls = [{"a": one(0, 20)}, {"b": one(11)}, {"b": one(16)}]
    assert play(query(idle="10 seconds"), *calls) == Counter([(1, 0)])
    assert play(query(idle="9 seconds"), *calls) == Counter([(1, 0)])  # 11 is not older than 20 - 9
    op = wr.Operator(query(idle="8 seconds"))
    for call in calls:
        op.process(call)
    assert op.metrics().rows_late == 1


def test_idle_and_late_add_up() -> None:
    """The frontier of b is 100 - 10; less late 5: a row at 85 is in time, at 84.999999 late."""
    op = wr.Operator(query(idle="10 seconds", late="5 seconds"))
    op.process({"a": one(80, 100)})
    assert ids(op.process({"b": one(85)})) == Counter([(0, 0)])
    op = wr.Operator(query(idle="10 seconds", late="5 seconds"))
    op.process({"a": one(80, 100)})
    assert op.process({"b": one(84.999999)}).num_rows == 0
    assert op.metrics().rows_late == 1


def test_three_streams_with_one_silent() -> None:
    op = wr.Operator(query("abc", late="1 second"))
    op.process({"a": one(*range(50)), "b": one(*range(50))})
    got = ids(op.process({"c": one(10)}))
    near = [t for t in range(50) if abs(t - 10) <= 5]
    assert got == Counter((x, y, 0) for x in near for y in near if abs(x - y) <= 5)


def test_the_slowest_of_the_others_decides_what_is_kept() -> None:
    """c lags far behind: rows of a and b that are old for each other may still meet it. Its own may go."""
    op = wr.Operator(query("abc", expire="eager"))
    op.process({alias: one(0) for alias in "abc"})
    for second in range(10, 60, 10):
        op.process({"a": one(second), "b": one(second)})
    assert held(op) == 6 + 6
    assert ids(op.process({"c": one(10)})) == Counter([(0, 0, 0)])
    assert ids(op.process({"c": one(30)})) == Counter([(0, 0, 0)])
    op.process({"c": one(1000)})
    assert held(op) == 3  # a and b at 50, which each other's next rows may still meet, and c


@examples(20)
@given(cases(most_streams=3))
def test_counts_and_answer_under_any_disorder(case: Case) -> None:
    output, measured = case.run()
    admitted = case.admitted()
    assert ids(output) == case.answer()
    for alias in case.windows:
        assert measured.streams[alias].rows_late == admitted.late[alias]
        assert measured.streams[alias].rows_null_time == admitted.null_time[alias]
