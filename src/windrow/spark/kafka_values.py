"""Decodes the values of Kafka records into columns, and encodes columns as values."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.types import BinaryType

from windrow.errors import Option, QueryError
from windrow.model.source import Source, quoted
from windrow.spark.session import java_text
from windrow.spark.spark_errors import as_query_error

RECORD = ("key", "topic", "partition", "headers")
"""Columns of Kafka's sink besides the value."""
LENIENT = {"mode": "PERMISSIVE"}
"""A value that cannot be decoded has null fields, including the time, and is counted. It stops no query."""
MICROSECONDS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX"}
"""Spark's default writes only milliseconds."""
UNLISTED = ("maxnestingdepth", "maxnumlen", "maxstringlen")
"""Options of JSON that Spark reads but does not list."""


def decode(records: DataFrame, source: Source) -> DataFrame:
    """The fields of the values, and Kafka's own columns with other names. Without a select list only
    `partition` is kept of these, since windows store every column of a stream."""
    format, schema = str(source.value_format), str(source.schema)
    options = {**LENIENT, **value_options(records, format, source.options)}
    if format == "avro":
        value = from_avro("value", schema, options)
    else:
        value = sf.from_json(sf.col("value").cast("string"), schema, options)
    decoded = records.withColumn("value", value)
    fields = {name.lower() for name in decoded.select("value.*").columns}
    wanted = decoded.columns if source.select else ["partition"]
    beside = [name for name in wanted if name != "value" and name.lower() not in fields]
    return decoded.select("value.*", *beside)


def encode(results: DataFrame, value_format: str, options: Mapping[str, str], place: Option) -> DataFrame:
    """One record per result. Its columns, except those in `RECORD`, become the value."""
    fields = [quoted(name) for name in results.columns if name not in RECORD]
    if not fields:
        raise QueryError("no column is left for the value; add one to select, such as 'a.id as id'", place)
    beside = [
        sf.col(f.name).cast("string").alias("key")
        if f.name == "key" and not isinstance(f.dataType, BinaryType)
        else sf.col(f.name)
        for f in results.schema.fields
        if f.name in RECORD
    ]
    value = sf.struct(*fields)
    written = {**MICROSECONDS, **value_options(results, "json", options)}
    with as_query_error(place):
        encoded = to_avro(value) if value_format == "avro" else sf.to_json(value, written)
        return results.select(*beside, encoded.alias("value"))


def value_options(frame: DataFrame, format: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options of the value format. Kafka's options may be credentials and must not be passed on, because
    Spark's plans show every option of an expression."""
    owner = "avro.AvroOptions" if format == "avro" else "catalyst.json.JSONOptions"
    listed = java_text(frame.sparkSession, f"org.apache.spark.sql.{owner}", "getAllOptions")
    known = {*re.findall(r"\w+", listed.lower()), *UNLISTED}
    return {name: value for name, value in options.items() if name.lower() in known}
