"""Reads files in a Python worker, and converts rows to the stream's columns and types.

A column that a file lacks is null, and a column that the stream lacks is not read. Values in the names of
directories, such as `day=2024-01-01`, are columns too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs
from pyarrow import types as pt

from windrow.errors import DataError
from windrow.redaction import cause, redacted
from windrow.spark.files.column_formats import in_file, read_arrow, read_orc, read_parquet
from windrow.spark.files.text_formats import CsvDialect, parsed_values, read_csv, read_json
from windrow.state.storage import open_filesystem

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The name that Hive and Spark use for null in names of directories."""


@dataclass(frozen=True)
class FileReader:
    """
    Parameters
    ----------
    schema
        The stream's columns.
    stored
        All columns of the files; values of CSV are in this order.
    base
        Number of path segments before those that may hold values; None if none may.
    zone, java_zone
        The time zones of Spark's session and of its Java.
    """

    format: str
    schema: pa.Schema
    stored: pa.Schema
    base: int | None = None
    zone: str = "UTC"
    java_zone: str = "UTC"
    csv: CsvDialect = field(default_factory=CsvDialect)
    ignore_corrupt_files: bool = False
    ignore_missing_files: bool = False

    def read(self, path: str, part: int = 0, parts: int = 1) -> Iterator[pa.RecordBatch | None]:
        """The rows of a file, or of one of its parts. Ends with None if the rest is skipped."""
        try:
            given = self._partition_values(path)
            wanted = [name for name in self.schema.names if name not in given]
            with opened(path) as source:
                for table in self._tables(source, wanted, given, part, parts):
                    yield from self._fitted(table, given, path)
        except FileNotFoundError as error:
            if not self.ignore_missing_files:
                raise DataError(
                    f"the file {redacted(path)} has vanished since Spark listed it; restore it and start the "
                    "query again, or accept the loss with ignore_missing_files=True"
                ) from cause(error)
            yield None
        except (OSError, pa.ArrowException) as error:
            if not self.ignore_corrupt_files:
                raise DataError(
                    f"cannot read {redacted(path)} as {self.format}: {error}; repair or replace the file and "
                    "start the query again, or skip such files with ignore_corrupt_files=True"
                ) from cause(error)
            yield None

    def _tables(
        self, source: Any, wanted: list[str], given: dict[str, pa.Scalar], part: int, parts: int
    ) -> Iterator[pa.Table]:
        if self.format == "parquet":
            yield from read_parquet(source, wanted, part, parts)
        elif self.format == "orc":
            yield from read_orc(source, wanted, part, parts, self.java_zone)
        elif self.format == "arrow":
            yield from read_arrow(source, wanted, part, parts)
        elif part == 0 and self.format == "csv":
            stored = pa.schema([f for f in self.stored if f.name not in given])
            yield read_csv(source, stored, wanted, self.csv, self.zone)
        elif part == 0:
            yield read_json(source, pa.schema([self.schema.field(n) for n in wanted]), self.zone)

    def _partition_values(self, path: str) -> dict[str, pa.Scalar]:
        """Values in the names of the file's directories, by column."""
        found: dict[str, pa.Scalar] = {}
        if self.base is None or "=" not in path:
            return found
        for segment in _segments(path)[self.base : -1]:
            name, stated, value = segment.partition("=")
            column = next((f for f in self.stored if f.name.lower() == unquote(name).lower()), None)
            if stated and column is not None:
                text = pa.array([None if value == _NO_VALUE else unquote(value)], pa.string())
                if not pt.is_string(column.type):
                    text = parsed_values(text, column.type, self.zone)
                found[column.name] = text[0]
        return found

    def _fitted(self, table: pa.Table, given: dict[str, pa.Scalar], path: str) -> Iterator[pa.RecordBatch]:
        count = table.num_rows
        names = {wanted: name for name, wanted in in_file(self.schema.names, table.column_names).items()}
        columns: list[Any] = []
        for field_ in self.schema:
            if field_.name in given:
                columns.append(pa.repeat(given[field_.name], count))
            elif field_.name in names:
                columns.append(_as(table.column(names[field_.name]), field_, path))
            else:
                columns.append(pa.nulls(count, field_.type))
        fitted = pa.table(columns, schema=self.schema)
        yield from (fitted if fitted.num_rows == 0 else fitted.combine_chunks()).to_batches()


def _as(column: pa.ChunkedArray, wanted: pa.Field, path: str) -> pa.ChunkedArray:
    if column.type == wanted.type:
        return column
    if _fits(column.type, wanted.type):
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):  # refused below, by the column's name
            # Spark truncates nanoseconds as well.
            return column.cast(wanted.type, safe=not pt.is_timestamp(wanted.type))
    raise DataError(
        f"column '{wanted.name}' of {redacted(path)} is {column.type}, and the stream's is {wanted.type}; "
        "pass a schema that fits the files, or convert the files to one schema"
    )


def _fits(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Spark reads the one type as the other."""
    if pt.is_dictionary(kind):
        return _fits(kind.value_type, wanted)
    families = (
        (pt.is_integer, pt.is_floating, pt.is_decimal),
        (pt.is_timestamp,),
        (pt.is_string, pt.is_large_string, pt.is_string_view),
        (pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary, pt.is_binary_view),
        (pt.is_list, pt.is_large_list, pt.is_fixed_size_list),
        (pt.is_struct,),
        (pt.is_map,),
        (pt.is_duration,),
    )
    alike = any(any(f(kind) for f in family) and any(f(wanted) for f in family) for family in families)
    fraction = pt.is_floating(kind) and not pt.is_floating(wanted)
    return pt.is_null(kind) or kind == wanted or (alike and not fraction)


def _segments(path: str) -> list[str]:
    """
    >>> _segments("file:/data/day=1/x.parquet"), _segments("s3a://bucket/data/x.parquet")
    (['data', 'day=1', 'x.parquet'], ['data', 'x.parquet'])
    """
    scheme, colon, rest = path.partition(":")
    rest = rest if colon and "/" not in scheme else path
    if rest.startswith("//"):
        rest = rest[2:].partition("/")[2]
    return [segment for segment in rest.split("/") if segment]


def depth_of(path: str) -> int:
    """Number of segments of a path, without scheme and host."""
    return len(_segments(path))


def opened(path: str) -> Any:
    """Open a file by Spark's path, which is not percent-encoded. Compressed text is decompressed."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme or scheme == "file":
        local = path if not colon or "/" in scheme else "/" + rest.lstrip("/")
        system, name = _local(), local
        if not Path(local).exists():
            raise FileNotFoundError(local)
    else:
        host, _, rest = rest.lstrip("/").partition("/")
        system, base = _filesystem(f"{scheme}://{host}/" if host else f"{scheme}:///")
        name = f"{base.rstrip('/')}/{rest}"
    if path.endswith((".gz", ".bz2", ".zst", ".lz4")):
        return system.open_input_stream(name)
    return system.open_input_file(name)


@cache
def _local() -> Any:
    return fs.LocalFileSystem()


@cache
def _filesystem(root: str) -> tuple[Any, str]:
    return open_filesystem(root, "the files at")
