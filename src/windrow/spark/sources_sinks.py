"""The Spark side of a pipeline: reading sources, shaping results, writing to sinks.

Plain values in, DataFrames out. What Spark refuses is told as a `QueryError` that opens with `where`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import ArrayType, MapType, StructType

from windrow.errors import QueryError
from windrow.spark.spark_errors import as_query_error

FLAT = ("csv", "text")
"""Formats without nested values."""
TIME = "_windrow_time"


def read_source(
    session: SparkSession,
    where: str,
    format: str,
    path: str | None,
    options: Mapping[str, str],
    schema: str | None,
    streaming: bool,
) -> DataFrame:
    """A source as a stream or as a batch. Without a schema, streamed files take that of the files there."""
    with as_query_error(where):
        if streaming and schema is None and path is not None:
            lent = session.read.format(format).options(**options).load(path).schema
            return session.readStream.format(format).options(**options).schema(lent).load(path)
        reader = session.readStream if streaming else session.read
        reader = reader.format(format).options(**options)
        return (reader if schema is None else reader.schema(schema)).load(path)


def take(frame: DataFrame, where: str, filter: str | None, select: Sequence[str]) -> DataFrame:
    """The rows and columns wanted of a frame."""
    if filter is not None:
        with as_query_error(f"{where}: filter"):
            frame = frame.where(filter)
    if select:
        with as_query_error(f"{where}: select"):
            frame = frame.selectExpr(*select)
    return frame


def aggregate(
    results: DataFrame,
    where: str,
    time: str,
    window: str,
    slide: str | None,
    watermark: str | None,
    group_by: Sequence[str],
    aggregates: Sequence[str],
) -> DataFrame:
    """Columns window_start and window_end, those grouped by, and the aggregates."""
    with as_query_error(f"{where}: time"):
        timed = results.withColumn(TIME, sf.expr(time))
    kind = timed.schema[TIME].dataType.typeName()
    if not kind.startswith("timestamp"):
        raise QueryError(f"{where}: time: expected an expression that gives a timestamp, got a {kind}")
    with as_query_error(where):
        if watermark is not None:
            timed = timed.withWatermark(TIME, watermark)
        windows = sf.window(TIME, window, slide).alias("window")
        grouped = timed.groupBy(windows, *map(sf.expr, group_by)).agg(*map(sf.expr, aggregates))
        edges = [sf.col("window.start").alias("window_start"), sf.col("window.end").alias("window_end")]
        return grouped.select(*edges, *(grouped[f"`{name}`"] for name in grouped.columns[1:]))


def check_sink(frame: DataFrame, where: str, format: str) -> None:
    """Refuses now what the format would refuse in the first batch."""
    names = [name.lower() for name in frame.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise QueryError(
            f"{where}: two columns are named '{twice}'; name one in select, such as 'b.{twice} as b_{twice}'"
        )
    for field in frame.schema.fields:
        if format in FLAT and isinstance(field.dataType, StructType | ArrayType | MapType):
            kind = field.dataType.typeName()
            raise QueryError(
                f"{where}: '{format}' cannot hold column '{field.name}', a {kind}; take its fields "
                f"in select, such as '{field.name}.id'"
            )


def start(
    frame: DataFrame,
    where: str,
    format: str,
    path: str | None,
    options: Mapping[str, str],
    mode: str,
    name: str,
    checkpoint: str,
    trigger: Mapping[str, str | bool],
) -> StreamingQuery:
    """Starts the stream."""
    writer = frame.writeStream.format(format).options(**options).outputMode(mode).queryName(name)
    if trigger:
        writer = writer.trigger(**trigger)
    with as_query_error(where):
        return writer.option("checkpointLocation", checkpoint).start(path)


def write(
    frame: DataFrame, where: str, format: str, path: str | None, options: Mapping[str, str], mode: str
) -> int:
    """Writes a batch to its end: how many rows."""
    counted = Observation("windrow rows written")
    observed = frame.observe(counted, sf.count(sf.lit(1)).alias("rows"))
    with as_query_error(where, (AnalysisException,)):
        observed.write.format(format).options(**options).mode(mode).save(path)
    return int(counted.get["rows"])
