"""Event time per source partition, and a `late` for each stream."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

import windrow as wr
from partition_runs import PartitionedJoin
from queries import Case, examples, play, tiny
from results import ids
from source_cases import dropped, source_cases
from windrow.pipeline.toml_reader import read_pipeline

SECOND = 1_000_000


def query(within: str = "5 seconds", source: dict[str, str] | None = None, **options: Any) -> wr.Query:
    of = source or {}
    return wr.Query(
        {a: wr.Stream("ts", within, source_partition=of.get(a)) for a in "ab"}, "a.k = b.k", **options
    )


def rows(*placed: tuple[Any, float]) -> pa.Table:
    """Source partition and time of each row."""
    return tiny([t for _, t in placed], k=[1] * len(placed), p=[p for p, _ in placed])


TRACKED = {"a": "p"}


@examples(80)
@given(source_cases())
def test_any_progress_of_source_partitions(case: Case) -> None:
    check(case)


@examples(40)
@given(source_cases(counted=True))
def test_any_progress_of_source_partitions_with_row_windows(case: Case) -> None:
    check(case)


def check(case: Case) -> None:
    query, late = case.query(), []
    op = wr.Operator(query, schemas={alias: table.schema for alias, table in case.tables.items()})
    found: Counter[tuple] = Counter()
    for number, call in enumerate(case.inputs()):
        found += ids(op.process(call))
        late += op.late_rows().to_pylist()
        if number in case.snapshots:
            op = wr.Operator.restore(query, op.snapshot())
    assert found + ids(op.finish()) == case.answer()
    told = [(row["stream"], row[row["stream"]]["id"]) for row in late]
    assert len(told) == len(set(told)) and set(told) == dropped(case)
    for row in late:
        behind = row["watermark"] - row["event_time"]
        delay = case.options["late"].get(row["stream"], 0) if case.options["late"] else 0
        assert row["reason"] == "late" and behind.total_seconds() > 0
        assert row["needed_seconds"] == pytest.approx(behind.total_seconds() + delay / SECOND, rel=1e-12)
    measured = op.metrics()
    for alias, count in case.admitted().late.items():
        assert measured.streams[alias].rows_late == count


def test_a_partition_read_ahead_of_the_others_makes_nothing_late() -> None:
    calls = [{"a": rows((0, 100), (1, 3)), "b": rows((0, 3))}, {"a": rows((1, 4), (0, 101))}]
    plain, tracked = wr.Operator(query()), wr.Operator(query(source=TRACKED))
    assert sum((ids(plain.process(c)) for c in calls), Counter()) == Counter([(1, 0)])
    assert sum((ids(tracked.process(c)) for c in calls), Counter()) == Counter([(1, 0), (0, 0)])
    assert (plain.metrics().rows_late, tracked.metrics().rows_late) == (1, 0)


def test_rows_before_the_slowest_partition_are_late() -> None:
    op = wr.Operator(query(source=TRACKED, late={"a": "2 s"}))
    op.process({"a": rows((0, 100), (1, 50))})
    op.process({"a": rows((0, 48), (0, 47.999999), (1, 60))})
    (late,) = op.late_rows().to_pylist()
    assert late["a"]["ts"].second == 47 and late["needed_seconds"] == 2.000001


def test_an_idle_partition_does_not_count() -> None:
    """Partition 1 is more than 10 s behind the newest row, so partition 2 is the slowest."""
    op = wr.Operator(query(source=TRACKED, idle="10 s"))
    op.process({"a": rows((0, 100), (1, 50), (2, 95))})
    op.process({"a": rows((1, 94), (1, 95))})
    assert op.metrics().rows_late == 1


def test_a_new_partition_counts_from_then_on_and_pulls_nothing_back() -> None:
    op = wr.Operator(query(source=TRACKED))
    op.process({"a": rows((0, 100))})
    op.process({"a": rows((1, 10), (0, 200))})  # late, and yet partition 1 is known from now on
    assert op.metrics().rows_late == 1
    op.process({"a": rows((1, 100), (0, 300))})  # not late: 100 is what the stream has reached
    op.process({"a": rows((1, 99))})
    assert op.metrics().rows_late == 2


def test_null_is_a_partition_of_its_own() -> None:
    op = wr.Operator(query(source=TRACKED))
    op.process({"a": rows((None, 10), (0, 100))})
    op.process({"a": rows((0, 10), (0, 9))})
    assert op.metrics().rows_late == 1


def test_expiry_follows_the_slowest_partition() -> None:
    op = wr.Operator(query(source=TRACKED, expire="eager"))
    op.process({"a": rows((0, 0), (1, 0)), "b": rows((0, 0))})
    for second in range(10, 100, 10):
        op.process({"a": rows((0, second)), "b": rows((0, second))})
    assert op.metrics().streams["b"].window_rows == 10, "partition 1 may still bring rows that match"
    op.process({"a": rows((1, 90))})
    assert op.metrics().streams["b"].window_rows == 1


def test_a_first_micro_batch_rules_out_no_source_partition(tmp_path: Path) -> None:
    """Its tasks do not know all source partitions yet, so rows that arrive in it say nothing about how old
    later ones can be, not even while others of it are processed."""
    schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us")), ("k", pa.int64()), ("p", pa.int64())])
    streams = {"a": wr.Stream("ts", "1 second"), "b": wr.Stream("ts", "1 second", source_partition="p")}
    query = wr.Query(streams, "a.k = b.k", late="20 seconds", evaluate="every 1 second")

    def row(id: int, seconds: float) -> pa.Table:
        columns = ([id], [int(seconds * 1_000_000)], [1], [id])
        return pa.table([pa.array(c).cast(f.type) for c, f in zip(columns, schema, strict=True)], schema)

    join = PartitionedJoin(query, dict.fromkeys("ab", schema), str(tmp_path), 2)
    first = {"a": pa.concat_tables([row(0, 0), row(1, 15)]), "b": row(0, 10)}
    assert join.process(0, first) == []
    (found,) = join.process(1, {"b": row(7, 0.5)})
    assert ids(pa.table({name: found.column(name) for name in "ab"})) == Counter({(0, 7): 1})


def test_rows_of_row_windows_wait_for_the_slowest_partition() -> None:
    """b joins the last row of a before it; the fast partition's row at 100 must not be taken for that."""
    asked = wr.Query(
        {"a": wr.Stream("ts", "1 rows", source_partition="p"), "b": wr.Stream("ts", "1 rows")}, "a.k = b.k"
    )
    calls = [{"a": rows((0, 100), (1, 1))}, {"a": rows((1, 5))}, {"b": rows((0, 100.5))}]
    whole = {"a": pa.concat_tables([c["a"] for c in calls[:2]]), "b": calls[2]["b"]}
    assert play(asked, *calls) == play(asked, whole) == Counter([(0, 0)])


