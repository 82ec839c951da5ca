"""The streams' DataFrames: checks them, and binds the query to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from windrow.engine.join import Join
from windrow.engine.result_builder import CLUSTER, WEIGHT, ResultBuilder
from windrow.engine.rows import check_time_column, plain_schema
from windrow.engine.source_partitions import check_source_partition
from windrow.errors import DataError, Option, QueryError
from windrow.model.join_kind import CERTAIN
from windrow.model.query import Query
from windrow.planning.bound_query import BoundQuery
from windrow.spark.files.file_stream import FileStream
from windrow.spark.frame_settings import METADATA

MESSAGE = "value"
"""The column of control messages."""


@dataclass(frozen=True)
class StreamTypes:
    """The columns of a stream."""

    fields: tuple[st.StructField, ...]
    arrow: pa.Schema
    """The schema in which Spark passes rows to Python, and of the rows in results."""

    @classmethod
    def of_schema(cls, arrow: pa.Schema) -> StreamTypes:
        """The columns of a stored stream, in the types that Spark gives them."""
        return cls(tuple(from_arrow_schema(arrow, prefer_timestamp_ntz=True)), arrow)

    def type_of(self, column: str) -> st.DataType:
        return next(field.dataType for field in self.fields if field.name == column)


@dataclass(frozen=True)
class Frame(StreamTypes):
    """One stream."""

    alias: str
    data: DataFrame | FileStream

    @classmethod
    def of(cls, alias: str, data: DataFrame | FileStream, zone: str) -> Frame:
        fields = tuple(_without_watermark(field) for field in data.schema.fields)
        names = [field.name.lower() for field in fields]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise QueryError(
                f"column '{twice}' occurs {names.count(twice)} times; rename one", Option(stream=alias)
            )
        if not fields:
            raise QueryError("the DataFrame has no columns", Option(stream=alias))
        arrow = plain_schema(to_arrow_schema(st.StructType(list(fields)), timezone=zone))
        return cls(fields, arrow, alias, data)


def check_frames(frames: object) -> None:
    """Raise a QueryError if these are not DataFrames or files by alias."""
    if not isinstance(frames, Mapping) or not frames:
        got = "none" if isinstance(frames, Mapping) else type(frames).__name__
        raise QueryError(
            f"expected DataFrames by alias, {{'a': auctions, 'b': bids}}, got {got}", Option("frames")
        )
    for alias, data in frames.items():
        if not isinstance(data, FileStream) and not hasattr(data, "mapInArrow"):
            kind = f"{type(data).__module__.partition('.')[0]}.{type(data).__name__}"
            raise QueryError(
                f"expected a Spark DataFrame, got {kind}; make one with spark.createDataFrame(...), "
                "or read files with wr.files(spark, path)",
                Option(stream=alias),
            )


def read_frames(frames: Mapping[str, DataFrame | FileStream]) -> tuple[tuple[Frame, ...], bool]:
    """Check the frames. Returns them, and whether they are streaming."""
    check_frames(frames)
    streaming = [alias for alias, data in frames.items() if is_streaming(data)]
    batch = [alias for alias in frames if alias not in streaming]
    if streaming and batch:
        raise QueryError(
            f"{streaming} are streams and {batch} are not; read all with readStream, or all with read",
            Option("frames"),
        )
    zones = {alias: session_of(data).conf.get("spark.sql.session.timeZone") for alias, data in frames.items()}
    return tuple(Frame.of(alias, data, str(zones[alias])) for alias, data in frames.items()), bool(streaming)


def is_streaming(data: DataFrame | FileStream) -> bool:
    return data.streaming if isinstance(data, FileStream) else data.isStreaming


def session_of(data: DataFrame | FileStream) -> SparkSession:
    return data.session if isinstance(data, FileStream) else data.sparkSession


def control_messages(control: DataFrame, streaming: bool) -> DataFrame:
    """The frame of control messages, checked."""
    if not hasattr(control, "mapInArrow"):
        raise QueryError(f"expected a Spark DataFrame, got {type(control).__name__}", Option("control"))
    if control.isStreaming != streaming:
        raise QueryError(
            "must be a stream if the frames are streams, and batch if they are batch", Option("control")
        )
    kinds = {field.name: field.dataType for field in control.schema.fields}
    if not isinstance(kinds.get(MESSAGE), st.StringType):
        raise QueryError(f"expected a text column '{MESSAGE}', got {list(kinds)}", Option("control"))
    return control.select(sf.col(MESSAGE))


def check(query: Query, frames: Sequence[Frame]) -> BoundQuery:
    """The query bound to these frames. Raises `QueryError` for any mistake."""
    for frame in frames:
        try:
            check_time_column(frame.alias, frame.arrow, query.streams[frame.alias].time)
            check_source_partition(frame.alias, frame.arrow, query.streams[frame.alias].source_partition)
        except DataError as error:
            raise QueryError(error.message, error.place) from None
    bound = BoundQuery.of(query, [frame.arrow for frame in frames])
    Join(bound, ResultBuilder)  # raises if a policy does not fit the query
    return bound


def result_type(query: Query, frames: Sequence[Frame]) -> st.StructType:
    """A struct per stream of the result, then `certain` if a result may be false, then weight and cluster for
    samples."""
    shown = [f for f in frames if f.alias in query.kind.result_aliases]
    fields = [st.StructField(f.alias, st.StructType(list(f.fields)), True) for f in shown]
    if query.kind.reports_certainty:
        fields.append(st.StructField(CERTAIN, st.BooleanType(), True))
    if query.memory_policy.samples:
        fields.append(st.StructField(WEIGHT, st.DoubleType(), True))
        fields.append(st.StructField(CLUSTER, st.LongType(), True))
    return st.StructType(fields)


def _without_watermark(field: st.StructField) -> st.StructField:
    """The field without Spark's watermark, which belongs to the input. The user may set one on the
    result."""
    if METADATA not in (field.metadata or {}):
        return field
    kept = {k: v for k, v in field.metadata.items() if k != METADATA}
    return st.StructField(field.name, field.dataType, field.nullable, kept)
