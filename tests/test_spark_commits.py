"""Every partition of a join takes part in every batch and commits it. What an earlier run left of a batch
that is formed again does not count."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

import windrow as wr
from results import ids
from spark_tools import Stream, in_process, rows, run, set_back, spark, written
from windrow.spark.join import join
from windrow.spark.metrics import metrics
from windrow.state.commit_markers import CommitMarker
from windrow.state.inspect import verify

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


def committed(path: Path) -> dict[int, set[int]]:
    """Batches, and the partitions that committed each."""
    found: dict[int, set[int]] = {}
    for file in (path / "state").rglob("commits/*/p*"):
        marker = CommitMarker.parse(f"{file.parent.name}/{file.name}")
        found.setdefault(marker.version.batch, set()).add(marker.partition)
    return found


ALL = set(range(PARTITIONS))


def test_a_batch_that_only_a_watermark_makes(two, adaptive):
    a, b, path = two
    for stream, seed in ((a, 1), (b, 3)):
        stream.put(rows(seed, 40), rows(seed + 1, 40, start=30))
    at = joined(a, b, path).select(sf.greatest("a.ts", "b.ts").alias("at")).withWatermark("at", "1 second")
    counts = at.groupBy(sf.window("at", "10 seconds")).count()
    ran = run(counts, path, ["window.start", "count"])
    assert [p.numInputRows for p in ran.recentProgress] == [80, 80, 0]
    assert [m.batch for m in metrics(ran)] == [0, 1, 2]
    assert committed(path) == dict.fromkeys(range(3), ALL)
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
    assert committed(path) == dict.fromkeys(range(2), ALL)
    a.put(rows(3, 40))
    b.put(rows(3, 40))
    run(out, path, ["id"])
    assert written(path).total() >= 60
    assert committed(path)[2] == ALL


@pytest.mark.parametrize("partitions", [1, 4])
def test_what_is_held_back_comes_out_of_partitions_without_rows(two, partitions):
    """Rows of windows that count rows wait until no earlier row can come. The last batches have rows for one
    key only, so most partitions get none."""
    a, b, path = two
    late = "5 seconds"
    quiet = [rows(90 + n, 3, start=100 + 20 * n, span=1).set_column(2, "k", [[1] * 3]) for n in range(3)]
    for stream, seed in ((a, 1), (b, 3)):
        stream.put(rows(seed, 40), *quiet)
    frames = {"a": a.read(), "b": b.read()}
    out = join(
        frames, "a.k = b.k", "ts", "3 rows per key", late=late, partitions=partitions, state=str(path / "st")
    )
    run(out, path)
    counted = wr.Query({alias: wr.Stream("ts", "3 rows per key") for alias in "ab"}, "a.k = b.k", late=late)
    calls = [{"a": rows(1, 40), "b": rows(3, 40)}, *({"a": t, "b": t} for t in quiet)]
    want = in_process(counted, *calls, finish=False)
    assert want.total() > 50
    # Other partitions learn only with the next batch how far the streams came in this one.
    assert in_process(counted, *calls[:-1], finish=False) <= written(path) <= want


@pytest.mark.parametrize("back", [1, 3])
def test_a_query_set_back_forms_batches_with_other_rows(two, back):
    """The second time the rows of the last batches have another key and other times, so that other partitions
    get them."""
    a, b, path = two
    first = [rows(n, 30, start=4 * n, span=4) for n in range(5)]
    undone = [rows(70 + n, 30, start=500 + n, span=1).set_column(2, "k", [[3] * 30]) for n in range(back)]
    a.put(*first, *undone)
    b.put(*first, *undone)
    results: dict[int, Counter[tuple]] = {}

    def each(frame: DataFrame, batch: int) -> None:
        results[batch] = Counter(tuple(row) for row in frame.selectExpr("a.id", "b.id").collect())

    def run_all() -> None:
        writer = joined(a, b, path).writeStream.foreachBatch(each)
        writer.option("checkpointLocation", str(path / "ck")).trigger(
            availableNow=True
        ).start().awaitTermination()

    run_all()
    set_back(path, back)
    again = [rows(80 + n, 30, start=20 + n, span=1).set_column(2, "k", [[5] * 30]) for n in range(back)]
    more = rows(9, 60, start=20 + back, span=2)
    for stream in (a, b):
        for n in range(back):
            (stream.directory / f"{5 + n:04}.parquet").unlink()
        stream.put(*again, more)
    run_all()
    query = wr.Query({alias: wr.Stream("ts", "4 seconds") for alias in "ab"}, "a.k = b.k")
    op, want = wr.Operator(query), {}
    for batch, table in enumerate((*first, *again, more)):
        want[batch] = ids(op.process({"a": table, "b": table}))
    assert results == want
    assert not verify(str(path / "state")).damage
