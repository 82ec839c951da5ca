"""Windows counted in rows, against hand-worked traces and the literal simulation."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import windrow as wr
from queries import TWIN_PAIRS, TWIN_TEXTS, Case, cases, examples, play, tiny
from results import ids
from terms import equality
from windrow.testing.oracle import SECOND


def query(a: str, b: str, on: str = "a.k = b.k", **options) -> wr.Query:
    return wr.Query({"a": wr.Stream("ts", a), "b": wr.Stream("ts", b)}, on, **options)


def test_a_trace_worked_by_hand() -> None:
    """Each new row meets the last two rows of the other stream.

    time   0   1   2   3   4   5
    a     a0      a1      a2
    b         b0      b1      b2      b0: a0 | a1: b0 | b1: a0 a1 | a2: b0 b1 | b2: a1 a2
    """
    a, b = tiny([0, 2, 4], k=[1, 1, 1]), tiny([1, 3, 5], k=[1, 1, 1])
    want = {(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1), (1, 2), (2, 2)}
    assert play(query("2 rows", "2 rows"), {"a": a, "b": b}) == Counter(want)


def test_one_row_is_the_latest_value() -> None:
    """`1 rows`: every order meets the rate in force when it came, and every rate the latest order."""
    rates = tiny([0, 10, 20], k=[1, 1, 1])
    orders = tiny([5, 12, 25], k=[1, 1, 1])
    got = play(query("1 rows", "1 rows"), {"a": rates, "b": orders})
    assert got == Counter({(0, 0): 1, (1, 0): 1, (1, 1): 1, (2, 1): 1, (2, 2): 1})


def test_rows_of_other_keys_push_rows_out_of_a_window_over_the_stream() -> None:
    a, b = tiny([0, 1, 2], k=[1, 2, 3]), tiny([3], k=[1])
    assert play(query("2 rows", "2 rows"), {"a": a, "b": b}) == Counter()
    assert play(query("3 rows", "2 rows"), {"a": a, "b": b}) == Counter([(0, 0)])


def test_rows_of_other_keys_do_not_push_rows_out_of_a_window_per_key() -> None:
    a, b = tiny([0, 1, 2, 3], k=[1, 2, 2, 2]), tiny([4, 5], k=[1, 2])
    got = play(query("1 row per key", "1 row per key"), {"a": a, "b": b})
    assert got == Counter([(0, 0), (3, 1)])


def test_the_key_is_all_equality_columns_together() -> None:
    """a1 has the same k but another z, so it is another key and does not push a0 out."""
    a = tiny([0, 1], k=[1, 1], z=["x", "y"])
    b = tiny([2, 3], k=[1, 1], z=["x", "y"])
    on = "a.k = b.k and a.z = b.z"
    assert play(query("1 row per key", "1 row per key", on), {"a": a, "b": b}) == Counter([(0, 0), (1, 1)])


def test_the_key_of_the_middle_stream_takes_columns_from_both_neighbours() -> None:
    """b's key is (k, z): b1 replaces b0 only if both agree."""
    streams = {alias: wr.Stream("ts", "1 row per key") for alias in "abc"}
    asked = wr.Query(streams, "a.k = b.k and b.z = c.z")
    a, c = tiny([2], k=[1]), tiny([3, 4], z=[7, 8])
    assert play(asked, {"a": a, "b": tiny([0, 1], k=[1, 1], z=[7, 8]), "c": c}) == Counter(
        [(0, 0, 0), (0, 1, 1)]
    )
    assert play(asked, {"a": a, "b": tiny([0, 1], k=[1, 1], z=[7, 7]), "c": c}) == Counter([(0, 1, 0)])


@pytest.mark.parametrize("filler", [{"k": [1, 1], "x": [1, 0]}, {"k": [1, None], "x": [1, 1]}])
def test_rows_that_cannot_join_still_count(filler: dict) -> None:
    """The second row of a fails the filter or has no key, yet it takes the first one's place."""
    a, b = tiny([0, 1], **filler), tiny([2], k=[1])
    on = "a.k = b.k and a.x > 0"
    assert play(query("1 rows", "5 seconds", on), {"a": a, "b": b}) == Counter()
    assert play(query("2 rows", "5 seconds", on), {"a": a, "b": b}) == Counter([(0, 0)])


def test_a_row_that_fails_its_filter_still_counts_for_its_key() -> None:
    a, b = tiny([0, 1], k=[1, 1], x=[1, 0]), tiny([2], k=[1])
    assert play(query("1 row per key", "5 seconds", "a.k = b.k and a.x > 0"), {"a": a, "b": b}) == Counter()


def test_a_row_without_key_belongs_to_no_key() -> None:
    a, b = tiny([0, 1, 2], k=[1, None, None]), tiny([3], k=[1])
    assert play(query("1 row per key", "5 seconds"), {"a": a, "b": b}) == Counter([(0, 0)])


def test_rows_without_time_and_late_rows_do_not_count() -> None:
    op = wr.Operator(query("2 rows", "9 seconds"))
    op.process({"a": tiny([5, None, 6], k=[1, 1, 1])})
    op.process({"a": tiny([1], k=[1])})  # older than 6: late
    assert ids(op.process({"b": tiny([7], k=[1])})) == Counter([(0, 0), (2, 0)])
    measured = op.metrics()
    assert (measured.rows_null_time, measured.rows_late) == (1, 1)


def test_time_and_rows_mixed() -> None:
    """a keeps 2 seconds, b its last row: b0 meets a1 a2 (1 and 2 s old, inclusive), a3 meets b0."""
    a, b = tiny([0, 1, 2, 3.5], k=[1] * 4), tiny([3], k=[1])
    assert play(query("2 seconds", "1 rows"), {"a": a, "b": b}) == Counter([(1, 0), (2, 0), (3, 0)])


