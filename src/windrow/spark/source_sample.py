"""A bounded sample of a source: its first rows in time, from no more files than it takes.

Files are taken in the order in which they came, as a stream would take them; where a file system does not
tell that, by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from windrow.errors import Option
from windrow.spark.frames import quoted
from windrow.spark.spark_errors import as_query_error

FIRST_FILES = 4
"""Files that are looked into at once, to begin with; then twice as many."""


@dataclass(frozen=True)
class SourceSample:
    """Rows of one source, in the order of time."""

    rows: pa.Table
    files: int
    """Looked into."""
    of: int
    """Files there are; 0 for a source without files."""

    def __str__(self) -> str:
        said = f"{self.rows.num_rows:,} rows"
        return f"{said} from {self.files:,} of {self.of:,} files" if self.of else said


def first_rows(
    frame: DataFrame,
    place: Option,
    time: str,
    most: int,
    shape: Callable[[DataFrame], DataFrame] = lambda frame: frame,
) -> SourceSample:
    """At most so many rows of a batch DataFrame, the earliest of the files looked into.

    Parameters
    ----------
    frame
        The source as it is read.
    shape
        What is taken of it: its filter and its columns.
    """
    with as_query_error(place):
        names = [_name(path) for path in _in_order(frame.inputFiles())]
        files = min(FIRST_FILES, len(names))
        while files < len(names):
            some = frame.where(sf.col("_metadata.file_name").isin(names[:files]))
            rows = _earliest(shape(some), time, most)
            if rows.num_rows >= most:
                return SourceSample(rows, files, len(names))
            files = min(2 * files, len(names))
        return SourceSample(_earliest(shape(frame), time, most), len(names), len(names))


def _earliest(frame: DataFrame, time: str, most: int) -> pa.Table:
    column = sf.col(quoted(time))
    return frame.where(column.isNotNull()).orderBy(column).limit(most).toArrow()


def _in_order(paths: list[str]) -> list[str]:
    return sorted(paths, key=lambda path: (_came(path), path))


def _came(path: str) -> float:
    url = urlparse(path)
    if url.scheme not in ("", "file"):
        return 0.0
    try:
        return Path(unquote(url.path)).stat().st_mtime
    except OSError:
        return 0.0


def _name(path: str) -> str:
    return unquote(path.rsplit("/", 1)[-1])
