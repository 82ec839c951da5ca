"""Against a real broker: `make kafka`. Rows are out of order within a partition by less than `late`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import windrow as wr
from faults import descendants, kill, wait_until
from kafka_broker import Broker, Topics, jars, missing, toml
from pipelines import COMMAND, EXAMPLES, in_microseconds, run, set_up
from places import differences
from windrow.errors import Option
from windrow.model.source import Source
from windrow.spark.kafka_values import decode, encode
from windrow.spark.session import _running_session, open_session

pytestmark = pytest.mark.kafka

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
SCHEMA = "id bigint, ts timestamp, k bigint"
AVRO = json.dumps(
    {
        "type": "record",
        "name": "row",
        "fields": [
            {"name": "id", "type": ["long", "null"]},
            {"name": "ts", "type": [{"type": "long", "logicalType": "timestamp-micros"}, "null"]},
            {"name": "k", "type": ["long", "null"]},
        ],
    }
)
PAIRS = "a bigint, b bigint"


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    if why := missing():
        pytest.skip(why)
    assert _running_session() is None, "needs a session with the connector's jars, so a process of its own"
    broker = Broker(tmp_path_factory.mktemp("broker"))
    try:
        given = {"spark.jars": ",".join(jars("connector")), "spark.sql.session.timeZone": "UTC"}
        with open_session("local[2]", "windrow kafka tests", given) as session:
            yield Topics(session, broker)
    finally:
        broker.stop()


def rows(seed: int, count: int = 300, start: float = 0, span: float = 60, keys: int = 20) -> pa.Table:
    """In order of time but for swaps of up to two seconds."""
    rng = np.random.default_rng(seed)
    times = rng.integers(int(start * SECOND), int((start + span) * SECOND), count)
    times = times[np.argsort(times + rng.integers(0, 2 * SECOND, count))]
    return pa.table(
        {
            "id": seed * 10_000 + np.arange(count),
            "ts": pa.array(START + times, pa.timestamp("us", "UTC")),
            "k": rng.integers(0, keys, count),
        }
    )


def answer(a: pa.Table, b: pa.Table, within: float = 5) -> Counter[tuple]:
    near = f"abs(epoch_us(a.ts) - epoch_us(b.ts)) <= {int(within * SECOND)}"
    return Counter(duckdb.sql(f"select a.id, b.id from a join b on a.k = b.k and {near}").fetchall())


def describe(topics: Topics, at: Path, name: str, **sections: dict[str, Any]) -> Path:
    """A pipeline from topics name-a and name-b into files, with changes of its sections."""
    stream = {
        "format": "kafka",
        "value_format": "json",
        "schema": SCHEMA,
        "time": "ts",
        "within": "5 seconds",
    }
    described: dict[str, dict[str, Any]] = {
        f"streams.{alias}": stream
        | {"options": topics.source(f"{name}-{alias}", maxOffsetsPerTrigger=60)}
        | sections.get(alias, {})
        for alias in "ab"
    }
    described["join"] = {"on": "a.k = b.k", "late": "2 seconds", "partitions": 2} | sections.get("join", {})
    described["sink"] = sections.get("sink", {"format": "parquet", "path": "out"}) | {
        "select": ["a.id as a", "b.id as b"]
    }
    described["run"] = {"checkpoint": "checkpoint", "trigger": "available now", "metrics": "metrics.jsonl"}
    file = at / f"{name}.toml"
    file.write_text(toml(described))
    return file


def ran(file: Path, *arguments: str) -> None:
    told = run(file, *arguments)
    assert told.exit_code == 0, told.output


def written(topics: Topics, at: Path) -> Counter[tuple]:
    return Counter(map(tuple, topics.spark.read.parquet(str(at / "out")).collect()))


def metrics(at: Path, name: str) -> int:
    """The sum over all batches of all runs."""
    batches = map(json.loads, (at / "metrics.jsonl").read_text().splitlines())
    return sum(join[name] for batch in batches for join in batch["joins"].values())


@pytest.mark.parametrize("format", ["json", "avro"])
def test_into_files_exactly_once_however_often_it_is_stopped(topics: Topics, tmp_path: Path, format: str):
    a, b = rows(1), rows(2)
    topics.put(f"{format}-a", a, format)
    topics.put(f"{format}-b", b)
    changes = {"value_format": format, "schema": AVRO if format == "avro" else SCHEMA}
    late = {"late": "60 seconds"}  # any of Kafka's partitions may be read first
    file = describe(topics, tmp_path, format, a=changes, join=late)
    for _ in range(2):
        ran(file, "--max-batches", "2")
    assert 0 < written(topics, tmp_path).total() < answer(a, b).total()
    ran(file)
    assert differences(written(topics, tmp_path), answer(a, b)) == ""
    more = rows(3, start=60)
    topics.put(f"{format}-a", more, format)
    ran(file)
    assert differences(written(topics, tmp_path), answer(pa.concat_tables([a, more]), b)) == ""


def test_results_as_avro_and_back(topics: Topics):
    results = topics.spark.createDataFrame(rows(5, 20)).withColumn("key", sf.col("k"))
    records = encode(results, "avro", {}, Option(section="sink"))
    assert records.columns == ["key", "value"]
    source = Source("a", "kafka", schema=AVRO, value_format="avro", select=("key", "id"))
    read = decode(records.withColumn("partition", sf.lit(0)), source)
    expected = results.selectExpr("string(key) as key", "id", "ts", "k")
    assert read.select("key", "id", "ts", "k").collect() == expected.collect()


@pytest.mark.parametrize("tracked", [True, False])
def test_a_kafka_partition_read_ahead_makes_nothing_late(topics: Topics, tmp_path: Path, tracked: bool):
    """Partition 0 is read to its end before 1 and 2 have more than their first seconds; then the streams go
    on from the checkpoint. Without `source_partition` the same rows are late."""
    name = "tracked" if tracked else "untracked"
    early = [rows(11, 400, span=60), rows(12, 60, span=10), rows(13, 20, span=10)]
    later = [rows(14, 250, start=10, span=50), rows(15, 90, start=10, span=50)]
    b = rows(16, 300)
    for partition, part in enumerate(early):
        topics.put(f"{name}-a", part, partition=partition)
    topics.put(f"{name}-b", b, partition=0)
    file = describe(topics, tmp_path, name, a={"source_partition": "partition"} if tracked else {})
    ran(file)
    for partition, part in enumerate(later, 1):
        topics.put(f"{name}-a", part, partition=partition)
    ran(file)
    expected, found = answer(pa.concat_tables([*early, *later]), b), written(topics, tmp_path)
    if tracked:
        assert differences(found, expected) == "" and metrics(tmp_path, "rows_late") == 0
    else:
        assert found < expected and metrics(tmp_path, "rows_late") > 0


@pytest.mark.parametrize("sink", ["parquet", "kafka"])
def test_kill_9_of_the_driver_in_mid_stream(topics: Topics, tmp_path: Path, sink: str):
    """Into files every result is written exactly once, into Kafka at least once."""
    a, b, name = rows(21, 900), rows(22, 900), f"killed-{sink}"
    topics.put(f"{name}-a", a, partition=0)
    topics.put(f"{name}-b", b, partition=0)
    out = topics.options(topic=f"{name}-out")
    into = {"kafka": {"format": "kafka", "value_format": "json", "options": out}}
    file = describe(topics, tmp_path, name, **{"sink": into[sink]} if sink in into else {})
    commits = tmp_path / "checkpoint" / "commits"
    for batches in (3, 7):
        process = started(file)
        wait_until((commits / str(batches)).exists, "the batch never ended")
        assert process.poll() is None, "it ended before it was killed"
        for pid in (process.pid, *descendants(process.pid)):
            kill(pid)
        process.wait()
    assert not (commits / "14").exists(), "the stream was at its end before the last kill"
    assert started(file).wait() == 0
    found = topics.values(f"{name}-out", PAIRS, "*") if sink == "kafka" else written(topics, tmp_path)
    if sink == "kafka":
        assert found.keys() == answer(a, b).keys()
    else:
        assert differences(found, answer(a, b)) == ""


def started(file: Path) -> subprocess.Popen[bytes]:
    """`windrow run` in a process of its own, which gets the connector by the description's settings."""
    given = f"run.spark_conf={{ 'spark.jars' = '{','.join(jars('connector'))}' }}"
    command = [
        sys.executable,
        "-c",
        COMMAND,
        "run",
        str(file),
        "--master",
        "local[2]",
        "--set",
        given,
        "--quiet",
    ]
    return subprocess.Popen(command, start_new_session=True)