def test_late_by_alias() -> None:
    op = wr.Operator(query(late={"a": "10 s"}))
    op.process({x: rows((0, 100)) for x in "ab"})
    op.process({x: rows((0, 90)) for x in "ab"})
    assert {a: s.rows_late for a, s in op.metrics().streams.items()} == {"a": 0, "b": 1}
    assert "late=a 10 seconds" in repr(op.query)
    assert wr.Operator.restore(op.query, op.snapshot()).metrics().rows_late == 1
    again = wr.Operator.restore(query(late={"a": "11 s", "b": "5 s"}), op.snapshot())
    again.process({x: rows((0, 97)) for x in "ab"})
    assert again.metrics().streams["b"].rows_late == 2, "what was late stays late"
    again.process({x: rows((0, 110)) for x in "ab"})
    again.process({x: rows((0, 105)) for x in "ab"})
    assert again.metrics().rows_late == 2


def test_the_column_of_source_partitions_is_fixed() -> None:
    blob = wr.Operator(query(source=TRACKED)).snapshot()
    with pytest.raises(wr.StateError, match=r"stream 'a': source_partition was 'p', now none.*tracked"):
        wr.Operator.restore(query(), blob)


def test_queries_share_a_join_only_if_their_delays_and_partitions_are_equal() -> None:
    same = wr.SharedOperator({"x": query(late={"a": "1 s", "b": "1 s"}), "y": query("1 s", late="1 s")})
    assert len(same.groups) == 1
    other = wr.SharedOperator({"x": query(late={"a": "1 s"}), "y": query(late={"b": "1 s"})})
    assert len(other.groups) == 2
    parted = {"x": query(), "y": query(source=TRACKED)}
    assert "different source partitions" in str(wr.explain(parted))


