"""`join` over streams of files: micro-batches, restarts, what follows the join, what is reported."""

from __future__ import annotations

import shutil

import pytest
from pyspark.sql import functions as sf

import windrow as wr
from spark_tools import Stream, failing, frame, in_process, rows, run, spark, written
from windrow.spark.join import join
from windrow.spark.metrics import metrics

ON = "a.k = b.k"


def query(on: str = ON, within: str = "4 seconds", late: str = "1 second", aliases: str = "ab") -> wr.Query:
    return wr.Query({a: wr.Stream("ts", within) for a in aliases}, on, late=late)


def files(seed: int, count: int = 3, size: int = 80) -> list:
    """Each file overlaps the one before by some seconds: some rows are late."""
    return [rows(10 * seed + n, size, start=6 * n, span=9) for n in range(count)]


@pytest.fixture
def two(tmp_path):
    return Stream(tmp_path / "a"), Stream(tmp_path / "b"), tmp_path


def joined(a: Stream, b: Stream, path, on: str = ON, **options):
    settings = {"late": "1 second", "partitions": 3, "state": str(path / "state"), **options}
    return join({"a": a.read(), "b": b.read()}, on, "ts", "4 seconds", **settings)


@pytest.mark.parametrize("on", [ON, "abs(a.x - b.x) <= 0.25", "a.k < b.k"])
def test_micro_batches_give_what_one_operator_gives(two, on):
    a, b, path = two
    left, right = files(1), files(2)
    a.put(*left)
    b.put(*right)
    ran = run(joined(a, b, path, on), path)
    calls = [{"a": x, "b": y} for x, y in zip(left, right, strict=True)]
    want = in_process(query(on), *calls)
    assert len(want) > 100
    assert written(path) == want
    told = metrics(ran)
    assert [m.batch for m in told] == [0, 1, 2]
    assert sum(m.results for m in told) == want.total()
    op = wr.Operator(query(on))
    for call in calls:
        op.process(call)
    assert sum(m.rows_in for m in told) == 480
    assert sum(m.rows_late for m in told) == op.metrics().rows_late > 0


def test_it_goes_on_from_its_checkpoint(two):
    a, b, path = two
    left, right = files(1, 4), files(2, 4)
    a.put(*left[:2])
    b.put(*right[:2])
    run(joined(a, b, path), path)
    between = written(path)
    a.put(*left[2:])
    b.put(*right[2:])
    ran = run(joined(a, b, path), path)
    want = in_process(query(), *({"a": x, "b": y} for x, y in zip(left, right, strict=True)))
    assert between < written(path) == want
    (batch,) = metrics(ran)[-1:]
    assert "rows in" in str(batch)
    assert batch.batch == 3
    assert {s: v.max_event_time for s, v in batch.partitions[0].streams.items()}.keys() == {"a", "b"}
    assert all(
        p.seconds_process > 0 and p.memory_bytes > 0 and 0 < p.hot_key_share <= 1 for p in batch.partitions
    )


def test_a_partition_that_never_sees_a_stream_lets_rows_go(two):
    """All rows of b have one key; yet rows of a expire in every partition."""
    a, b, path = two
    later = [rows(n, 40, start=100 * n, span=1) for n in range(3)]
    a.put(*later)
    b.put(*[t.set_column(2, "k", [[1] * t.num_rows]) for t in later])
    ran = run(joined(a, b, path), path)
    last = metrics(ran)[-1]
    assert max(p.streams["a"].window_rows for p in last.partitions) <= 40


