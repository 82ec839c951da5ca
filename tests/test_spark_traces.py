"""Every task of a join runs in every batch and leaves a mark; if not, the next batch refuses to go on."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark_tools import Stream, failing, rows, run, spark, written
from windrow.spark.join import join
from windrow.spark.metrics import metrics
from windrow.state.inspect import verify
from windrow.state.marks import Marks

PARTITIONS = 3


@pytest.fixture
def two(tmp_path):
    return Stream(tmp_path / "a"), Stream(tmp_path / "b"), tmp_path


@pytest.fixture(params=["true", "false"], ids=["adaptive", "not adaptive"])
def adaptive(request):
    setting = "spark.sql.adaptive.enabled"
    before = spark().conf.get(setting)
    spark().conf.set(setting, request.param)
    yield
    spark().conf.set(setting, before)


def joined(a: Stream, b: Stream, path: Path) -> DataFrame:
    frames = {"a": a.read(), "b": b.read()}
    return join(frames, "a.k = b.k", "ts", "4 seconds", partitions=PARTITIONS, state=str(path / "state"))


def marks(path: Path) -> Marks:
    return Marks(file.name for file in (path / "state").rglob("frontier/*"))


def test_a_batch_that_only_a_watermark_makes(two, adaptive):
    a, b, path = two
    for stream, seed in ((a, 1), (b, 3)):
        stream.put(rows(seed, 40), rows(seed + 1, 40, start=30))
    at = joined(a, b, path).select(sf.greatest("a.ts", "b.ts").alias("at")).withWatermark("at", "1 second")
    counts = at.groupBy(sf.window("at", "10 seconds")).count()
    ran = run(counts, path, ["window.start", "count"])
    assert [p.numInputRows for p in ran.recentProgress] == [80, 80, 0]
    assert [m.batch for m in metrics(ran)] == [0, 1]
    found = marks(path)
    assert [found.traces(batch) for batch in range(3)] == [PARTITIONS] * 3
    assert len(found.empty) == PARTITIONS
    a.put(rows(5, 40, start=60))
    run(counts, path, ["window.start", "count"])
    assert not verify(str(path / "state")).damage


def test_batches_without_a_row_for_the_join(two, adaptive):
    """They are there for another stream of the query, from the first batch on."""
    a, b, path = two
    c = Stream(path / "c")
    c.put(rows(1, 10), rows(2, 10))
    out = joined(a, b, path).selectExpr("a.id").union(c.read().select("id"))
    run(out, path, ["id"])
    assert len(marks(path).empty) == 2 * PARTITIONS
    a.put(rows(3, 40))
    b.put(rows(3, 40))
    run(out, path, ["id"])
    assert written(path).total() >= 60
    assert marks(path).traces(2) == PARTITIONS


def test_what_foreach_batch_does_not_run_is_told(two):
    a, b, path = two
    a.put(*(rows(n, 40, start=4 * n) for n in range(3)))
    b.put(*(rows(n, 40, start=4 * n) for n in range(3)))

    def each(frame: DataFrame, batch: int) -> None:
        if batch == 0:
            frame.persist()
            frame.take(1)
            frame.count()
            frame.unpersist()
        else:
            frame.take(1)

    def start() -> None:
        writer = joined(a, b, path).writeStream.foreachBatch(each)
        writer = writer.option("checkpointLocation", str(path / "ck")).trigger(availableNow=True)
        writer.start().awaitTermination()

    told = failing(start)
    assert "batch 1 left no trace in 2 of 3 partitions" in told
    assert "have foreachBatch write or persist the whole frame" in told