def test_equal_times_go_by_arrival() -> None:
    """One call, one time: a before b as in the query, rows in table order; so b0 and b1 see a0 a1 only."""
    a, b = tiny([0, 0], k=[1, 1]), tiny([0, 0], k=[1, 1])
    assert play(query("1 rows", "1 rows"), {"b": b, "a": a}) == Counter([(1, 0), (1, 1)])
    two_calls = play(query("1 rows", "1 rows"), {"b": b}, {"a": a})
    assert two_calls == Counter([(0, 1), (1, 1)])


def test_rows_are_held_back_until_late_has_passed() -> None:
    """late = 2 s: a row at time 1 is joined once something newer than 3 has been seen, not at 3."""
    op = wr.Operator(query("1 rows", "1 rows", late="2 seconds"))
    assert op.process({"a": tiny([1], k=[1])}).num_rows == 0
    assert op.process({"b": tiny([3], k=[1])}).num_rows == 0
    assert op.process({"b": tiny([1.5], k=[1])}).num_rows == 0
    out = op.process({"a": tiny([3.6], k=[2])})
    assert ids(out) == Counter([(0, 0)])  # a at 1 with b at 1.5, both now passed
    assert out.column("b")[0].as_py()["ts"].second == 1
    rest = op.finish()
    assert ids(rest) == Counter([(0, 0)])  # b at 3 meets a at 1, the latest a by then
    assert rest.column("b")[0].as_py()["ts"].second == 3
    assert op.metrics().rows_late == 0


def test_arrival_within_late_does_not_matter() -> None:
    a, b = tiny([0, 1, 2, 3, 4, 5], k=[1, 2] * 3), tiny([0.5, 1.5, 2.5, 3.5], k=[1, 2] * 2)
    asked = query("2 rows", "1 row per key", late="6 seconds")
    want = play(asked, {"a": a, "b": b})
    backwards = [{"a": a.slice(n, 1), "b": b.slice(n, 1)} for n in reversed(range(6))]
    assert play(asked, *backwards) == want
    assert (
        want
        == Case(
            {"a": (2, False), "b": (1, True)},
            [equality("a", "b", "k")],
            {"a": a, "b": b},
            [{"a": list(range(6)), "b": list(range(4))}],
        ).answer()
    )


def test_a_window_larger_than_the_stream_keeps_everything() -> None:
    a, b = tiny([0, 1, 2], k=[1, 1, 1]), tiny([1000], k=[1])
    assert play(query("1000000 rows", "1 rows"), {"a": a, "b": b}) == Counter([(0, 0), (1, 0), (2, 0)])


def test_zero_and_minus_zero_are_one_key_over_a_restart() -> None:
    a, b = tiny([0, 1, 2], f=[0.0, -0.0, 5.0], k=[1, 1, 1]), tiny([3, 4], f=[0.0, 5.0], k=[1, 1])
    asked = query("1 row per key", "99 seconds", "a.f = b.f and a.k = b.k")
    op = wr.Operator(asked, schemas={"a": a.schema, "b": b.schema})
    op.process({"a": a})
    op = wr.Operator.restore(asked, op.snapshot())
    assert play(op, {"b": b}) == Counter([(1, 0), (2, 1)])


def test_keys_whose_hashes_collide_are_still_two_keys() -> None:
    """Each key keeps its own last row, though the engine's hash cannot tell the two apart."""
    a, b = tiny([0, 1], k=list(TWIN_TEXTS)), tiny([2, 3], k=list(TWIN_TEXTS))
    asked = query("1 row per key", "9 seconds")
    assert play(asked, {"a": a, "b": b}) == Counter([(0, 0), (1, 1)])
    assert play(asked, {"a": a.slice(0, 1)}, {"a": a.slice(1)}, {"b": b}) == Counter([(0, 0), (1, 1)])
    k, z = (list(column) for column in zip(*TWIN_PAIRS, strict=True))
    a, b = tiny([0, 1], k=k, z=z), tiny([2, 3], k=k, z=z)
    asked = query("1 row per key", "9 seconds", "a.k = b.k and a.z = b.z")
    assert play(asked, {"a": a, "b": b}) == Counter([(0, 0), (1, 1)])


@pytest.mark.parametrize("windows", [((50, False), (3, True)), ((3, True), 20 * SECOND)], ids=str)
def test_a_long_run(windows: tuple) -> None:
    """800 rows a stream over many calls, within `late`: windows turn over again and again."""
    rng = np.random.default_rng(4)
    tables, order = {}, []
    for alias in "ab":
        times = np.sort(rng.integers(0, 800, 800)) * SECOND
        keys = rng.integers(0, 6, 800)
        tables[alias] = pa.table({"id": np.arange(800), "ts": pa.array(times, pa.timestamp("us")), "k": keys})
        order += [(time + rng.integers(0, 4 * SECOND), alias, n) for n, time in enumerate(times)]
    order.sort()
    calls: list[dict[str, list[int]]] = []
    while order:
        size = int(rng.choice([1, 7, 30]))
        call: dict[str, list[int]] = {}
        for _, alias, number in order[:size]:
            call.setdefault(alias, []).append(number)
        calls.append(call)
        del order[:size]
    case = Case(
        dict(zip("ab", windows, strict=True)),
        [equality("a", "b", "k")],
        tables,
        calls,
        {"late": 4 * SECOND},
        snapshots=frozenset(range(0, len(calls), 25)),
    )
    output, measured = case.run()
    assert ids(output) == case.answer()
    assert measured.rows_late == 0
    assert measured.window_rows < 500


@examples(30)
@given(cases(counted=True, most_streams=3))
def test_the_literal_simulation(case: Case) -> None:
    output, _ = case.run()
    assert ids(output) == case.answer()
