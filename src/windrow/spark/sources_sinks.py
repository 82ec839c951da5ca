"""The Spark side of a pipeline: reading sources, shaping results, writing to sinks.

Errors of Spark become a `QueryError` with a place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, MapType, StructType

from windrow.errors import Option, QueryError, placed
from windrow.model.sink import Sink
from windrow.model.source import TYPED, Source
from windrow.spark.files.file_stream import FORMATS, FileStream, files, known_options
from windrow.spark.kafka_values import decode, encode
from windrow.spark.query_progress import QueryWatcher
from windrow.spark.spark_errors import as_query_error

FLAT = ("csv", "text")
"""Formats without nested values."""


def read_source(session: SparkSession, source: Source, streaming: bool) -> DataFrame | FileStream:
    """Read a source as a stream or as a batch. Streamed files without a schema have that of the existing
    files."""
    as_files = source.format == "arrow" or (streaming and stays_in_columns(source))
    with as_query_error(source.place), placed(source.place):
        schema: str | StructType | None = source.schema
        untyped = not as_files or source.format not in TYPED
        if streaming and untyped and schema is None and source.path is not None:
            schema = session.read.format(source.format).options(**source.options).load(source.path).schema
        if as_files:
            path = source.path or ""
            return files(session, path, source.format, schema, options=source.options, streaming=streaming)
        reader = (session.readStream if streaming else session.read).format(source.format)
        reader = reader.options(**source.options)
        if source.value_format is not None:
            return decode(reader.load(), source)
        return (reader if schema is None else reader.schema(schema)).load(source.path)


def stays_in_columns(source: Source) -> bool:
    """Whether Windrow reads the source's files itself when they are streamed. Spark reads them if the source
    has a filter, computed columns or options that only Spark knows. Spark also reads text formats, so that
    unusual values mean the same."""
    if source.format not in FORMATS or source.format not in TYPED or source.filter is not None:
        return False
    known = all(name.lower() in known_options(source.format) for name in source.options)
    return known and all(re.fullmatch(r"\w+", column) for column in source.select)


def shape(frame: DataFrame | FileStream, source: Source) -> DataFrame | FileStream:
    """Apply a source's filter and select list."""
    if isinstance(frame, FileStream):
        # Spark ignores the case of columns, and some select items that look like columns are keywords.
        if stays_in_columns(source) and (source.format == "arrow" or {*source.select} <= {*frame.columns}):
            with placed(source.place):
                return frame.select(*source.select) if source.select else frame
        frame = frame.frame()
    if source.filter is not None:
        with as_query_error(replace(source.place, name="filter")):
            frame = frame.where(source.filter)
    return select(frame, source.select, source.place)


def select(frame: DataFrame, columns: Sequence[str], place: Option) -> DataFrame:
    """Apply a select list; an empty one selects all columns."""
    if not columns:
        return frame
    with as_query_error(replace(place, name="select")):
        return frame.selectExpr(*columns)


@dataclass(frozen=True)
class Output:
    """Results, and the sink that they are written to. Errors of the sink are at `place`."""

    frame: DataFrame
    sink: Sink
    place: Option

    @classmethod
    def of(cls, frame: DataFrame, sink: Sink, place: Option) -> Output:
        """Refuses columns that the format would refuse in the first micro-batch."""
        format, names = sink.format, [name.lower() for name in frame.columns]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise QueryError(
                f"two columns are named '{twice}'; name one in select, such as 'b.{twice} as b_{twice}'",
                place,
            )
        for field in frame.schema.fields:
            if format in FLAT and isinstance(field.dataType, StructType | ArrayType | MapType):
                kind = field.dataType.typeName()
                raise QueryError(
                    f"'{format}' cannot hold column '{field.name}', a {kind}; take its fields "
                    f"in select, such as '{field.name}.id'",
                    place,
                )
        if sink.value_format is not None:
            frame = encode(frame, sink.value_format, sink.options, place)
        return cls(frame, sink, place)

    def start(
        self, name: str, checkpoint: str, trigger: Mapping[str, str | bool], mode: str = "append"
    ) -> QueryWatcher:
        """Start the stream. `trigger` are arguments of Spark's."""
        writer = self.frame.writeStream.format(self.sink.format).options(**self.sink.options)
        writer = writer.outputMode(mode).queryName(name).option("checkpointLocation", checkpoint)
        if trigger:
            writer = writer.trigger(**trigger)
        with as_query_error(self.place):
            return QueryWatcher(writer.start(self.sink.path))

    def write(self, mode: str = "error") -> int:
        """Run the batch job. Returns the number of rows written."""
        counted = Observation("windrow rows written")
        observed = self.frame.observe(counted, sf.count(sf.lit(1)).alias("rows"))
        writer = observed.write.format(self.sink.format).options(**self.sink.options).mode(mode)
        with as_query_error(self.place, (AnalysisException,)):
            writer.save(self.sink.path)
        return int(counted.get["rows"])
