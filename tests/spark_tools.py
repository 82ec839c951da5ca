"""Spark for the tests: one small local session per process, tables as files that arrive one by one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.java_gateway import JavaClass, JavaPackage, JVMView
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

import windrow as wr
from places import Place
from results import ids
from windrow.spark.session import local_session

SCHEMA = "id long, ts timestamp, k long, x double, s string"
SECOND = 1_000_000
START = 1_700_000_000 * SECOND
CODEGEN = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")


@cache
def spark() -> SparkSession:
    session = local_session(2, "windrow tests")
    session.conf.set("spark.sql.shuffle.partitions", "3")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def keep_java_names(owner: Any) -> None:
    """Let `jvm` remember packages and classes. Otherwise Java looks for each part of each name, as a class,
    in every one of Spark's jars, every time PySpark makes an expression."""
    ask = owner.__getattr__

    def kept(self: Any, name: str) -> Any:
        value = ask(self, name)
        if isinstance(value, JavaPackage | JavaClass):
            self.__dict__[name] = value
        return value

    owner.__getattr__ = kept


keep_java_names(JVMView)
keep_java_names(JavaPackage)


@contextmanager
def settings(values: Mapping[str, str]) -> Iterator[None]:
    """The session with these settings, for a while."""
    before = {name: spark().conf.get(name, None) for name in values}
    for name, value in values.items():
        spark().conf.set(name, value)
    yield
    for name, value in before.items():
        spark().conf.unset(name) if value is None else spark().conf.set(name, value)


def rows(seed: int, count: int, start: float = 0, span: float = 20, keys: int = 9) -> pa.Table:
    """`count` rows with different times between `start` and `start + span` seconds, in no order."""
    rng = Random(seed)
    times = rng.sample(range(int(start * SECOND), int((start + span) * SECOND)), count)
    k = [rng.choice([None, *range(keys)]) for _ in range(count)]
    return pa.table(
        {
            "id": pa.array(range(seed * 100_000, seed * 100_000 + count), pa.int64()),
            "ts": pa.array([START + t for t in times], pa.timestamp("us", "UTC")),
            "k": pa.array(k, pa.int64()),
            "x": pa.array(
                [None if v is None else v + rng.choice([0, 0, 0.25, -0.0]) for v in k], pa.float64()
            ),
            "s": pa.array([rng.choice([None, "", "x", "y", "a longer text than fits a word"]) for _ in k]),
        }
    )


def frame(table: pa.Table) -> DataFrame:
    return spark().createDataFrame(table)


def found(out: DataFrame) -> Counter[tuple]:
    """The ids of all results of a batch DataFrame."""
    return Counter(tuple(row) for row in out.select(*(f"{alias}.id" for alias in out.columns)).collect())


def in_process(query: wr.Query, *calls: Mapping[str, pa.Table], finish: bool = True) -> Counter[tuple]:
    """What one operator answers to the same calls."""
    op = wr.Operator(query, {alias: table.schema for alias, table in calls[0].items()})
    answer: Counter[tuple] = Counter()
    for call in calls:
        answer += ids(op.process(call))
    return answer + ids(op.finish()) if finish else answer


class Stream:
    """A directory that files arrive in, read as a stream of one file per batch."""

    def __init__(self, directory: Path, schema: str | StructType = SCHEMA) -> None:
        self.directory = directory
        self.schema = schema
        self.directory.mkdir(parents=True)
        self._count = 0

    def put(self, *tables: pa.Table) -> None:
        for table in tables:
            path = self.directory / f"{self._count:04}.parquet"
            pq.write_table(table, path)
            # Spark takes files by age, and tells ages by the millisecond.
            os.utime(path, (1_700_000_000 + self._count,) * 2)
            self._count += 1

    def read(self) -> DataFrame:
        reader = spark().readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.directory))


def run(
    out: DataFrame, directory: Path, columns: Sequence[str] | None = None, **options: Any
) -> StreamingQuery:
    """Runs a stream over all that is there, into parquet files under `directory`/out."""
    chosen = columns or [f"{alias}.id as {alias}" for alias in out.columns]
    writer = out.selectExpr(*chosen).writeStream.format("parquet").options(**options)
    writer = writer.option("path", str(directory / "out")).option("checkpointLocation", str(directory / "ck"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def set_back(directory: Path, batches: int) -> None:
    """The checkpoint as it was so many batches ago."""
    for folder in ("offsets", "commits"):
        kept = sorted(int(f.name) for f in (directory / "ck" / folder).glob("[0-9]*"))
        for batch in kept[len(kept) - batches :]:
            (directory / "ck" / folder / str(batch)).unlink()
            (directory / "ck" / folder / f".{batch}.crc").unlink(missing_ok=True)


def written(directory: Path) -> Counter[tuple]:
    """What the sink holds."""
    return Place(directory).found()


def failing(call: Callable[[], Any]) -> str:
    """The message of the error that `call` ends with."""
    try:
        call()
    except Exception as error:
        return str(error)
    raise AssertionError("expected an error")
