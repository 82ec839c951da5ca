"""A function of `foreachBatch` may read its frame in part or not at all: the batch is completed all the same,
and later results with its rows are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

import windrow as wr
from results import ids
from spark_tools import Stream, failing, rows, set_back, settings, spark
from windrow.spark.join import join
from windrow.spark.metrics import metrics
from windrow.spark.shared_join import share
from windrow.state.inspect import verify

Reading = Callable[[DataFrame], object]

QUERY = wr.Query({alias: wr.Stream("ts", "4 seconds") for alias in "ab"}, "a.k = b.k")
READINGS: dict[str, Reading] = {
    "show": lambda frame: frame.show(1),
    "take": lambda frame: frame.take(1),
    "first": lambda frame: frame.first(),
    "isEmpty": lambda frame: frame.isEmpty(),
    "nothing": lambda frame: None,
    "cached in part": lambda frame: frame.persist().take(1),
}


class Results:
    """What the function saw of the batches it read whole. It reads others in another way."""

    def __init__(self, others: dict[int, Reading]) -> None:
        self.others = others
        self.seen: dict[int, Counter[tuple]] = {}

    def __call__(self, frame: DataFrame, batch: int) -> None:
        if batch in self.others:
            self.others[batch](frame)
        else:
            self.seen[batch] = Counter(tuple(row) for row in frame.collect())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def two(path: Path) -> tuple[Stream, Stream]:
    return Stream(path / "a"), Stream(path / "b")


def put(two: tuple[Stream, Stream], *tables: pa.Table) -> None:
    for stream in two:
        stream.put(*tables)


def batches(count: int, first: int = 0) -> list[pa.Table]:
    return [rows(n, 40, start=3 * n, span=3) for n in range(first, first + count)]


def joined(two: tuple[Stream, Stream], path: Path, partitions: int = 3) -> DataFrame:
    frames = dict(zip("ab", (stream.read() for stream in two), strict=True))
    return join(frames, QUERY, partitions=partitions, state=str(path / "state")).selectExpr("a.id", "b.id")


def run_each(frame: DataFrame, path: Path, function: Callable[[DataFrame, int], None]):
    writer = frame.writeStream.foreachBatch(function).option("checkpointLocation", str(path / "ck"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def exact(tables: list[pa.Table]) -> dict[int, Counter[tuple]]:
    """The results of each batch."""
    op = wr.Operator(QUERY)
    return {batch: ids(op.process({"a": table, "b": table})) for batch, table in enumerate(tables)}


def check(results: Results, tables: list[pa.Table]) -> None:
    want = {batch: found for batch, found in exact(tables).items() if batch not in results.others}
    assert all(want.values())
    assert results.seen == want


@pytest.fixture(params=["true", "false"], ids=["adaptive", "not adaptive"])
def adaptive(request: pytest.FixtureRequest) -> Iterator[None]:
    with settings({"spark.sql.adaptive.enabled": request.param}):
        yield


@pytest.mark.usefixtures("adaptive")
def test_a_batch_read_in_part_is_completed(two, path):
    """Every other batch is read in a different way, the first one too."""
    tables = batches(2 * len(READINGS))
    put(two, *tables)
    results = Results({2 * n: reading for n, reading in enumerate(READINGS.values())})
    query = run_each(joined(two, path), path, results)
    check(results, tables)
    # Of a frame that was cached in part, Spark reports only what was observed before.
    reported = [len(batch.partitions) for batch in metrics(query) if batch.batch != len(tables) - 2]
    assert reported == [3] * (len(tables) - 1)
    assert not verify(str(path / "state")).damage


def test_after_an_error_and_after_a_stop_the_query_goes_on(two, path):
    tables = batches(5)
    put(two, *tables[:4])

    def fail(frame: DataFrame) -> None:
        frame.take(1)
        raise RuntimeError("the function fails")

    results = Results({1: READINGS["take"], 2: fail})
    assert "the function fails" in failing(lambda: run_each(joined(two, path), path, results))
    results.others = {1: READINGS["take"], 3: READINGS["nothing"]}
    run_each(joined(two, path), path, results)
    put(two, tables[4])
    run_each(joined(two, path), path, results)
    check(results, tables)


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_first_batch_of_a_query_set_back_is_ignored(two, path, partitions):
    """It was formed with other rows before. They must not come back."""
    tables = batches(6)
    put(two, *tables[:3], rows(70, 40, start=9, span=3))
    run_each(joined(two, path, partitions), path, Results({}))
    set_back(path, 1)
    for stream in two:
        (stream.directory / "0003.parquet").unlink()
    put(two, *tables[3:])
    results = Results(dict.fromkeys(range(4), READINGS["nothing"]))
    run_each(joined(two, path, partitions), path, results)
    check(results, tables)


def test_frames_that_several_joins_are_part_of(two, path):
    """`take` reads some partitions of the first join and none of the others."""
    tables = batches(4)
    put(two, *tables)
    near = wr.Query({alias: wr.Stream("ts", "1 second") for alias in "ab"}, "a.k = b.k and a.id <> b.id")
    frames = dict(zip("ab", (stream.read() for stream in two), strict=True))
    shared = share({"far": QUERY, "near": near}, frames, partitions=2, state=str(path / "state"))
    alone = join(frames, QUERY, partitions=2, state=str(path / "state"), name="alone").selectExpr(
        "'alone' as query", "a.id as x", "b.id as y"
    )
    every = shared.selectExpr("query", "a.id as x", "b.id as y").where("x % 7 <> 0").union(alone)
    every.createOrReplaceTempView("every")
    results = Results(dict.fromkeys((0, 2), READINGS["take"]))
    run_each(spark().sql("select x, y from every where query <> 'near'"), path, results)
    for batch, found in exact(tables).items():
        if batch in results.seen:
            assert results.seen[batch] == found + Counter(
                {pair: n for pair, n in found.items() if pair[0] % 7}
            )
    assert list(results.seen) == [1, 3]
    assert len({file.parents[2] for file in path.rglob("commits/batch-*3/p*.json")}) == 3, "three joins"


def test_a_state_that_the_driver_cannot_read_is_refused_at_once(two):
    frames = dict(zip("ab", (stream.read() for stream in two), strict=True))
    out = join(frames, QUERY, partitions=2, state="nowhere://bucket/state")
    with pytest.raises(wr.StateError, match="cannot open the state path 'nowhere://bucket/state'"):
        out.where("a.id > 3").writeStream.foreachBatch(Results({}))


def test_frames_without_a_join_are_left_alone(two, path):
    """Nothing is run that the function does not run."""
    put(two, *batches(2))
    ran = path / "ran"

    def touch(tables: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ran.touch()
        yield from tables

    joined(two, path)
    own = two[0].read().select("id").mapInArrow(touch, "id long")
    with settings({"spark.sql.adaptive.enabled": "false"}):
        run_each(own, path, Results({0: READINGS["nothing"], 1: READINGS["nothing"]}))
    assert not ran.exists()
