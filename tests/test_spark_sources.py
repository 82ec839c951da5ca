"""Other sources than parquet files, other places for the state than a plain path."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from spark_tools import SCHEMA, START, in_process, rows, run, spark, written
from windrow import Query
from windrow import Stream as Described
from windrow.errors import Option, QueryError
from windrow.model.source import Source
from windrow.spark.join import join
from windrow.spark.kafka_values import decode, encode, value_options
from windrow.state.inspect import verify

WITHIN = "4 seconds"


def query() -> Query:
    return Query({alias: Described("ts", WITHIN) for alias in "ab"}, "a.k = b.k")


def test_a_rate_joined_with_itself(tmp_path):
    """20 rows a batch, all of one time, four seconds after those of the batch before."""
    source = (
        spark()
        .readStream.format("rate-micro-batch")
        .options(rowsPerBatch=20, startTimestamp=START // 1000, advanceMillisPerBatch=4000, numPartitions=1)
        .load()
    )
    frame = source.selectExpr("value as id", "value % 3 as k", "timestamp as ts")
    out = join(
        {"a": frame, "b": frame}, "a.k = b.k", "ts", WITHIN, partitions=2, state=str(tmp_path / "state")
    )
    writer = out.selectExpr("a.id as a", "b.id as b").writeStream.format("memory").queryName("rates")
    ran = writer.option("checkpointLocation", str(tmp_path / "ck")).start()
    try:
        while ran.lastProgress is None or ran.lastProgress.batchId < 2:
            assert ran.exception() is None
            ran.awaitTermination(1)
    finally:
        ran.stop()
    got = Counter(tuple(row) for row in spark().table("rates").collect())
    ids = range(max(max(pair) for pair in got) + 1)
    assert len(ids) >= 60
    assert got == Counter((x, y) for x in ids for y in ids if x % 3 == y % 3 and abs(x // 20 - y // 20) <= 1)


@pytest.fixture
def lines() -> Iterator[int]:
    """A server that sends every caller the same numbered lines."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server,), daemon=True).start()
        yield server.getsockname()[1]


def _serve(server: socket.socket) -> None:
    callers = []
    while True:
        try:
            caller, _ = server.accept()
        except OSError:
            return
        callers.append(caller)
        caller.sendall(b"".join(b"%d\n" % number for number in range(50)))


def test_lines_from_sockets(tmp_path, lines):
    def numbers():
        read = spark().readStream.format("socket").options(host="127.0.0.1", port=lines).load()
        number = "cast(value as long)"
        return read.selectExpr(
            f"{number} as id", f"{number} % 5 as k", f"timestamp_seconds({number}) as ts"
        ).where("id is not null")

    out = join(
        {"a": numbers(), "b": numbers()}, "a.k = b.k", "ts", "10 seconds", late="1 hour",
        partitions=2, state=str(tmp_path / "state"),
    )  # fmt: skip
    want = Counter((x, y) for x in range(50) for y in range(50) if (x - y) % 5 == 0 and abs(x - y) <= 10)
    writer = out.selectExpr("a.id as a", "b.id as b").writeStream.format("memory").queryName("lines")
    ran = writer.option("checkpointLocation", str(tmp_path / "ck")).start()
    try:
        for _ in range(60):
            got = Counter(tuple(row) for row in spark().table("lines").collect())
            if got.total() >= want.total():
                break
            assert ran.exception() is None
            ran.awaitTermination(0.5)
    finally:
        ran.stop()
    assert got == want


@pytest.mark.parametrize("scheme", ["file://", "local://"])
def test_json_in_and_state_at_a_url(tmp_path, scheme):
    """`local` is known to fsspec only: the way to every store that pyarrow does not know itself."""
    state = f"{scheme}{tmp_path}/state"
    calls = [{a: rows(10 * n + m, 60, start=6 * n) for m, a in enumerate("ab")} for n in range(2)]
    for number, call in enumerate(calls):
        for alias, table in call.items():
            (tmp_path / alias).mkdir(exist_ok=True)
            (tmp_path / alias / f"{number}.json").write_text(_json(table))
        frames = {a: spark().readStream.schema(SCHEMA).json(str(tmp_path / a)) for a in "ab"}
        run(join(frames, "a.k = b.k", "ts", WITHIN, partitions=2, state=state), tmp_path)
    assert written(tmp_path) == in_process(query(), *calls)
    assert not verify(state).damage


def _json(table: pa.Table) -> str:
    return "\n".join(json.dumps(row, default=str) for row in table.to_pylist())


RECORDS = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"


def test_fields_of_kafka_values_stand_beside_kafkas_columns():
    """A field hides Kafka's column of its name. The broker is in `test_kafka.py`."""
    value = '{"id": 7, "timestamp": "2024-01-01T00:00:00.123456Z"}'
    row = (b"x", value.encode(), "t", 2, 5, None)
    records = spark().createDataFrame([row, (b"y", b"{", "t", 0, 6, None)], RECORDS)
    source = Source("a", "kafka", schema="id long, timestamp timestamp", value_format="json")
    plain = decode(records, source)
    assert plain.columns == ["id", "timestamp", "partition"]
    times = plain.selectExpr("id", "unix_micros(timestamp) % 1000000", "partition")
    assert [tuple(r) for r in times.collect()] == [(7, 123456, 2), (None, None, 0)]
    selected = decode(records, replace(source, select=("id", "offset")))
    assert selected.columns == ["id", "timestamp", "key", "topic", "partition", "offset"]
    written = encode(plain.selectExpr("id as key", "timestamp", "id"), "json", {}, Option(section="sink"))
    assert [tuple(r) for r in written.collect()] == [
        ("7", '{"timestamp":"2024-01-01T00:00:00.123456Z","id":7}'),
        (None, "{}"),
    ]
    with pytest.raises(QueryError, match="no column is left for the value"):
        encode(plain.select(plain.id.alias("key")), "json", {}, Option(section="sink"))


def test_credentials_of_kafka_are_in_no_expression():
    """Spark shows the options of `from_json` and `to_json` in plans, in its UI and in its event log."""
    secret = {"kafka.sasl.jaas.config": 'login password="hunter2";', "subscribe": "t"}
    records = spark().createDataFrame([(b"x", b"{'id': 7}", "t", 2, 5, None)], RECORDS)
    source = Source("a", "kafka", schema="id long", value_format="json")
    for given, want in [({"allowSingleQuotes": "false"}, None), ({"ALLOWSINGLEQUOTES": "true"}, 7)]:
        read = decode(records, replace(source, options=secret | given))
        assert [tuple(r) for r in read.collect()] == [(want, 2)]
        assert "hunter2" not in _plans(read) and "subscribe" not in _plans(read)
    written = encode(
        read.selectExpr("id as `a``b`", "string(null) as n"),
        "json",
        secret | {"ignoreNullFields": "false"},
        Option(section="sink"),
    )
    assert [r.value for r in written.collect()] == ['{"a`b":7,"n":null}']
    assert "hunter2" not in _plans(written) and "subscribe" not in _plans(written)
    of_avro = value_options(read, "avro", secret | {"Mode": "FAILFAST", "pretty": "true"})
    assert of_avro == {"Mode": "FAILFAST"}


def _plans(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().toString())