def test_state_that_is_missing_is_an_error_not_a_fresh_start(two):
    a, b, path = two
    a.put(*files(1, 1, 2000))  # fewer rows would have no file of their own
    b.put(*files(2, 1))
    run(joined(a, b, path), path)
    a.put(*files(3, 1))
    assert "how was 'inner', now 'left'" in failing(lambda: run(joined(a, b, path, how="left"), path))
    manifest = next((path / "state").rglob("batch-*/p*.json"))
    kept = manifest.read_bytes()
    manifest.unlink()
    assert "batch 0: commit markers are missing for 1 of" in failing(lambda: run(joined(a, b, path), path))
    manifest.write_bytes(kept)
    parts = next((path / "state").rglob("parts-*.arrows"))
    whole = parts.read_bytes()
    parts.write_bytes(whole[: len(whole) // 2])
    assert "is damaged: it has" in failing(lambda: run(joined(a, b, path), path))
    parts.write_bytes(whole)
    (path / "state").rename(path / "elsewhere")
    assert "there is no state" in failing(lambda: run(joined(a, b, path), path))
    shutil.rmtree(path / "state", ignore_errors=True)
    (path / "elsewhere").rename(path / "state")
    run(joined(a, b, path), path)
    calls = [{"a": files(1, 1, 2000)[0], "b": files(2, 1)[0]}, {"a": files(3, 1)[0]}]
    assert written(path) == in_process(query(), *calls)


def test_a_restart_with_the_layout_that_was_chosen_moves_no_rows(two):
    a, b, path = two
    a.put(*files(1, 1))
    b.put(*files(2, 1))
    run(joined(a, b, path), path)
    a.put(*files(3, 1))
    ran = run(joined(a, b, path, partitioning="key"), path)  # what it chose by itself
    assert [m.changes for m in metrics(ran)] == [()]
    calls = [{"a": files(1, 1)[0], "b": files(2, 1)[0]}, {"a": files(3, 1)[0]}]
    assert written(path) == in_process(query(), *calls)


def test_ordinary_spark_goes_on_with_the_result(two):
    """A watermark, a window and a count after the join."""
    a, b, path = two
    left, right = files(1), files(2)
    a.put(*left, rows(7, 5, start=900, span=1))
    b.put(*right, rows(8, 5, start=900, span=1))
    out = joined(a, b, path, partitions=2)
    counts = (
        out.select(sf.greatest("a.ts", "b.ts").alias("at"))
        .withWatermark("at", "20 seconds")
        .groupBy(sf.window("at", "10 seconds"))
        .count()
    )
    run(counts, path, ["window.start", "count"])
    got = sum(count for _, count in written(path))
    want = in_process(query(), *({"a": x, "b": y} for x, y in zip(left, right, strict=True)))
    assert got == want.total()


def test_a_limit_does_not_stop_the_windows(two):
    a, b, path = two
    left, right = files(1), files(2)
    a.put(*left)
    b.put(*right)
    out = joined(a, b, path).select("a.id")
    ran = (
        out.limit(5)
        .writeStream.format("memory")
        .queryName("few")
        .option("checkpointLocation", str(path / "ck"))
    )
    ran = ran.trigger(availableNow=True).start()
    ran.awaitTermination()
    assert spark().sql("select * from few").count() == 5
    want = in_process(query(), *({"a": x, "b": y} for x, y in zip(left, right, strict=True)))
    assert sum(m.results for m in metrics(ran)) == want.total()


def test_one_join_feeds_another(two):
    a, b, path = two
    c = Stream(path / "c")
    left, right, third = files(1), files(2), files(3)
    a.put(*left)
    b.put(*right)
    c.put(*third)
    first = joined(a, b, path, late="0 seconds", name="first")
    pairs = first.selectExpr("a.id * 1000000 + b.id as id", "greatest(a.ts, b.ts) as ts", "a.k as k")
    second = join(
        {"p": pairs, "c": c.read()}, "p.k = c.k", "ts", "4 seconds",
        late="10 seconds", partitions=2, state=str(path / "state"), name="second",
    )  # fmt: skip
    ran = run(second, path)
    op = wr.Operator(query(late="0 seconds"))
    feed = wr.Operator(query("p.k = c.k", late="10 seconds", aliases="pc"))
    want = 0
    for x, y, z in zip(left, right, third, strict=True):
        out = op.process({"a": x, "b": y})
        frame_ = frame(out).selectExpr(
            "a.id * 1000000 + b.id as id", "greatest(a.ts, b.ts) as ts", "a.k as k"
        )
        want += feed.process({"p": frame_.toArrow(), "c": z}).num_rows
    assert want > 100
    got = written(path)
    assert (got.total(), max(got.values())) == (want, 1)
    assert {m.join for m in metrics(ran)} == {"first", "second"}
    assert {m.join for m in metrics(ran, "second")} == {"second"}


def test_joins_side_by_side_and_merged_partitions(two):
    """Where Spark runs several partitions in one task, or two joins in one stage, none is mistaken."""
    a, b, path = two
    left, right = files(1), files(2)
    a.put(*left)
    b.put(*right)
    one = joined(a, b, path, name="one").selectExpr("a.id as a", "b.id as b")
    other = joined(a, b, path, name="other").selectExpr("a.id as a", "b.id as b")
    run(one.union(other).coalesce(2), path, ["a", "b"])
    want = in_process(query(), *({"a": x, "b": y} for x, y in zip(left, right, strict=True)))
    assert written(path) == want + want


def test_windows_counted_per_key_on_streams(two):
    a, b, path = two
    left, right = files(1), files(2)
    a.put(*left)
    b.put(*right)
    out = join(
        {"a": a.read(), "b": b.read()}, ON, "ts", "3 rows per key", partitions=3, state=str(path / "state")
    )
    run(out, path)
    counted = query(within="3 rows per key", late="0 seconds")
    calls = [{"a": x, "b": y} for x, y in zip(left, right, strict=True)]
    assert written(path) == in_process(counted, *calls)


def test_streams_need_state_and_company(two):
    a, b, path = two
    with pytest.raises(wr.QueryError, match="give state='path or URL'"):
        joined(a, b, path, state=None)
    with pytest.raises(wr.QueryError, match=r"\['a'\] are streams and \['b'\] are not"):
        join({"a": a.read(), "b": frame(rows(1, 2))}, ON, "ts", "1 s", state=str(path))
