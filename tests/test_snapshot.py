"""An operator restored from a snapshot goes on as if nothing had happened; anything else is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given

import windrow as wr
from queries import Case, cases, examples, tiny
from results import ids


def query(**changes) -> wr.Query:
    streams = {alias: wr.Stream("ts", "5 seconds") for alias in "ab"}
    return replace(wr.Query(streams, "a.k = b.k", late="1 second"), **changes)


def table(first: int, last: int) -> pa.Table:
    numbers = range(first, last)
    return tiny(numbers, k=[n % 3 for n in numbers], note=[f"row {n}" for n in numbers])


def started(asked: wr.Query | None = None) -> wr.Operator:
    op = wr.Operator(asked or query())
    op.process({"a": table(0, 20), "b": table(0, 10)})
    return op


@examples(12)
@given(cases(most_streams=3), cases(counted=True, most_streams=3))
def test_a_snapshot_after_every_call_changes_nothing(timed: Case, counted: Case) -> None:
    for case in (timed, counted):
        often = replace(case, calls=case.calls[:10], snapshots=frozenset(range(10)))
        never = replace(often, snapshots=frozenset())
        (restored, after), (straight, before) = often.run(), never.run()
        assert ids(restored) == ids(straight)
        assert (after.rows_in, after.rows_late, after.rows_null_time, after.rows_filtered, after.results) == (
            before.rows_in,
            before.rows_late,
            before.rows_null_time,
            before.rows_filtered,
            before.results,
        )


def test_counters_and_windows_survive() -> None:
    op = started()
    op.process({"a": table(5, 6)})  # late
    again = wr.Operator.restore(query(), op.snapshot())
    for name in ("rows_in", "rows_late", "rows_null_time", "rows_filtered", "results", "window_rows"):
        assert getattr(again.metrics(), name) == getattr(op.metrics(), name), name
    assert again.metrics().rows_late == 1
    more = {"a": table(20, 30), "b": table(10, 30)}
    assert ids(again.process(more)) == ids(op.process(more)) != Counter()


def test_one_snapshot_can_be_restored_many_times() -> None:
    """A retry repeats the same work: restoring must not change the blob or share state."""
    blob = started().snapshot()
    more = {"b": table(10, 25)}
    first = wr.Operator.restore(query(), blob)
    answers = [ids(first.process(more)), ids(wr.Operator.restore(query(), blob).process(more))]
    assert answers[0] == answers[1] != Counter()
    assert ids(started().process(more)) == answers[0]


def test_taking_a_snapshot_does_not_disturb_the_operator() -> None:
    op, undisturbed = started(), started()
    op.snapshot()
    more = {"b": table(10, 25)}
    assert ids(op.process(more)) == ids(undisturbed.process(more))


@pytest.mark.parametrize("seen", [[], ["a"], ["a", "b"]])
def test_before_any_or_all_streams_were_seen(seen: list[str]) -> None:
    op = wr.Operator(query())
    op.process({alias: table(0, 3) for alias in seen})
    again = wr.Operator.restore(query(), op.snapshot())
    rest = {alias: table(0, 3) for alias in "ab" if alias not in seen} or {"a": table(3, 4)}
    assert ids(again.process(rest)) == ids(op.process(rest))
    assert again.metrics().rows_in == op.metrics().rows_in


@pytest.mark.parametrize(
    "how",
    [
        {"algorithm": "naive", "order": ("b", "a")},
        {"evaluate": "every 3 rows", "expire": "every 10 seconds"},
        {"streams": {alias: wr.Stream("ts", "5 seconds", "scan") for alias in "ab"}},
        {"streams": {alias: wr.Stream("ts", "5000 ms", "sorted") for alias in "ab"}},
    ],
    ids=str,
)
def test_how_the_join_runs_may_change_over_a_restart(how: dict) -> None:
    """The plan is not state: only what is asked must be the same."""
    op = started()
    again = wr.Operator.restore(query(**how), op.snapshot())
    more = {"b": table(10, 25)}
    assert ids(again.process(more)) == ids(op.process(more)) != Counter()


def test_rows_held_back_survive() -> None:
    asked = wr.Query({alias: wr.Stream("ts", "3 rows") for alias in "ab"}, "a.k = b.k", late="100 seconds")
    op = started(asked)
    again = wr.Operator.restore(asked, op.snapshot())
    want = ids(op.finish())
    assert want != Counter()
    assert ids(again.finish()) == want


def test_nested_dictionary_and_zoned_payloads_survive() -> None:
    rich = pa.table(
        {
            "ts": pa.array([1, 2, 3], pa.timestamp("ns", "Europe/Berlin")),
            "k": pa.array(["x", "y", None]).dictionary_encode(),
            "items": pa.array([[{"n": 1}], [], None], pa.list_(pa.struct({"n": pa.int32()}))),
        }
    )
    asked = query()
    op = wr.Operator(asked)
    op.process({"a": rich})
    op = wr.Operator.restore(asked, op.snapshot())
    out = op.process({"b": rich})
    assert sorted(row["items"] for row in out.column("a").to_pylist()) == [[], [{"n": 1}]]


# --- What is refused ------------------------------------------------------------------------------------


def test_a_truncated_blob_is_refused() -> None:
    blob = started().snapshot()
    for size in {0, 1, 4, 8, 16, len(blob) // 2, len(blob) - 1}:
        with pytest.raises(wr.StateError):
            wr.Operator.restore(query(), blob[:size])


def test_a_blob_with_something_after_it_is_refused() -> None:
    with pytest.raises(wr.StateError):
        wr.Operator.restore(query(), started().snapshot() + b"\x00")


def test_any_flipped_bit_is_noticed() -> None:
    blob, rng = started().snapshot(), Random(0)
    places = {0, len(blob) - 1, *range(0, 40), *(rng.randrange(len(blob)) for _ in range(150))}
    for place in places:
        damaged = bytearray(blob)
        damaged[place] ^= 1 << rng.randrange(8)
        with pytest.raises(wr.StateError):
            wr.Operator.restore(query(), bytes(damaged))


@pytest.mark.parametrize("blob", [b"", b"nonsense", bytes(1000), "text", None])
def test_what_is_no_snapshot_is_refused(blob: object) -> None:
    with pytest.raises(wr.StateError):
        wr.Operator.restore(query(), blob)


@pytest.mark.parametrize(
    "other",
    [
        {"on": "a.k = b.k and a.id = b.id"},
        {"on": "a.id = b.id"},
        {"streams": {alias: wr.Stream("ts", "5 rows") for alias in "ab"}},
        {"streams": {alias: wr.Stream("ts", "5 seconds") for alias in "ba"}},
        {"streams": {alias: wr.Stream("id", "5 seconds") for alias in "ab"}},
        {"how": "left"},
        {"how": "left", "match": {"b": "last"}},
    ],
    ids=str,
)
def test_a_blob_of_another_query_is_refused(other: dict) -> None:
    with pytest.raises(wr.StateError, match=r"another join: .* was .*now .*fixed, because .*; go back"):
        wr.Operator.restore(query(**other), started().snapshot())
