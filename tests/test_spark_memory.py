"""Memory limits on Spark: the limit is for the whole join, the recall is known, restarts change nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from spark_tools import START, Stream, failing, frame, in_process, rows, run, spark, written
from windrow.estimation.recall import recall_interval
from windrow.spark.join import join
from windrow.spark.metrics import metrics
from windrow.state.paths import JoinId

FILES, SIZE, LIMIT = 6, 900, 180
ON = "a.k = b.k"


def files(seed: int, count: int = FILES) -> list[pa.Table]:
    """Nine seconds each, and windows of nine: whole windows hold ten times the limit."""
    return [rows(10 * seed + n, SIZE, start=9 * n, span=9, keys=60) for n in range(count)]


def joined(path: Path, streams: dict[str, Stream], **options: object):
    settings = {"partitions": 3, "state": str(path / "state"), "memory": f"{LIMIT} rows", **options}
    return join({alias: s.read() for alias, s in streams.items()}, ON, "ts", "9 seconds", **settings)


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, dict[str, Stream]]:
    return tmp_path, {alias: Stream(tmp_path / alias) for alias in "ab"}


def put(streams: dict[str, Stream], begin: int, end: int) -> None:
    for seed, stream in enumerate(streams.values(), 1):
        stream.put(*files(seed)[begin:end])


def exact(count: int = FILES):
    streams = {alias: wr.Stream("ts", "9 seconds") for alias in "ab"}
    calls = [{"a": x, "b": y} for x, y in zip(files(1)[:count], files(2)[:count], strict=True)]
    return in_process(wr.Query(streams, ON), *calls)


def test_a_limit_holds_for_the_whole_join_and_over_a_restart(two):
    path, streams = two
    put(streams, 0, 3)
    told = metrics(run(joined(path, streams), path))
    put(streams, 3, FILES)
    told += metrics(run(joined(path, streams), path))
    found, true = written(path), exact()
    assert found < true
    assert [m.batch for m in told] == list(range(FILES))
    assert all(0 < m.window_rows <= LIMIT for m in told)
    assert sum(m.rows_evicted for m in told) > SIZE
    assert sum(m.results for m in told) == found.total()
    # By need: the parts follow what comes in, and together are no more than the limit.
    shares = [[int(p.memory_limit.split()[0]) for p in m.partitions] for m in told]
    assert all(sum(s) <= LIMIT for s in shares)
    assert shares[0] == [LIMIT // 3] * 3 != shares[-1]
    sums = [sum(getattr(m, f"results_{n}") for m in told) for n in ("found", "estimated", "variance")]
    _, low, high = recall_interval(*sums, level=0.999)
    assert low <= found.total() / true.total() <= high
    assert told[-1].recall[0] < 1 and "recall 0." in str(told[-1])


def test_windows_that_spill_lose_nothing_over_a_restart(two):
    path, streams = two
    limit = 30 << 10
    put(streams, 0, 3)
    given = {"memory": limit, "disk": "unlimited"}
    reported = metrics(run(joined(path, streams, **given), path))
    put(streams, 3, FILES)
    reported += metrics(run(joined(path, streams, **given), path))
    assert written(path) == exact()
    assert sum(m.rows_evicted for m in reported) == 0
    assert all(m.memory_bytes <= limit < m.spilled_bytes for m in reported[1:])


def test_a_sample_comes_with_weights(two):
    path, streams = two
    put(streams, 0, FILES)
    out = joined(path, streams, shed="cluster", seed=3)
    assert out.columns == ["a", "b", "weight", "cluster"]
    run(out, path, ["a.id as a", "b.id as b", "weight", "cluster"])
    sampled = spark().read.parquet(str(path / "out")).toArrow()
    true = exact().total()
    assert 0 < sampled.num_rows < true / 2
    assert sum(sampled["weight"].to_pylist()) == pytest.approx(true, rel=0.5)


def test_a_batch_frame_under_a_limit():
    frames = {"a": frame(files(1, 1)[0]), "b": frame(files(2, 1)[0])}
    out = join(frames, ON, "ts", "9 seconds", memory="90 rows", shed="fifo", partitions=3)
    found = out.count()
    assert 0 < found < exact(1).total()


class Documents(Stream):
    def read(self):
        reader = spark().readStream.schema("value string").option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.directory))


def test_importance_changes_while_the_query_runs(two):
    """At first low keys matter, from the fourth file on high ones; a broken document changes nothing."""
    path, streams = two
    control = Documents(path / "control")
    at = START + 27_000_000
    put(streams, 0, FILES)
    changed = {"at": at, "importance": {"a": "a.k", "b": "b.k"}}
    texts = ['{"at": "noon"', json.dumps({"at": at, "importance": {"a": "a.nothing"}}), json.dumps(changed)]
    control.put(pa.table({"value": texts}))
    shed = wr.policies.Greedy(by={"a": "60 - a.k", "b": "60 - b.k"})
    ran = run(joined(path, streams, shed=shed, control=control.read()), path, ["a.k as k", "a.id as id"])
    told = metrics(ran)
    reasons = {reason for m in told for p in m.partitions for reason in p.control_errors}
    assert any("not JSON" in r for r in reasons) and any("nothing" in r for r in reasons)
    assert all(m.partitions[0].importance is not None for m in told)
    found = spark().read.parquet(str(path / "out")).toArrow().to_pydict()
    early = [k for k, number in zip(found["k"], found["id"], strict=True) if number % 1_000_000 < 1_200_000]
    assert early
    by_file = {n: [] for n in range(FILES)}
    for k, number in zip(found["k"], found["id"], strict=True):
        by_file[number // 100_000 - 10].append(k)
    means = [sum(by_file[n]) / len(by_file[n]) for n in (1, FILES - 1)]
    assert means[0] < 30 < means[1]


def test_a_negative_importance_is_none_and_the_query_goes_on(two):
    path, streams = two
    worth = "case when a.k = 59 and a.id >= 1100000 then 0 - a.k else a.k end"
    streams["a"].put(*files(1)[:2])
    streams["b"].put(*files(2)[:2])
    told = metrics(run(joined(path, streams, shed=wr.policies.Greedy(by={"a": worth})), path))
    assert [m.rows_null_importance > 0 for m in told] == [False, True]
    assert told[1].rows_in == 2 * SIZE
    assert written(path) < exact(2)


def test_joins_share_a_pool_and_follow_their_streams(tmp_path):
    pool = wr.MemoryPool("600 rows", str(tmp_path / "pool"))
    shares = {}
    for name, keys in (("first", 6), ("second", 200)):
        path = tmp_path / name
        streams = {alias: Stream(path / alias) for alias in "ab"}
        for seed, stream in enumerate(streams.values(), 1):
            stream.put(*(rows(10 * seed + n, 300, start=9 * n, span=9, keys=keys) for n in range(4)))
        out = join(
            {alias: s.read() for alias, s in streams.items()},
            *(ON, "ts", "9 seconds"),
            partitions=2,
            state=str(path / "state"),
            memory=pool,
            shed="age",
            name=name,
        )
        told = metrics(run(out, path))
        assert all(m.window_rows <= 600 for m in told)
        shares[name] = [sum(int(p.memory_limit.split()[0]) for p in m.partitions) for m in told]
    assert shares["first"][-1] == pytest.approx(600, abs=5)
    assert 200 < shares["second"][-1] < 400


def test_a_pool_is_divided_by_forecasts(tmp_path):
    now = [1000.0]
    pool = wr.MemoryPool("300 rows", str(tmp_path), clock=lambda: now[0])
    one, two = JoinId("q", "one"), JoinId("q", "two")
    assert pool.share(one).size == 300
    easy, hard = (wr.RecallCurve(np.array([0.0, size]), np.array([0.0, 1.0]), "rows") for size in (100, 300))
    pool.share_forecast(one, easy, 1.0)
    assert pool.share(two).size == 150
    pool.share_forecast(two, hard, 1.0)
    assert (pool.share(one).size, pool.share(two).size) == (75, 225)
    pool.share_forecast(two, hard, 3.0)
    assert pool.share(one).size == 30
    now[0] += 700
    pool.share_forecast(one, easy, 1.0)
    assert pool.share(one).size == 300, "the other has ended"


def test_joins_of_which_nothing_is_known_leave_the_others_less_of_a_pool(tmp_path):
    """All of them together never get more than there is, a join's first batch apart: so many as have shown
    themselves by then it knows."""
    now = [1000.0]
    pool = wr.MemoryPool("300 rows", str(tmp_path), clock=lambda: now[0])
    one, two, three = (JoinId("q", name) for name in ("one", "two", "three"))
    assert [pool.share(scope).size for scope in (one, two, three)] == [300, 150, 100]
    assert [pool.share(scope).size for scope in (one, two, three)] == [100, 100, 100]
    pool.share_forecast(one, wr.RecallCurve(np.array([0.0, 50.0]), np.array([0.0, 1.0]), "rows"), 1.0)
    assert [pool.share(scope).size for scope in (one, two, three)] == [100, 100, 100]
    for _ in range(3):  # a join that never says anything shows that it goes on
        now[0] += 400
        assert pool.share(two).size >= 100
    assert pool.share(two).size == 300


def test_what_is_wrong_is_told_before_any_data_is_read(two):
    path, streams = two
    put(streams, 0, 1)
    for options, message in (
        ({"memory": "2 bananas"}, "expected '256 MiB'"),
        ({"shed": "frequncy"}, "Did you mean 'frequency'"),
        ({"shed": wr.policies.Greedy(by="a.nothing")}, "nothing"),
        ({"memory": None, "shed": "uniform"}, "samples to stay inside a limit"),
        ({"memory": wr.MemoryPool("1 MiB", str(path / "pool")), "disk": "1 GiB"}, "disk: a pool divides"),
        ({"control": frame(rows(1, 2))}, "must be a stream"),
        ({"control": streams["a"].read()}, "text column 'value'"),
    ):
        assert message in failing(lambda options=options: joined(path, streams, **options))
