"""Control messages and rows far ahead on Spark: nothing stops the query, and a replay does the same."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pyarrow as pa
import pytest

import windrow as wr
from spark_tools import START, Stream, in_process, rows, run, spark, written
from windrow.spark.join import join
from windrow.spark.metrics import metrics
from windrow.spark.shared_join import share

SECOND = 1_000_000
FAR = START + 80 * 365 * 86_400 * SECOND
FILES = 4
POISON = [
    "[" * 200_000,
    '{"at": ' + "9" * 5_000 + "}",
    '{"remove": "' + "x" * 70_000 + '"}',
    json.dumps({"add": {"name": "n", "within": "1 s", "where": "(" * 900 + "a.x > 1" + ")" * 900}}),
    json.dumps({"add": {"name": "n", "within": "9" * 400 + " weeks"}}),
    json.dumps({"at": 10**30, "importance": {"a": "a.x"}}),
    "null",
]


class Messages(Stream):
    def put_all(self, *documents: object) -> None:
        texts = [d if isinstance(d, str) else json.dumps(d) for d in documents]
        self.put(pa.table({"value": pa.array(texts, pa.string())}))

    def read(self):
        reader = spark().readStream.schema("value string").option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.directory))


@pytest.fixture
def streams(tmp_path):
    return (
        tmp_path,
        {"a": Stream(tmp_path / "a"), "b": Stream(tmp_path / "b")},
        Messages(tmp_path / "control"),
    )


def tables(seed: int) -> list[pa.Table]:
    return [rows(10 * seed + n, 60, start=9 * n, span=9) for n in range(FILES)]


def calls() -> list[dict[str, pa.Table]]:
    return [{"a": a, "b": b} for a, b in zip(tables(1), tables(2), strict=True)]


def far(seed: int, time: int = FAR) -> pa.Table:
    one = rows(seed, 9).slice(0, 1)
    return one.set_column(1, "ts", pa.array([time], pa.timestamp("us", "UTC")))


def query(within: str = "4 seconds", **options) -> wr.Query:
    return wr.Query({a: wr.Stream("ts", within) for a in "ab"}, "a.k = b.k", **options)


def joined(path, given, **options):
    frames = {alias: s.read() for alias, s in given.items()}
    settings = {"on": "a.k = b.k", "time": "ts", "within": "4 seconds", "partitions": 3}
    return join(frames, **settings | {"state": str(path / "state")} | options)


def test_poison_leaves_a_query_running(streams):
    path, given, control = streams
    control.put_all(*POISON)
    control.put_all({"at": START + 9 * SECOND, "importance": {"a": "0 - a.x"}})
    for call in calls():
        for alias, stream in given.items():
            stream.put(call[alias])
    limited = {"memory": "90 rows", "shed": wr.policies.Importance(by="a.x"), "control": control.read()}
    told = metrics(run(joined(path, given, **limited), path))
    reasons = {r for m in told for r in m.control_errors}
    # Two of them are no messages of this kind of join, and for one reason.
    assert len(reasons) == len(POISON) - 1 and all(len(r) < 400 for r in reasons), reasons
    assert sum(m.rows_null_importance for m in told) > 0, "a negative importance counts, and stops nothing"
    assert [m.batch for m in told] == list(range(FILES)) and told[-1].results > 0
    assert not written(path) - in_process(query(), *calls())


def test_poison_and_a_name_taken_again_leave_shared_queries_running(streams):
    path, given, control = streams
    control.put_all(*POISON, {"add": {"name": "x", "within": "1 s"}}, {"remove": "x"})
    control.put_all({"remove": "x"}, {"add": {"name": "x", "within": "2 s"}})
    for call in calls():
        for alias, stream in given.items():
            stream.put(call[alias])
    queries = {"x": query(), "y": query()}
    frames = {alias: s.read() for alias, s in given.items()}
    out = share(queries, frames, partitions=3, state=str(path / "state"), control=control.read())
    told = metrics(run(out, path, ["query", "a.id as a", "b.id as b"]))
    assert not any("already" in r for m in told for r in m.control_errors)
    found: dict[str, Counter] = {"x": Counter(), "y": Counter()}
    for (name, *pair), count in written(path).items():
        found[name][tuple(pair)] += count
    assert found["y"] == in_process(query(), *calls())
    times = {
        alias: dict(zip(t["id"].to_pylist(), t["ts"].cast(pa.int64()).to_pylist(), strict=True))
        for alias, t in (("a", pa.concat_tables(tables(1))), ("b", pa.concat_tables(tables(2))))
    }
    newest = {pair: max(times["a"][pair[0]], times["b"][pair[1]]) for pair in found["y"]}
    # The second batch replaces it from the first moment after the newest row of the first.
    now = max(t for each in calls()[0].values() for t in each["ts"].cast(pa.int64()).to_pylist()) + 1
    first = in_process(query("1 s"), *calls())
    second = in_process(query("2 s"), *calls())
    want = [p for p in first.elements() if newest[p] < now] + [
        p for p in second.elements() if newest[p] >= now
    ]
    assert found["x"] == Counter(want)


@pytest.mark.parametrize("partitioning", [None, "grid"])
def test_rows_ahead_of_the_clock_are_set_aside_and_counted_once(streams, partitioning):
    path, given, _ = streams
    for n, call in enumerate(calls()):
        for alias, stream in given.items():
            wrong = [far(900 + 10 * n + (alias == "b"))] if n in (0, 2) else []
            stream.put(pa.concat_tables([call[alias], *wrong]))
    told = metrics(run(joined(path, given, partitions=4, partitioning=partitioning), path))
    assert [m.rows_ahead for m in told] == [2, 0, 2, 0]
    assert [m.rows_in for m in told] == [122, 120, 122, 120]
    assert sum(m.rows_late for m in told) == 0
    assert "2 too far ahead" in str(told[0])
    assert written(path) == in_process(query(), *calls())


def test_a_replay_goes_by_the_clock_of_the_first_time(streams):
    """Which is in Spark's offset log: were it earlier, all rows of that batch would be ahead."""
    path, given, _ = streams
    for alias, stream in given.items():
        stream.put(calls()[0][alias])
    assert metrics(run(joined(path, given), path))[0].rows_ahead == 0
    for commit in (path / "ck" / "commits").iterdir():
        commit.unlink()
    log = path / "ck" / "offsets" / "0"
    version, settings, *offsets = log.read_text().split("\n")
    earlier = json.loads(settings) | {"batchTimestampMs": 1_600_000_000_000}
    log.write_text("\n".join([version, json.dumps(earlier), *offsets]))
    for crc in (path / "ck" / "offsets").glob(".0.crc"):
        crc.unlink()
    shutil.rmtree(path / "out")  # else the sink knows the batch and does not run it
    assert metrics(run(joined(path, given), path))[0].rows_ahead == 120


def test_a_stream_that_was_pushed_ahead_is_set_back_by_a_message(streams):
    path, given, control = streams
    first, second, third, last = calls()
    given["a"].put(first["a"], second["a"], third["a"], last["a"])
    given["b"].put(first["b"], far(900), third["b"], last["b"])
    settings = {"ahead": None, "late": "20 seconds", "control": control.read()}
    control.put_all({"remove": "nothing"})
    control.put_all("{}")
    control.put_all("{}")
    control.put_all({"event_time": {"b": START // SECOND * SECOND + 27 * SECOND}})
    told = metrics(run(joined(path, given, **settings), path))
    assert [m.rows_late for m in told] == [0, 0, 60, 0]
    found = written(path)
    assert not found - in_process(query(), *calls())
    assert Counter({p: n for p, n in found.items() if p[1] >= 2_300_000}) == Counter(
        {p: n for p, n in in_process(query(), last).items() if p[1] >= 2_300_000}
    )
