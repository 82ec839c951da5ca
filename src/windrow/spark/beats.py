"""Beats: a row for every partition in every micro-batch, so that a partition runs even without new rows."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType

from windrow.spark.union import BEAT, CONTENT, COPY, ROUTE, STREAM_BITS

_empty: WeakKeyDictionary[SparkSession, DataFrame] = WeakKeyDictionary()


def beats_name(join: str, token: str) -> str:
    """The name of the observation of a join's beats, which is never read. The token of the join's task makes
    it unique, so that it identifies the join in a plan."""
    return f"beats of windrow.{join}, {token}"


def beats(name: str, partitions: int, like: DataFrame, clock: str | None) -> DataFrame:
    """Beats in the columns of `like`, without reading any new data. `name` is the name of their observation,
    `clock` the column that carries the micro-batch's clock.

    Only a stream can be united with streams, so the rows derive from a stream without any. `coalesce` makes
    one partition even of an empty frame, and `mapInArrow` runs on it. Without `observe`, Spark would optimise
    an empty frame away with everything above it.
    """
    kinds = to_arrow_schema(like.schema, timezone="UTC")
    routes = [p << STREAM_BITS | BEAT for p in range(partitions)]

    def emit(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        filled = {ROUTE: routes, COPY: [0] * len(routes), CONTENT: [0] * len(routes)}
        columns = [pa.array(filled.get(f.name, [None] * len(routes)), f.type) for f in kinds]
        yield pa.RecordBatch.from_arrays(columns, kinds.names)

    observed = _empty_stream(like.sparkSession).observe(name, sf.count(sf.lit(1)).alias("rows"))
    found = observed.coalesce(1).mapInArrow(emit, like.schema)
    if clock is None:
        return found
    kind = like.schema[clock].dataType
    now = sf.unix_micros(batch_clock()).cast("string") if isinstance(kind, BinaryType) else batch_clock()
    return found.withColumn(clock, now.cast(kind))


def batch_clock() -> Column:
    """The clock of the micro-batch: the same in every attempt at it."""
    return sf.current_timestamp()


def _empty_stream(spark: SparkSession) -> DataFrame:
    """A stream of files whose pattern matches none; for a pattern, Spark does not require the directory. One
    frame per session, so that it is one source of a query, even one with several joins."""
    if spark not in _empty:
        _empty[spark] = spark.readStream.schema("value string").text("file:///windrow-without-rows-*/*")
    return _empty[spark]