def test_the_public_exact_answer_knows_source_partitions() -> None:
    calls = [{"a": rows((0, 100), (1, 3)), "b": rows((0, 3))}, {"a": rows((1, 4), (0, 101))}]
    assert wr.testing.exact_answer(query(source=TRACKED), *calls).num_rows == 2
    assert wr.testing.exact_answer(query(), *calls).num_rows == 1


def test_a_stream_that_was_set_back() -> None:
    op = wr.Operator(query(source=TRACKED))
    op.process({"a": rows((0, 1000), (1, 900))})
    op.control({"event_time": {"a": 100 * SECOND}})
    op.process({"a": rows((0, 100), (1, 99))})
    assert op.metrics().rows_late == 1


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: query(late={"c": "1 s"}), r"late: unknown stream 'c'"),
        (lambda: query(late={"a": "soon"}), r"stream 'a': late: expected a duration"),
        (lambda: query(late={"a": "-1 s"}), r"stream 'a': late: must not be negative"),
        (lambda: query(source={"a": " "}), r"stream 'a': source_partition: expected the name of a column"),
        (lambda: wr.Operator(query(source={"a": "q"})).process({"a": rows((0, 0))}), r"unknown column 'q'"),
        (
            lambda: wr.Operator(query(source={"a": "ts"})).process({"a": rows((0, 0))}),
            r"must hold whole numbers",
        ),
    ],
)
def test_bad_input_is_refused(make: Any, told: str) -> None:
    with pytest.raises(wr.WindrowError, match=told):
        make()


def test_rows_ahead_are_kept_with_the_reason() -> None:
    op = wr.Operator(query(ahead="40 s"))
    op.process({"a": rows((0, 100), (0, 10)), "b": rows((0, 1))}, now=50 * SECOND)
    (row,) = op.late_rows().to_pylist()
    assert (row["stream"], row["reason"], row["needed_seconds"], row["b"]) == ("a", "ahead", 50.0, None)
    op.process({"a": rows((0, 100))})
    assert op.late_rows().num_rows == 0, "of the last call only"


def test_after_the_end_no_delay_would_have_kept_a_row() -> None:
    op = wr.Operator(query("2 rows", late="10 s"))
    op.process({x: rows((0, 100)) for x in "ab"})
    op.finish()
    op.process({"a": rows((0, 99))})
    assert op.late_rows().to_pylist()[0]["needed_seconds"] is None


def test_shared_joins_tell_theirs() -> None:
    op = wr.SharedOperator({"x": query(), "y": query(late="10 s")})
    op.process({x: rows((0, 100)) for x in "ab"})
    op.process({"a": rows((0, 95))})
    assert [table.num_rows for table in op.late_rows()] == [1, 0]


def test_shared_joins_follow_source_partitions() -> None:
    asked = query(source=TRACKED)
    shared, alone = wr.SharedOperator({"x": asked}), wr.Operator(asked)
    for call in (
        {"a": rows((0, 100), (1, 1)), "b": rows((0, 1), (0, 100))},
        {"a": rows((1, 2), (1, 3)), "b": rows((0, 100))},
    ):
        together = dict(shared.process(call))
        assert ids(together["x"]) == ids(alone.process(call))
    assert not any(table.num_rows for table in shared.late_rows())


PIPELINE = """
[streams.a]
format = "kafka"
time = "ts"
within = "5 seconds"
source_partition = "partition"
[streams.b]
format = "kafka"
time = "ts"
within = "5 seconds"
[join]
on = "a.k = b.k"
late = {late}
late_rows = "late"
[sink]
format = "noop"
[run]
checkpoint = "checkpoint"
"""


def test_a_pipeline_says_the_same(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(PIPELINE.replace("{late}", '{ a = "10 s", b = "1 s" }'))
    read = read_pipeline(file)
    assert read.query.watermark_delays == (10 * SECOND, SECOND)
    assert [s.source_partition for s in read.query.streams.values()] == ["partition", None]
    assert read.execution.late_rows == str(tmp_path / "late")
    file.write_text(PIPELINE.replace("{late}", "{ a = 10 }"))
    with pytest.raises(wr.QueryError, match="late: expected a duration such as '5 seconds', got 10"):
        read_pipeline(file)
    file.write_text(PIPELINE.replace("{late}", '{ c = "1 s" }'))
    with pytest.raises(wr.QueryError, match="late: unknown stream 'c'"):
        read_pipeline(file)
