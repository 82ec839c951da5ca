"""`wr.files`: every format, directories named by values, files that differ, and what is wrong with them."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

import windrow as wr
from spark_tools import SCHEMA, Stream, failing, found, in_process, rows, run, settings, spark, written
from windrow.spark.files.file_stream import FileStream
from windrow.spark.files.reader import FileReader
from windrow.spark.join import join, prepare
from windrow.spark.metrics import metrics

pytestmark = pytest.mark.usefixtures("uncompiled")

ON = "a.k = b.k"
WITHIN = "4 seconds"


def query(on: str = ON) -> wr.Query:
    return wr.Query({alias: wr.Stream("ts", WITHIN) for alias in "ab"}, on)


def _json(table: pa.Table, path: Path) -> None:
    path.write_text("\n".join(json.dumps(row, default=str) for row in table.to_pylist()))


def _gzipped(table: pa.Table, path: Path) -> None:
    lines = "\n".join(json.dumps(row, default=str) for row in table.to_pylist())
    path.with_suffix(".json.gz").write_bytes(gzip.compress(lines.encode()))


def _csv(table: pa.Table, path: Path) -> None:
    pcsv.write_csv(table.set_column(1, "ts", _texts(table["ts"])), path)


def _texts(times: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.strftime(times.cast(pa.timestamp("us")), "%Y-%m-%dT%H:%M:%SZ")


def _arrow_file(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(path, table.schema) as sink:
        sink.write_table(table, max_chunksize=20)


def _arrow_stream(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_stream(path, table.schema) as sink:
        sink.write_table(table)


def _orc(table: pa.Table, path: Path) -> None:
    po.write_table(table.set_column(1, "ts", table["ts"].cast(pa.timestamp("us"))), path)


WRITERS: dict[str, tuple[str, Callable[[pa.Table, Path], None], dict[str, object]]] = {
    "parquet": ("parquet", lambda table, path: pq.write_table(table, path, row_group_size=20), {}),
    "orc": ("orc", _orc, {}),
    "csv": ("csv", _csv, {"header": True}),
    "json": ("json", _json, {}),
    "json.gz": ("json", _gzipped, {}),
    "arrow file": ("arrow", _arrow_file, {}),
    "arrow stream": ("arrow", _arrow_stream, {}),
}


@pytest.mark.parametrize("how", WRITERS)
def test_every_format_gives_the_same_answer(tmp_path, how):
    format, write, options = WRITERS[how]
    calls = [{a: rows(10 * n + m, 60, start=6 * n) for m, a in enumerate("ab")} for n in range(2)]
    if how in ("csv", "json", "json.gz"):  # whole seconds, as the writers here write them
        calls = [{a: _rounded(t) for a, t in call.items()} for call in calls]
    for number, call in enumerate(calls):
        for alias, table in call.items():
            (tmp_path / alias).mkdir(exist_ok=True)
            write(table, tmp_path / alias / f"{number}.{format}")
        read = {
            a: wr.files(
                spark(), str(tmp_path / a), format, SCHEMA, options=options, split=1000 * number or None
            )
            for a in "ab"
        }
        run(join(read, ON, "ts", WITHIN, partitions=3, state=str(tmp_path / "state")), tmp_path)
    assert written(tmp_path) == in_process(query(), *calls)


def _rounded(table: pa.Table) -> pa.Table:
    at = pc.floor_temporal(table["ts"], unit="second")
    return table.set_column(1, "ts", at)


def test_batch_jobs_and_mixtures(tmp_path):
    tables = {alias: rows(n, 80) for n, alias in enumerate("ab")}
    put(tmp_path / "a", tables["a"])
    read = wr.files(spark(), str(tmp_path / "a"), streaming=False)
    out = join({"a": read, "b": spark().createDataFrame(tables["b"])}, ON, "ts", WITHIN, partitions=3)
    assert found(out) == in_process(query(), tables)
    mixed = {"a": wr.files(spark(), str(tmp_path / "a")), "b": spark().createDataFrame(tables["b"])}
    with pytest.raises(wr.QueryError, match=r"\['a'\] are streams and \['b'\] are not"):
        join(mixed, ON, "ts", WITHIN, partitions=3, state="nowhere")


def put(directory: Path, *tables: pa.Table) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables):
        pq.write_table(table, directory / f"{number}.parquet")
        os.utime(directory / f"{number}.parquet", (1_700_000_000 + number,) * 2)  # Spark takes files by age


def as_files(source: Stream) -> FileStream:
    return wr.files(spark(), str(source.directory), schema=SCHEMA, files_per_batch=1)


def joined_with_itself(read: FileStream, on: str = ON, **options) -> Counter[tuple]:
    """A batch join of the files with themselves."""
    return found(join({"a": read, "b": read}, on, "ts", WITHIN, partitions=3, **options))


# --- What the reader makes of a file ---------------------------------------------------------------------


def read_one(path: Path, format: str, schema: str, **options) -> list[dict]:
    stream = wr.files(spark(), str(path), format, schema, streaming=False, options=options)
    reader = stream.reader(to_arrow_schema(stream.schema, timezone="UTC"), "UTC")
    return [row for batch in reader.read(f"file:{path}") for row in batch.to_pylist()]


def read_by_spark(path: Path, format: str, schema: str, **options) -> list[dict]:
    frame = spark().read.schema(schema).options(**options).format(format).load(str(path))
    return frame.toArrow().to_pylist()


CSV = [
    "1,2024-01-01 10:00:00,x,1.5,true,2024-02-29",
    "2,2024-01-01T10:00:00Z,,nonsense,maybe,2024-02-30",
    '3,2024-01-01 10:00:00.123456,"",-0.0,false,',
    "nine,2024-01-01T10:00:00+02:00,y",
    '5,not a time,"a,b",NaN,TRUE,2024-01-01,further',
    "99999999999999999999,,z,,,",
    '7,,"he said \\"yes\\"",1,true,',
    "8,,C:\\dir,1,true,",
]
CSV_SCHEMA = "id bigint, at timestamp, s string, x double, flag boolean, day date"


def test_csv_means_what_it_means_to_spark(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("\n".join(CSV))
    assert same(read_one(path, "csv", CSV_SCHEMA), read_by_spark(path, "csv", CSV_SCHEMA))
    path.write_text("\n".join(line.replace(",", ";") for line in ["a,b,c,d,e,f", *CSV[:3]]))
    options = {"header": "true", "sep": ";"}
    assert same(
        read_one(path, "csv", CSV_SCHEMA, **options), read_by_spark(path, "csv", CSV_SCHEMA, **options)
    )


JSON = [
    '{"id": 1, "at": "2024-01-01T10:00:00Z", "s": "x", "x": 1.5, "tags": ["a", "b"], "in": {"n": 1}}',
    '{"id": 2, "at": "2024-01-01 10:00:00", "further": 1}',
    '{"id": "two", "at": "2024-01-01T10:00:00Z", "s": "y"}',
    '{"id": 4, "at": "no time", "x": 2}',
    "{no json",
    '{"id": 6, "s": null}',
    '{"id": 7, "at": 1700000000, "s": 12.50, "m": 0.123456789012345678}',
    '{"id": 8, "m": 12345678901234567890.5, "x": 7}',
]
JSON_SCHEMA = (
    "id bigint, at timestamp, s string, x double, tags array<string>, in struct<n: bigint>, m decimal(38,18)"
)


def test_json_means_what_it_means_to_spark(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("\n".join(JSON))
    assert same(read_one(path, "json", JSON_SCHEMA), read_by_spark(path, "json", JSON_SCHEMA))
    path.write_text("\n".join(JSON[:2]))
    assert same(read_one(path, "json", JSON_SCHEMA), read_by_spark(path, "json", JSON_SCHEMA))


def same(here: list[dict], there: list[dict]) -> bool:
    """In any order; NaN equals NaN."""
    assert sorted(map(repr, here)) == sorted(map(repr, there))
    return True


def test_times_without_a_zone_are_in_the_sessions(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("1,2024-07-01 10:00:00\n2,2024-07-01T10:00:00Z\n3,2024-01-01")
    schema = "id bigint, at timestamp"
    with settings({"spark.sql.session.timeZone": "Europe/Berlin"}):
        stream = wr.files(spark(), str(path), "csv", schema, streaming=False)
        kinds = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "Europe/Berlin"))])
        here = pa.Table.from_batches(stream.reader(kinds, "Europe/Berlin").read(f"file:{path}"))
        there = spark().read.schema(schema).csv(str(path)).toArrow()
    assert here["at"].cast(pa.int64()).to_pylist() == there["at"].cast(pa.int64()).to_pylist()


def test_files_of_another_schema(tmp_path):
    """A column may be missing, further, narrower or in another order, and differ in case."""
    table = rows(1, 40)
    other = pa.table(
        {
            "TS": rows(2, 40)["ts"].cast(pa.timestamp("ns", "UTC")),
            "further": pa.array(range(40)),
            "k": rows(2, 40)["k"].cast(pa.int32()),
            "id": rows(2, 40)["id"],
            "s": rows(2, 40)["s"].dictionary_encode(),
        }
    )
    put(tmp_path / "a", table, other)
    want = rows(2, 40).set_column(3, "x", pa.nulls(40, pa.float64()))
    both = pa.concat_tables([table, want])
    read = wr.files(spark(), str(tmp_path / "a"), schema=SCHEMA, streaming=False)
    assert joined_with_itself(read) == in_process(query(), {"a": both, "b": both})


def test_directories_named_by_values(tmp_path):
    halves = {"x y": rows(1, 40), "__HIVE_DEFAULT_PARTITION__": rows(2, 40)}
    for name, table in halves.items():
        put(tmp_path / "k=3" / f"s={name}", table.drop_columns(["k", "s"]))
    read = wr.files(spark(), str(tmp_path), streaming=False)
    assert {f.name: f.dataType.simpleString() for f in read.schema}["k"] == "int"
    tables = [
        table.drop_columns(["k", "s"])
        .append_column("k", pa.array([3] * 40, pa.int32()))
        .append_column("s", pa.array([None if "HIVE" in name else name] * 40, pa.string()))
        for name, table in halves.items()
    ]
    both = pa.concat_tables(tables)
    on = "a.k = b.k and a.s = b.s"
    assert joined_with_itself(read, on) == in_process(query(on), {"a": both, "b": both})
    below = wr.files(spark(), str(tmp_path / "k=3"), streaming=False)
    assert "k" not in below.columns, "the directory that was named is no column"


def test_only_selected_columns_are_read(tmp_path):
    put(tmp_path / "a", rows(1, 40))
    read = wr.files(spark(), str(tmp_path / "a"), streaming=False).select("id", "ts", "k")
    out = join({"a": read, "b": read}, ON, "ts", WITHIN, partitions=2)
    assert out.schema["a"].dataType.names == ["id", "ts", "k"]
    table = rows(1, 40)
    assert found(out) == in_process(query(), {"a": table, "b": table})
    with pytest.raises(wr.QueryError, match=r"unknown column 'kk'\. Did you mean 'k'"):
        read.select("kk")


# --- Counting --------------------------------------------------------------------------------------------


def test_all_rows_are_counted_as_with_data_frames(tmp_path):
    """Late, far ahead, without a time, failing a condition: the same figures as of DataFrames."""
    far = pa.array([4_000_000_000_000_000], pa.int64()).cast(pa.timestamp("us", "UTC"))
    on = "a.k = b.k and a.x > 2 and b.s = 'x'"
    told = []
    for way in ("frame", "files"):
        place = tmp_path / way
        sources = {alias: Stream(place / alias) for alias in "ab"}
        for n, source in enumerate(sources.values()):
            for call in range(3):
                table = rows(10 * n + call, 60, start=6 * call)
                odd = pa.concat_tables([table.slice(0, 2).set_column(1, "ts", pa.nulls(2, far.type))])
                ahead = table.slice(2, 1).set_column(1, "ts", far)
                old = rows(50 + n, 5, start=-100) if call == 2 else table.slice(0, 0)
                source.put(pa.concat_tables([table, odd, ahead, old]))
        read = {
            alias: source.read() if way == "frame" else as_files(source) for alias, source in sources.items()
        }
        for partitioning in ("key", "grid"):
            out = join(
                read, on, "ts", WITHIN, late="1 second", partitions=3, partitioning=partitioning,
                state=str(place / "state" / partitioning),
            )  # fmt: skip
            ran = run(out, place / partitioning)
            counts = [
                (p.partition, {a: _counts(s) for a, s in p.streams.items()}, p.results)
                for batch in metrics(ran)
                for p in sorted(batch.partitions, key=lambda p: p.partition)
            ]
            told.append((partitioning, counts, written(place / partitioning)))
    assert told[:2] == told[2:]
    total = Counter()
    for _, streams, _ in told[0][1]:
        for counted in streams.values():
            total.update(counted)
    assert total["rows_late"] > 10 and total["rows_ahead"] == 6 and total["rows_null_time"] == 12
    assert total["rows_filtered"] > 100


def _counts(stream: object) -> dict[str, int]:
    names = ("rows_in", "rows_late", "rows_ahead", "rows_null_time", "rows_filtered", "rows_copied")
    return {name: getattr(stream, name) for name in names}


def test_shared_queries_over_files(tmp_path):
    calls = [{a: rows(10 * n + m, 60, start=6 * n) for m, a in enumerate("ab")} for n in range(2)]
    for alias in "ab":
        put(tmp_path / alias, *(call[alias] for call in calls))
    read = {a: wr.files(spark(), str(tmp_path / a), files_per_batch=1) for a in "ab"}
    windows = {"short": "1 second", "long": "5 seconds"}
    queries = {n: wr.Query({a: wr.Stream("ts", w) for a in "ab"}, ON) for n, w in windows.items()}
    out = wr.share(queries, read, partitions=3, state=str(tmp_path / "state"))
    run(out, tmp_path, ["query", "a.id as a", "b.id as b"])
    got = written(tmp_path)
    for name, each in queries.items():
        own = Counter({row[1:]: count for row, count in got.items() if row[0] == name})
        assert own == in_process(each, *calls)


# --- What is wrong ---------------------------------------------------------------------------------------


def test_bad_arguments_are_refused_at_once(tmp_path):
    put(tmp_path / "a", rows(1, 4))
    path = str(tmp_path / "a")
    (tmp_path / "empty").mkdir()
    for arguments, message in [
        ({"path": "/no/such/place"}, "Path does not exist: file:/no/such/place"),
        ({"format": "parkett"}, "format: unknown format 'parkett'. Did you mean 'parquet'"),
        ({"format": "json"}, "schema: is missing: 'json' files do not tell their types"),
        ({"schema": "id bigit"}, 'Unsupported data type "BIGIT"'),
        ({"schema": 7}, "schema: expected DDL such as .*, got 7"),
        ({"files_per_batch": 0}, "files_per_batch: expected 1 or more, got 0"),
        ({"split": "many"}, "split: expected '256 MiB'"),
        ({"options": {"headr": 1}}, "options: unknown option 'headr'"),
        ({"path": str(tmp_path / "empty")}, "Unable to infer schema"),
        ({"path": str(tmp_path / "empty"), "format": "arrow"}, "no file yet to take the schema from"),
    ]:
        given = {"path": path, **arguments}
        with pytest.raises(wr.QueryError, match=message):
            wr.files(spark(), **given)
    with pytest.raises(wr.QueryError, match="time column: unknown column 'at'"):
        join({"a": wr.files(spark(), path), "b": wr.files(spark(), path)}, ON, "at", WITHIN, state="x")


def test_corrupt_files(tmp_path):
    put(tmp_path / "a", rows(1, 40), rows(2, 40))
    (tmp_path / "a" / "9.parquet").write_bytes(b"PAR1 this is no parquet file PAR1")
    read = wr.files(spark(), str(tmp_path / "a"), schema=SCHEMA, streaming=False)
    told = failing(lambda: joined_with_itself(read))
    assert "DataError: cannot read" in told and "9.parquet as parquet" in told
    assert "ignore_corrupt_files=True" in told
    read = wr.files(spark(), str(tmp_path / "a"), schema=SCHEMA, streaming=False, ignore_corrupt_files=True)
    both = pa.concat_tables([rows(1, 40), rows(2, 40)])
    assert joined_with_itself(read) == in_process(query(), {"a": both, "b": both})


@pytest.mark.parametrize("partitioning", ["key", "grid"])
def test_skipped_files_are_counted(tmp_path, partitioning):
    put(tmp_path / "a", rows(1, 40), rows(2, 40))
    for name in "89":
        (tmp_path / "a" / f"{name}.parquet").write_bytes(b"no parquet file " * 100)
    read = wr.files(spark(), str(tmp_path / "a"), schema=SCHEMA, ignore_corrupt_files=True, split=1000)
    state = str(tmp_path / "state")
    laid = {"partitions": 3, "partitioning": partitioning, "state": state}
    (told,) = metrics(run(join({"a": read, "b": read}, ON, "ts", WITHIN, **laid), tmp_path))
    assert told.files_skipped == 4, "two of each stream"
    assert "4 files skipped" in str(told)
    assert written(tmp_path) == in_process(
        query(), *[dict.fromkeys("ab", pa.concat_tables([rows(1, 40), rows(2, 40)]))]
    )


def test_a_type_that_does_not_fit(tmp_path):
    put(tmp_path / "a", rows(1, 4).set_column(2, "k", pa.array(list("abcd"))))
    read = wr.files(spark(), str(tmp_path / "a"), schema=SCHEMA, streaming=False)
    told = failing(lambda: joined_with_itself(read))
    assert "column 'k' of file:" in told and "is string, and the stream's is int64" in told


def test_vanished_files(tmp_path):
    schema = rows(1, 1).schema
    reader = FileReader("parquet", schema, schema)
    with pytest.raises(wr.DataError, match=r"gone.parquet has vanished .* ignore_missing_files=True"):
        list(reader.read(f"file:{tmp_path}/gone.parquet"))
    skipping = FileReader("parquet", schema, schema, ignore_missing_files=True)
    assert list(skipping.read("/gone.parquet")) == [None]


def test_empty_files_and_directories(tmp_path):
    sources = {a: tmp_path / a for a in "ab"}
    for directory in sources.values():
        put(directory, rows(1, 4).slice(0, 0))
        (directory / "nothing.parquet").write_bytes(b"")
    read = {a: wr.files(spark(), str(d), schema=SCHEMA) for a, d in sources.items()}
    run(join(read, ON, "ts", WITHIN, partitions=2, state=str(tmp_path / "state")), tmp_path)
    put(tmp_path / "a" / "later", rows(1, 40))
    (tmp_path / "a" / "later" / "0.parquet").rename(tmp_path / "a" / "7.parquet")
    (tmp_path / "a" / "later").rmdir()
    run(join(read, ON, "ts", WITHIN, partitions=2, state=str(tmp_path / "state")), tmp_path)
    assert not written(tmp_path)


# --- Restart and replay ----------------------------------------------------------------------------------


def test_a_stream_may_change_from_a_data_frame_to_files(tmp_path):
    """Rows go to the same partitions either way, so state and checkpoint fit both."""
    sources = {alias: Stream(tmp_path / alias) for alias in "ab"}
    calls = [{a: rows(10 * n + m, 60, start=3 * n) for m, a in enumerate("ab")} for n in range(4)]
    for number, call in enumerate(calls):
        for alias, table in call.items():
            sources[alias].put(table)
        read = {
            alias: s.read() if (number + k) % 2 else as_files(s)
            for k, (alias, s) in enumerate(sources.items())
        }
        run(join(read, ON, "ts", WITHIN, partitions=3, state=str(tmp_path / "state")), tmp_path)
    assert written(tmp_path) == in_process(query(), *calls)


def test_a_batch_that_fails_is_replayed(tmp_path):
    """The sink fails after the join has committed; the next start repeats the batch."""
    sources = {alias: Stream(tmp_path / alias) for alias in "ab"}
    calls = [{a: rows(10 * n + m, 60, start=3 * n) for m, a in enumerate("ab")} for n in range(3)]
    for call in calls:
        for alias, table in call.items():
            sources[alias].put(table)
    got: dict[int, Counter[tuple]] = {}
    failed = []

    def keep(results, batch: int) -> None:
        ids = Counter(tuple(row) for row in results.selectExpr("a.id", "b.id").collect())
        if batch == 1 and not failed:
            failed.append(batch)
            raise RuntimeError("the sink is full")
        got[batch] = ids

    for _ in range(2):
        read = {a: as_files(s) for a, s in sources.items()}
        out = join(read, ON, "ts", WITHIN, partitions=3, state=str(tmp_path / "state"))
        writer = out.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "ck"))
        ran = writer.trigger(availableNow=True).start()
        try:
            ran.awaitTermination()
        except Exception as error:
            assert "the sink is full" in str(error)
    assert failed and sum(got.values(), Counter()) == in_process(query(), *calls)


# --- SQL and plans ---------------------------------------------------------------------------------------


def test_sql_reads_files_in_columns(tmp_path):
    calls = [{a: rows(10 * n + m, 60, start=6 * n) for m, a in enumerate("ab")} for n in range(2)]
    for alias in "ab":
        put(tmp_path / alias, *(call[alias] for call in calls))
    text = "".join(
        f"CREATE STREAM {a} TIME ts FROM (format='parquet', path='{tmp_path / a}', maxFilesPerTrigger=1); "
        for a in "ab"
    )
    select = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW 4 SECONDS"
    plan = wr.sql(text + "EXPLAIN " + select, spark()).collect()[0]["plan"]
    assert "a, b: files that Windrow reads, in columns all the way" in plan
    out = wr.sql(text + select, spark(), partitions=3, state=str(tmp_path / "state"))
    run(out, tmp_path, ["x", "y"])
    assert written(tmp_path) == in_process(query(), *calls)


def test_a_plan_says_which_streams_stay_in_columns(tmp_path):
    put(tmp_path / "a", rows(1, 4))
    read = wr.files(spark(), str(tmp_path / "a"), streaming=False)
    prepared = prepare({"a": read, "b": spark().createDataFrame(rows(2, 4))}, query())
    assert str(prepared).endswith("  a: files that Windrow reads, in columns all the way")
