"""`wr.files`: every format, directories named by values, files that differ, and what is wrong with them."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

import windrow as wr
from file_tools import ON, WITHIN, as_files, joined_with_itself, put, query
from spark_tools import SCHEMA, Stream, failing, found, in_process, rows, run, spark, written
from windrow.planning.bound_query import BoundQuery
from windrow.spark.files.packed_rows import recognises_nulls
from windrow.spark.files.reader import FileReader
from windrow.spark.join import join, prepare
from windrow.spark.metrics import metrics


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


@pytest.mark.parametrize(
    ("on", "times_alone"),
    [
        ("a.k = b.k and cast(a.s as int) > 5", True),
        ("a.k = b.k and cast(coalesce(a.s, 'none') as int) > 5", False),
        ("cast(coalesce(a.s, 'none') as int) = b.k and a.k = b.k and coalesce(a.x, 1) > 0", False),
        ("a.k = b.k and a.x > 2 and 10 / hour(a.ts) > 0", False),
    ],
)
def test_rows_are_sent_whole_if_an_expression_fails_on_nulls(on, times_alone):
    """Their times alone would fail where the rows do not."""
    bound = BoundQuery.of(query(on), [rows(1, 1).schema] * 2)
    assert recognises_nulls(bound, 0, "ts") == times_alone


def test_rows_that_do_not_fail_are_not_raised(tmp_path):
    """The second half of the rows is left out without a failure."""
    table = rows(1, 40)
    texts = pa.array(["7"] * 20 + ["3"] * 20)
    table = table.set_column(table.schema.get_field_index("s"), "s", texts)
    put(tmp_path / "a", table)
    given = query(f"{ON} and cast(coalesce(a.s, 'none') as int) > 5")
    read = {a: wr.files(spark(), str(tmp_path / "a"), streaming=False) for a in "ab"}
    assert found(join(read, given, partitions=2)) == in_process(given, dict.fromkeys("ab", table))


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
        ({"format": "json"}, "schema: is missing: 'json' files have no types"),
        ({"schema": "id bigit"}, 'Unsupported data type "BIGIT"'),
        ({"schema": 7}, "schema: expected DDL such as .*, got 7"),
        ({"files_per_batch": 0}, "files_per_batch: must be at least 1, got 0"),
        ({"split": "many"}, "split: expected '256 MiB'"),
        ({"options": {"headr": 1}}, "options: unknown option 'headr'"),
        ({"path": str(tmp_path / "empty")}, "Unable to infer schema"),
        ({"path": str(tmp_path / "empty"), "format": "arrow"}, "no file yet to read the schema from"),
    ]:
        given = {"path": path, **arguments}
        with pytest.raises(wr.QueryError, match=message):
            wr.files(spark(), **given)
    with pytest.raises(wr.QueryError, match="time: unknown column 'at'"):
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
