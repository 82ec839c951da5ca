"""`wr.files`: files in place of a DataFrame, read in columns by Windrow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike, fspath
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import DataType, StructType

from windrow.engine.rows import plain_schema
from windrow.errors import Option, QueryError, placed, unknown
from windrow.model.keywords import checks_keywords
from windrow.model.limits import MemoryLimit
from windrow.model.source import TYPED, as_option, quoted
from windrow.redaction import cause, redacted
from windrow.spark.files.column_formats import arrow_schema
from windrow.spark.files.reader import FileReader, depth_of, opened
from windrow.spark.files.text_formats import CsvDialect
from windrow.spark.session import java_text
from windrow.spark.spark_errors import as_query_error

PATH, PART, PARTS, LATEST = "path", "part", "parts", "latest"
"""Columns of a list of files: the file, the part to read, the number of parts, and the latest event time that
is not too far ahead."""
FORMATS = ("parquet", "orc", "csv", "json", "arrow")
LISTED_NAMES = ("path", "modificationTime", "length", "content")
LISTED = "path string, modificationTime timestamp, length bigint, content binary"
"""The schema of Spark's `binaryFile`. The content is not selected, so Spark does not read it."""
LISTING = (
    "maxfilespertrigger", "maxbytespertrigger", "maxfileage", "latestfirst", "maxcachedfiles",
    "discardcachedinputratio", "filenameonly", "cleansource", "sourcearchivedir", "pathglobfilter",
    "recursivefilelookup", "modifiedbefore", "modifiedafter", "basepath", "ignoremissingfiles",
)  # fmt: skip
"""Options of Spark's file sources that affect the list of files."""
READING = {
    "parquet": ("ignorecorruptfiles", "mergeschema"),
    "orc": ("ignorecorruptfiles", "mergeschema"),
    "arrow": ("ignorecorruptfiles",),
    "json": ("ignorecorruptfiles",),
    "csv": ("ignorecorruptfiles", "header", "sep", "delimiter"),
}
"""Options that affect how files are read."""


@dataclass(frozen=True)
class FileStream:
    """Files of one stream, as `wr.files` returns them. Replaces a DataFrame in `join` and `share`.

    Parameters
    ----------
    schema
        The stream's columns.
    stored
        All columns of the files.
    split
        Files with more bytes are read by several tasks; None for one task per file.
    options
        Spark's options, with names in lower case.
    """

    session: SparkSession
    path: str
    format: str
    schema: StructType
    stored: StructType
    streaming: bool = True
    split: int | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    def select(self, *columns: str) -> FileStream:
        """Only these columns; the others are not read."""
        for name in columns:
            if name not in self.schema.names:
                raise QueryError(unknown("column", name, self.schema.names), Option("select"))
        return replace(self, schema=StructType([self.schema[name] for name in columns]))

    def __str__(self) -> str:
        return f"{self.format} files at {redacted(self.path)}"

    @cached_property
    def names(self) -> DataFrame:
        """The files and the parts to read. One frame, so that Spark lists a stream once for several joins."""
        reader = self.session.readStream if self.streaming else self.session.read
        listing = {name: value for name, value in self.options.items() if name in LISTING}
        with as_query_error(None):
            listed = reader.format("binaryFile").schema(LISTED).options(**listing).load(self.path)
        if self.split is None:
            return listed.select(PATH, sf.lit(0).alias(PART), sf.lit(1).alias(PARTS))
        parts = sf.ceil(sf.col("length") / self.split).cast("int")
        whole = listed.select(PATH, parts.alias(PARTS))
        every = whole.select("*", sf.explode(sf.sequence(sf.lit(0), sf.col(PARTS) - 1)).alias(PART))
        return every.select(PATH, PART, PARTS).repartition(self._tasks, PATH, PART)

    @property
    def _tasks(self) -> int:
        return int(self.session.conf.get("spark.sql.shuffle.partitions") or 1)

    def frame(self) -> DataFrame:
        """The same rows as a DataFrame that Spark reads."""
        if self.format == "arrow":
            raise QueryError("Spark itself does not read Arrow files; use another format", Option("format"))
        reader = self.session.readStream if self.streaming else self.session.read
        reader = reader.format(self.format).schema(self.stored).options(**self.options)
        return reader.load(self.path).select(*(sf.col(quoted(name)) for name in self.columns))

    def reader(self, schema: pa.Schema, zone: str) -> FileReader:
        """The reader of the files for workers, with these columns."""
        options = self.options
        nested = not _is_true(options.get("recursivefilelookup"))
        return FileReader(
            format=self.format,
            schema=schema,
            stored=plain_schema(to_arrow_schema(self.stored, timezone=zone)),
            base=depth_of(options.get("basepath", self.path)) if nested else None,
            zone=zone,
            java_zone=_java_zone(self.session) if self.format == "orc" else "",
            csv=CsvDialect(
                _is_true(options.get("header")), options.get("sep", options.get("delimiter", ","))
            ),
            ignore_corrupt_files=self._ignores("ignoreCorruptFiles"),
            ignore_missing_files=self._ignores("ignoreMissingFiles"),
        )

    def _ignores(self, what: str) -> bool:
        default = self.session.conf.get(f"spark.sql.files.{what}")
        return _is_true(self.options.get(what.lower(), default))


def _java_zone(session: SparkSession) -> str:
    """The time zone of Spark's Java process, in which it writes ORC."""
    zone = java_text(session, "java.util.TimeZone", "getDefault")  # ...ZoneInfo[id="Europe/Berlin",...]
    return zone.split("id=", 1)[1].split(",")[0].strip('"')