def test_values_that_cannot_be_read_are_counted_and_stop_nothing(topics: Topics, tmp_path: Path):
    a, b = rows(31, 50), rows(32, 50)
    for alias, part in (("a", a), ("b", b)):
        topics.put(f"bad-{alias}", part, partition=0)
    topics.put_values("bad-a", ["", "{", '{"id": 1}', "[1, 2]"])
    file = describe(topics, tmp_path, "bad")
    ran(file)
    assert differences(written(topics, tmp_path), answer(a, b)) == ""
    assert metrics(tmp_path, "rows_null_time") == 4


def test_sql_reads_a_topic(topics: Topics):
    a, b = rows(41), rows(42)
    for alias, part in (("a", a), ("b", b)):
        topics.put(f"sql-{alias}", part, partition=0)
    created = "; ".join(
        f"CREATE STREAM {alias} (id BIGINT, ts TIMESTAMP, k BIGINT) TIME ts FROM (format = 'kafka', "
        f"value_format = 'json', kafka.bootstrap.servers = '{topics.address}', subscribe = 'sql-{alias}')"
        for alias in "ab"
    )
    asked = "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.k = b.k WINDOW 5 SECONDS"
    found = wr.sql(f"{created}; {asked}", spark=topics.spark, streaming=False)
    assert differences(Counter(map(tuple, found.collect())), answer(a, b)) == ""


def test_the_example_from_kafka_to_kafka(topics: Topics, tmp_path: Path):
    _, parts = set_up(tmp_path, "clicks", seconds=120, rate=10, files=2)
    for topic in ("impressions", "clicks"):
        for file in sorted((tmp_path / "data" / "clicks" / topic).iterdir()):
            topics.put_values(topic, file.read_text().splitlines())
    example = (EXAMPLES / "kafka.toml").read_text()
    (tmp_path / "kafka.toml").write_text(example.replace("localhost:9092", topics.address))
    ran(tmp_path / "kafka.toml")
    tables = {name: in_microseconds(pa.concat_tables(parts[name])) for name in ("impressions", "clicks")}
    with duckdb.connect() as database:
        for name, table in tables.items():
            database.register(name, table)
        near = "c.at - i.at between -1e6 and 600e6"
        sql = f"select i.id, c.id, c.at from impressions i join clicks c on i.id = c.impression_id and {near}"
        expected = Counter(database.sql(sql).fetchall())
    columns = "impression bigint, click bigint, clicked_at timestamp"
    found = topics.values("clicked", columns, "impression", "click", "unix_micros(clicked_at)")
    assert differences(found, expected) == ""
