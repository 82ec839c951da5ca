"""Directories of files, and joins over them."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import windrow as wr
from spark_tools import SCHEMA, Stream, found, spark
from windrow.spark.files.file_stream import FileStream
from windrow.spark.join import join

ON = "a.k = b.k"
WITHIN = "4 seconds"


def query(on: str = ON) -> wr.Query:
    return wr.Query({alias: wr.Stream("ts", WITHIN) for alias in "ab"}, on)


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