@checks_keywords("wr.files")
def files(
    spark: SparkSession,
    path: str | PathLike[str],
    format: str = "parquet",
    schema: str | StructType | pa.Schema | None = None,
    files_per_batch: int | None = None,
    *,
    split: str | int | None = None,
    ignore_corrupt_files: bool | None = None,
    ignore_missing_files: bool | None = None,
    options: Mapping[str, Any] | None = None,
    streaming: bool = True,
) -> FileStream:
    """Files as a stream that stays in columns: use it in place of a DataFrame in `join` and `share`.

    Spark lists the files and remembers which were read; Windrow reads them. The results are those of a
    DataFrame over the same files. It is faster, because rows are not converted to Spark's row format.

    Parameters
    ----------
    path
        A directory, a file or a pattern. New files are new rows, as in `spark.readStream`. Names of
        directories may hold values, as in `day=2024-01-01`.
    format
        "parquet", "orc", "csv", "json" (one document per line) or "arrow" (IPC, a file or a stream).
    schema
        The columns to read, as DDL ("id bigint, at timestamp") or as a schema of Spark or Arrow. By default
        the schema of the existing files; required for CSV and JSON. A column that a file lacks is null.
    files_per_batch
        Maximum number of files per micro-batch.
    split
        Files larger than this, such as "128 MiB", are read by several tasks, by row groups, stripes or record
        batches. This costs one more shuffle of file names per micro-batch.
    ignore_corrupt_files, ignore_missing_files
        Skip a file that cannot be read, or that has vanished, instead of stopping the query. The default is
        that of the Spark session.
    options
        Spark's options of file sources (`pathGlobFilter`, `maxFileAge`, `latestFirst`, `cleanSource`, ...);
        of CSV also `header` and `sep`.
    streaming
        False reads the files as they are now, for a batch job.

    Examples
    --------
    >>> bids = wr.files(spark, "/data/bids", files_per_batch=8)                         # doctest: +SKIP
    >>> joined = wr.join({"a": auctions, "b": bids}, on="a.id = b.auction", time="at",
    ...     within="5 minutes", state="/data/state")                                    # doctest: +SKIP
    """
    if not hasattr(spark, "readStream"):
        raise QueryError(f"expected wr.files(spark, path), got {type(spark).__name__} first", Option("spark"))
    path = fspath(path)
    if format not in FORMATS:
        raise QueryError(unknown("format", str(format), FORMATS), Option("format"))
    given = {name.lower(): as_option(value) for name, value in (options or {}).items()}
    for name in given:
        if name not in known_options(format):
            raise QueryError(
                f"{unknown('option', name, known_options(format))}. Spark has more options: use "
                f"spark.readStream.format('{format}')",
                Option("options"),
            )
    separator = given.get("sep", given.get("delimiter", ","))
    if len(separator) != 1 or not separator.isascii():
        raise QueryError(
            f"sep must be one ASCII character, got {separator!r}; for others use "
            "spark.readStream.format('csv')",
            Option("options"),
        )
    if files_per_batch is not None:
        if not isinstance(files_per_batch, int) or files_per_batch < 1:
            raise QueryError(f"must be at least 1, got {files_per_batch!r}", Option("files_per_batch"))
        given["maxfilespertrigger"] = str(files_per_batch)
    ignored = {"ignorecorruptfiles": ignore_corrupt_files, "ignoremissingfiles": ignore_missing_files}
    given |= {name: as_option(value) for name, value in ignored.items() if value is not None}
    with placed(Option("split")):
        size = MemoryLimit.parse(split)
        if size is not None and size.kind != "bytes":
            raise QueryError(f"expected a size such as '128 MiB', got {split!r}")
    stored = _schema(spark, path, format, schema, given)
    stream = FileStream(
        spark, path, format, stored, stored, streaming, None if size is None else size.size, given
    )
    _ = stream.names  # Spark refuses a path that does not exist
    return stream


def known_options(format: str) -> tuple[str, ...]:
    """The options of a format, in lower case."""
    return (*LISTING, *READING[format])


def _schema(
    spark: SparkSession, path: str, format: str, given: Any, options: Mapping[str, str]
) -> StructType:
    if isinstance(given, pa.Schema):
        return from_arrow_schema(given).toNullable()
    if isinstance(given, str):
        with as_query_error(None):
            given = DataType.fromDDL(given)
    if isinstance(given, StructType):
        return given.toNullable()
    if given is not None:
        raise QueryError(
            f"expected DDL such as 'id bigint, at timestamp', or a schema of Spark or Arrow, got {given!r}",
            Option("schema"),
        )
    if format not in TYPED:
        raise QueryError(
            f"is missing: '{format}' files have no types; give for example schema='id bigint, at timestamp'",
            Option("schema"),
        )
    own = {name: value for name, value in options.items() if name != "maxfilespertrigger"}
    if format == "arrow":
        return _arrow_schema(spark, path, own)
    with as_query_error(None):
        return spark.read.format(format).options(**own).load(path).schema.toNullable()


def _arrow_schema(spark: SparkSession, path: str, options: Mapping[str, str]) -> StructType:
    """The columns of the first Arrow file, and of the names of directories."""
    with as_query_error(None):
        listed = spark.read.format("binaryFile").options(**options).load(path)
        first = listed.select(PATH).orderBy(PATH).first()
    if first is None:
        raise QueryError("there is no file yet to read the schema from; pass schema=", Option("path"))
    with opened(first[PATH]) as source:
        try:
            found = plain_schema(arrow_schema(source))
        except pa.ArrowException as error:
            raise QueryError(f"{first[PATH]} is not an Arrow file: {error}", Option("path")) from cause(error)
    directories = [f for f in listed.schema.fields if f.name not in LISTED_NAMES]
    return StructType([*from_arrow_schema(found).fields, *directories]).toNullable()


def _is_true(value: str | None) -> bool:
    return (value or "").lower() == "true"
