"""What `wr.files` makes of a file of text, of another schema, or in a directory named by values."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

import windrow as wr
from file_tools import ON, WITHIN, joined_with_itself, put, query
from spark_tools import SCHEMA, found, in_process, rows, settings, spark
from windrow.spark.join import join


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
