"""A bounded sample of a source: its earliest rows, from as few files as necessary.

Files are read by modification time, as a stream reads them, or by name where the time is unknown.
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
from windrow.model.source import quoted
from windrow.spark.spark_errors import as_query_error

FIRST_FILES = 4
"""Files of the first attempt. Each further attempt reads twice as many."""


@dataclass(frozen=True)
class SourceSample:
    """Rows of one source, ordered by time."""

    rows: pa.Table
    files: int
    """Files read."""
    of: int
    """Files of the source; 0 for a source without files."""

    def __str__(self) -> str:
        rows = f"{self.rows.num_rows:,} rows"
        return f"{rows} from {self.files:,} of {self.of:,} files" if self.of else rows


def first_rows(
    frame: DataFrame,
    place: Option,
    time: str,
    most: int,
    shape: Callable[[DataFrame], DataFrame] = lambda frame: frame,
) -> SourceSample:
    """At most `most` rows of a batch DataFrame, the earliest in the files read.

    Parameters
    ----------
    frame
        The source.
    shape
        Applies the stream's filter and selects its columns.
    """
    with as_query_error(place):
        paths = sorted(frame.inputFiles(), key=lambda path: (_modified(path), path))
        names = [unquote(path.rsplit("/", 1)[-1]) for path in paths]
        files = min(FIRST_FILES, len(names))
        while files < len(names):
            # A filter may reject most rows, so the number of files needed is unknown.
            some = frame.where(sf.col("_metadata.file_name").isin(names[:files]))
            rows = _earliest(shape(some), time, most)
            if rows.num_rows >= most:
                return SourceSample(rows, files, len(names))
            files = min(2 * files, len(names))
        return SourceSample(_earliest(shape(frame), time, most), len(names), len(names))


def _earliest(frame: DataFrame, time: str, most: int) -> pa.Table:
    column = sf.col(quoted(time))
    return frame.where(column.isNotNull()).orderBy(column).limit(most).toArrow()


def _modified(path: str) -> float:
    url = urlparse(path)
    if url.scheme not in ("", "file"):
        return 0.0
    try:
        return Path(unquote(url.path)).stat().st_mtime
    except OSError:
        return 0.0
