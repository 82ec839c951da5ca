"""On Spark: late rows kept as parquet, watermarks of frames, and source partitions."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pyspark.sql import functions as sf
from typer.testing import CliRunner

import windrow as wr
from source_cases import source_cases
from spark_cases import SparkCase, drawn
from spark_runs import failures
from spark_tools import SECOND, START, Stream, failing, frame, rows, run, spark, written
from windrow.cli import app
from windrow.model.execution import Execution
from windrow.spark.join import join, prepare
from windrow.spark.shared_join import share

ON = "a.k = b.k"


def files(seed: int, count: int) -> list[pa.Table]:
    """Each overlaps the one before by some seconds: some rows are late."""
    return [rows(10 * seed + n, 60, start=6 * n, span=9) for n in range(count)]


def query(on: str = ON, **options: Any) -> wr.Query:
    return wr.Query({a: wr.Stream("ts", "4 seconds") for a in "ab"}, on, **{"late": "1 second", **options})


def dropped(asked: wr.Query, calls: list[dict[str, pa.Table]]) -> list[dict[str, Any]]:
    """What one operator drops of the same calls."""
    op = wr.Operator(asked)
    found = []
    for call in calls:
        op.process(call)
        found += op.late_rows().to_pylist()
    return found


def plain(found: list[dict[str, Any]]) -> Counter[tuple]:
    return Counter(
        (r["stream"], r["reason"], r[r["stream"]]["id"], r["event_time"], r["watermark"], r["needed_seconds"])
        for r in found
    )


def read(directory: Path) -> list[dict[str, Any]]:
    """Any reader of parquet will do."""
    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        found = database.sql(f"select * from read_parquet('{directory}/*.parquet')").to_arrow_table()
    return found.cast(_in_utc(found.schema)).to_pylist()


def _in_utc(schema: pa.Schema) -> pa.Schema:
    fields = [
        pa.field(f.name, pa.timestamp("us", "UTC")) if pa.types.is_timestamp(f.type) else f for f in schema
    ]
    return pa.schema(fields)


def source(stream: Stream, columnar: bool) -> Any:
    """As a DataFrame, or as files that stay in columns."""
    if columnar:
        return wr.files(spark(), str(stream.directory), schema=stream.schema, files_per_batch=1)
    return stream.read()


@pytest.mark.parametrize(
    ("partitions", "on", "columnar"),
    [(1, ON, ""), (3, "a.k < b.k and a.x > 0.2", "ab"), (7, ON, "b")],
    ids=["one", "copies of files", "seven, files and frames"],
)
def test_late_rows_are_kept_once_through_a_restart(tmp_path, partitions, on, columnar):
    a, b = Stream(tmp_path / "a"), Stream(tmp_path / "b")
    left, right = files(1, 4), files(2, 4)
    options = {
        "partitions": partitions,
        "state": str(tmp_path / "state"),
        "late_rows": str(tmp_path / "late"),
    }
    for part in (slice(0, 2), slice(2, 4)):
        a.put(*left[part])
        b.put(*right[part])
        frames = {alias: source(each, alias in columnar) for alias, each in (("a", a), ("b", b))}
        run(join(frames, query(on), name="pairs", **options), tmp_path)
    want = plain(dropped(query(on), [{"a": x, "b": y} for x, y in zip(left, right, strict=True)]))
    found = read(tmp_path / "late" / "pairs")
    assert plain(found) == want and len(want) > 20
    # Spark itself reads the directory as it is.
    again = spark().read.parquet(str(tmp_path / "late" / "pairs")).where("stream = 'a'").select("a.id")
    assert {row.id for row in again.collect()} == {r["a"]["id"] for r in found if r["stream"] == "a"}


def test_a_batch_formed_again_leaves_no_rows_of_the_first(tmp_path):
    """The checkpoint is set back by a batch, which then has other rows."""
    a, b = Stream(tmp_path / "a"), Stream(tmp_path / "b")
    left, right = files(1, 3), files(2, 3)
    options = {"partitions": 2, "state": str(tmp_path / "state"), "late_rows": str(tmp_path / "late")}

    def go_on() -> None:
        out = join({"a": a.read(), "b": b.read()}, query(), name="pairs", **options)
        writer = out.writeStream.foreachBatch(lambda frame, _: frame.collect())
        writer = writer.option("checkpointLocation", str(tmp_path / "ck"))
        writer.trigger(availableNow=True).start().awaitTermination()

    a.put(*left[:2])
    b.put(*right[:2])
    go_on()
    shutil.copytree(tmp_path / "ck", tmp_path / "copy")
    a.put(left[2])
    b.put(right[2])
    go_on()
    first = plain(read(tmp_path / "late" / "pairs"))
    shutil.rmtree(tmp_path / "ck")
    shutil.copytree(tmp_path / "copy", tmp_path / "ck")
    other = rows(77, 60, start=8, span=9)
    (tmp_path / "a" / "0002.parquet").unlink()
    a.put(other)
    go_on()
    calls = [{"a": x, "b": y} for x, y in zip([*left[:2], other], right, strict=True)]
    assert plain(read(tmp_path / "late" / "pairs")) == plain(dropped(query(), calls)) != first


@pytest.mark.parametrize("columnar", ["", "a", "ab"])
def test_rows_ahead_of_the_clock_are_kept(tmp_path, columnar):
    a, b = Stream(tmp_path / "a"), Stream(tmp_path / "b")
    far = rows(5, 3, start=50 * 365 * 86_400)
    a.put(pa.concat_tables([rows(1, 20), far]))
    b.put(rows(2, 20))
    options = {"state": str(tmp_path / "state"), "late_rows": str(tmp_path / "late"), "partitions": 3}
    frames = {alias: source(each, alias in columnar) for alias, each in (("a", a), ("b", b))}
    run(join(frames, query("a.k < b.k"), **options), tmp_path)
    found = read(tmp_path / "late" / "a_b")
    assert Counter(r["a"]["id"] for r in found) == Counter(far.column("id").to_pylist())
    for row in found:
        clock = row["event_time"].timestamp() - row["needed_seconds"]
        assert row["reason"] == "ahead" and clock > START / SECOND
        assert row["watermark"].timestamp() == pytest.approx(clock + 86_400)


def test_shared_joins_and_sql_keep_theirs(tmp_path):
    a, b = Stream(tmp_path / "a"), Stream(tmp_path / "b")
    left, right = files(1, 3), files(2, 3)
    a.put(*left)
    b.put(*right)
    streams, calls = (
        {"a": a.read(), "b": b.read()},
        [{"a": x, "b": y} for x, y in zip(left, right, strict=True)],
    )
    queries = {"x": query(), "y": query("a.k < b.k"), "z": query(late="2 seconds")}
    options = {"partitions": 2, "late_rows": str(tmp_path / "late")}
    out = share(queries, streams, state=str(tmp_path / "state"), **options)
    run(out, tmp_path / "shared", columns=["query", "a.id as a", "b.id as b"])
    for name, asked in (("shared", "x"), ("shared-2", "y"), ("shared-3", "z")):
        assert plain(read(tmp_path / "late" / name)) == plain(dropped(queries[asked], calls))
    sql = f"""SELECT a.id AS a, b.id AS b FROM a, b WHERE a.k = b.k WINDOW 4 seconds
        WITH (time = ts, late = (a = '1 second', b = '2 seconds'), late_rows = '{tmp_path}/sql')"""
    out = wr.sql(sql, spark(), {"a": a.read(), "b": b.read()}, state=str(tmp_path / "sql state"), name="s")
    run(out, tmp_path / "of sql", columns=["a", "b"])
    (place,) = (tmp_path / "sql").iterdir()
    assert plain(read(place)) == plain(dropped(query(late={"a": "1 s", "b": "2 s"}), calls))


def test_the_command_tells_what_a_larger_late_would_have_kept(tmp_path):
    a, b = Stream(tmp_path / "a"), Stream(tmp_path / "b")
    left, right = files(1, 3), files(2, 3)
    a.put(*left)
    b.put(*right)
    options = {"partitions": 2, "state": str(tmp_path / "state"), "late_rows": str(tmp_path / "late")}
    run(join({"a": a.read(), "b": b.read()}, query(), **options), tmp_path)
    calls = [{"a": x, "b": y} for x, y in zip(left, right, strict=True)]
    result = CliRunner().invoke(app, ["state", "late", str(tmp_path / "late"), "--json"])
    (told,) = json.loads(result.stdout)
    for stream in told["streams"]:
        for seconds, kept in stream["kept"]:
            op = wr.Operator(query(late={**{"a": "1 s", "b": "1 s"}, stream["stream"]: f"{seconds} seconds"}))
            for call in calls:
                op.process(call)
            assert stream["late"] - kept == op.metrics().streams[stream["stream"]].rows_late
        assert stream["kept"][-1][1] == stream["late"]
    shown = CliRunner().invoke(app, ["state", "late", str(tmp_path / "late" / "a_b")])
    assert shown.exit_code == 0 and "kept with late = 2 seconds" in shown.stdout
    assert "(100 %)" in shown.stdout
    nothing = CliRunner().invoke(app, ["state", "late", str(tmp_path / "nowhere")])
    assert nothing.exit_code == 2 and "no late rows" in nothing.stderr
    wrong = CliRunner().invoke(app, ["state", "late", str(tmp_path / "a")])
    assert wrong.exit_code == 1 and "does not hold late rows" in wrong.stderr


def test_a_directory_that_cannot_be_used_is_refused(tmp_path):
    a, b = Stream(tmp_path / "a"), Stream(tmp_path / "b")
    a.put(rows(1, 5))
    b.put(rows(2, 5))

    def start(number: int, late_rows: Path) -> str:
        place = tmp_path / str(number)
        options = {"state": str(place / "state"), "late_rows": str(late_rows), "partitions": 1}
        return failing(lambda: run(join({"a": a.read(), "b": b.read()}, query(), **options), place))

    (tmp_path / "file").write_text("")
    assert "cannot write the owner of late rows" in start(1, tmp_path / "file")
    options = {"state": str(tmp_path / "state"), "late_rows": str(tmp_path / "late"), "partitions": 1}
    run(join({"a": a.read(), "b": b.read()}, query(), **options), tmp_path)
    assert "holds the late rows of another query" in start(2, tmp_path / "late")


def test_late_rows_without_effect_and_names_that_clash_are_refused(tmp_path):
    batch = {"a": frame(rows(1, 5)), "b": frame(rows(2, 5))}
    with pytest.raises(wr.QueryError, match="late_rows: rows of batch frames are never late"):
        join(batch, query(), late_rows=str(tmp_path))
    streams = {"a": Stream(tmp_path / "a").read(), "Reason": Stream(tmp_path / "b").read()}
    asked = wr.Query({a: wr.Stream("ts", "4 s") for a in streams}, "a.k = Reason.k")
    with pytest.raises(wr.QueryError, match="late rows have a column 'reason'"):
        join(streams, asked, late_rows=str(tmp_path), state=str(tmp_path))


# --- Watermarks of frames -------------------------------------------------------------------------------


def test_the_watermark_of_a_frame_is_its_late(tmp_path):
    a, b = Stream(tmp_path / "a"), Stream(tmp_path / "b")
    left, right = files(1, 3), files(2, 3)
    a.put(*left)
    b.put(*right)
    streams = {"a": a.read().withWatermark("ts", "2 seconds"), "b": b.read()}
    asked = query(late="0 s")
    prepared = prepare(streams, asked, Execution(partitions=2, state=str(tmp_path / "state")))
    assert prepared.query.watermark_delays == (2 * SECOND, 0)
    assert "late: a 2 seconds (watermark of the frame), b 0 seconds" in prepared.described
    run(prepared.frame(), tmp_path)
    op = wr.Operator(query(late={"a": "2 s"}))
    want: Counter[tuple] = Counter()
    for x, y in zip(left, right, strict=True):
        for row in op.process({"a": x, "b": y}).to_pylist():
            want[row["a"]["id"], row["b"]["id"]] += 1
    assert written(tmp_path) == want


def test_explain_says_where_late_comes_from(tmp_path):
    streams = {"a": Stream(tmp_path / "a").read().withWatermark("ts", "90 seconds")}
    streams["b"] = Stream(tmp_path / "b").read()
    sql = """EXPLAIN SELECT a.id FROM a, b WHERE a.k = b.k WINDOW 4 s
        WITH (time = ts, source_partition = (b = s))"""
    (row,) = wr.sql(sql, spark(), streams, state=str(tmp_path / "state")).collect()
    assert "late: a 90 seconds (watermark of the frame), b 0 seconds behind the slowest 's'" in row.plan


@pytest.mark.parametrize(
    ("column", "delay", "late", "told"),
    [
        ("ts", "2 seconds", "1 s", "stream 'a': late is 1 second, and the frame has a watermark of"),
        ("ts", "2 seconds", {"a": "0 s"}, "late is 0 seconds, and the frame has a watermark of 2 seconds"),
        ("at", "2 seconds", "0 s", "a watermark on 'at', and the stream's time is 'ts'"),
        ("ts", "2 seconds", "2 s", None),
        ("ts", "2 seconds", {"a": "2 s", "b": "1 s"}, None),
        ("ts", "2 seconds", {"b": "1 s"}, None),
    ],
)
def test_watermarks_that_contradict_the_query_are_refused(tmp_path, column, delay, late, told):
    streams = {x: Stream(tmp_path / x).read().withColumn("at", sf.col("ts")) for x in "ab"}
    streams["a"] = streams["a"].withWatermark(column, delay)
    asked = query(late=late)
    if told is None:
        join(streams, asked, state=str(tmp_path))
        share({"x": asked, "y": replace(asked, on="a.k < b.k")}, streams, state=str(tmp_path))
        return
    for call in (lambda: join(streams, asked, state=str(tmp_path)), lambda: share({"x": asked}, streams)):
        with pytest.raises(wr.QueryError, match=told):
            call()


def test_a_group_by_over_a_frame_with_a_watermark_is_refused(tmp_path):
    """Spark would refuse it in the first micro-batch: the result has a watermark of its own."""
    streams = {x: Stream(tmp_path / x).read().withWatermark("ts", "2 seconds") for x in "ab"}
    sql = """SELECT window_start, count(*) AS n FROM a, b WHERE a.k = b.k
        GROUP BY TUMBLE(b.ts, INTERVAL 5 SECONDS) WINDOW 4 SECONDS"""
    with pytest.raises(wr.QueryError, match="Spark allows no other in the query; pass the frame without"):
        wr.sql(sql, spark(), streams, time="ts", state=str(tmp_path / "state"))


# --- Source partitions ----------------------------------------------------------------------------------


@st.composite
def source_spark_cases(draw: st.DrawFn) -> SparkCase:
    case = draw(source_cases())
    calls = case.calls[:3]
    case = replace(case, calls=calls, snapshots=frozenset())
    partitions = draw(st.sampled_from([1, 3, 7]))
    return SparkCase(0, case, partitions, None, None, draw(st.integers(1, len(calls))), {}, 0)


@pytest.mark.blocks(1, soak=40)
def test_any_progress_of_source_partitions(tmp_path, block, first_seed):
    chosen = [drawn(first_seed + 5 * block + n, source_spark_cases()) for n in range(5)]
    wrong = failures(chosen, tmp_path)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("partitions", [1, 3, 7])
def test_uneven_source_partitions_through_restarts(tmp_path, partitions):
    """Source partition 1 of stream a is far behind. It has keys of its own, so some tasks see only the other
    one, and must learn of it. Every batch is a start of its own, so all is restored."""
    a, b = Stream(tmp_path / "a", "id long, ts timestamp, k long, p int"), Stream(tmp_path / "b")
    rng, fast = Random(7), []
    for n in range(3):
        times = [(0, rng.randrange(max(0, 20 * n - 10), 20 * n + 20)) for _ in range(30)]
        times += [(1, rng.randrange(5 * n, 5 * n + 5)) for _ in range(30)]
        fast.append(
            pa.table(
                {
                    "id": pa.array(range(100 * n, 100 * n + 60), pa.int64()),
                    "ts": pa.array([START + t * SECOND for _, t in times], pa.timestamp("us", "UTC")),
                    "k": pa.array([2 * rng.randrange(2) + p for p, _ in times], pa.int64()),
                    "p": pa.array([p for p, _ in times], pa.int32()),
                }
            )
        )
    other = [rows(3 + n, 60, start=5 * n, span=7) for n in range(3)]
    asked = wr.Query(
        {"a": wr.Stream("ts", "4 s", source_partition="p"), "b": wr.Stream("ts", "4 s")},
        ON,
        late={"b": "2 s"},
    )
    options = {
        "partitions": partitions,
        "state": str(tmp_path / "state"),
        "late_rows": str(tmp_path / "late"),
    }
    op, want, late = wr.Operator(asked), Counter(), []
    for x, y in zip(fast, other, strict=True):
        a.put(x)
        b.put(y)
        run(join({"a": a.read(), "b": b.read()}, asked, name="pairs", **options), tmp_path)
        for row in op.process({"a": x, "b": y}).to_pylist():
            want[row["a"]["id"], row["b"]["id"]] += 1
        late += op.late_rows().to_pylist()
    assert written(tmp_path) == want and want.total() > 50
    place = tmp_path / "late" / "pairs"
    assert plain(read(place) if list(place.glob("*.parquet")) else []) == plain(late)
    assert op.metrics().streams["a"].rows_late == 0, "nothing is late on account of the fast partition"
