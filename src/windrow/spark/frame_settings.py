"""Settings that a query takes from its frames: the delays of their watermarks, and the session's ANSI mode.

`withWatermark` stores its delay in the metadata of the column, which is part of the frame's schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from windrow.errors import Option, QueryError
from windrow.model.query import Query
from windrow.model.units import format_duration
from windrow.planning.bound_query import BoundQuery
from windrow.spark.files.file_stream import FileStream

METADATA = "spark.watermarkDelayMs"
ANSI = "spark.sql.ansi.enabled"


def with_frame_settings(
    query: Query, frames: Mapping[str, DataFrame | FileStream], spark: SparkSession
) -> Query:
    """The query with the frames' watermark delays as `late`, and `on_error` as in the session's ANSI mode
    unless the query sets it."""
    query = _with_watermarks(query, frames)
    if query.on_error is not None:
        return query
    ansi = str(spark.conf.get(ANSI, "true")).lower() == "true"
    return replace(query, on_error="raise" if ansi else "null")


def frame_watermarks(frame: DataFrame | FileStream) -> dict[str, int]:
    """Delay in microseconds by column."""
    fields = frame.schema.fields
    return {f.name: 1000 * int(f.metadata[METADATA]) for f in fields if METADATA in (f.metadata or {})}


def _with_watermarks(query: Query, frames: Mapping[str, DataFrame | FileStream]) -> Query:
    """The query with the frames' delays as `late`. Raises if a watermark contradicts the query."""
    found: dict[str, int] = {}
    for alias, stream in query.streams.items():
        for column, delay in frame_watermarks(frames[alias]).items() if alias in frames else ():
            if column != stream.time:
                raise QueryError(
                    f"the frame has a watermark on '{column}', and the stream's time is '{stream.time}'; set "
                    f"it on '{stream.time}', or leave it out and pass late=",
                    Option(stream=alias),
                )
            stated = _stated_delay(query, alias)
            if stated is not None and stated != delay:
                raise QueryError(
                    f"late is {format_duration(stated)}, and the frame has a watermark of "
                    f"{format_duration(delay)}; leave one of them out",
                    Option(stream=alias),
                )
            found[alias] = delay
    if not found:
        return query
    delays = dict(zip(query.aliases, query.watermark_delays, strict=True))
    return replace(query, late=delays | found)


def check_one_watermark(frames: Mapping[str, DataFrame | FileStream]) -> None:
    """Refuse frames with a watermark if the result gets one, because Spark allows one per query."""
    for alias, frame in frames.items():
        if frame_watermarks(frame):
            raise QueryError(
                "GROUP BY sets a watermark on the result, and Spark allows no other in the query; pass the "
                "frame without its watermark, and late=",
                Option(stream=alias),
            )


def _stated_delay(query: Query, alias: str) -> int | None:
    """The query's own `late` of a stream; None if not given. Zero for all streams is the default."""
    if isinstance(query.late, Mapping):
        return query.watermark_delays[query.aliases.index(alias)] if alias in query.late else None
    return query.watermark_delays[0] or None


def delays_text(query: Query, frames: Mapping[str, DataFrame | FileStream]) -> str:
    """The watermark delay of each stream, with its origin; empty if all are zero."""
    delays = []
    for alias, delay in zip(query.aliases, query.watermark_delays, strict=True):
        marked = alias in frames and frame_watermarks(frames[alias])
        origin = " (watermark of the frame)" if marked else ""
        source = query.streams[alias].source_partition
        per = "" if source is None else f" behind the slowest '{source}'"
        delays.append(f"{alias} {format_duration(delay)}{origin}{per}")
    tracked = any(stream.source_partition for stream in query.streams.values())
    return f"late: {', '.join(delays)}" if any(query.watermark_delays) or tracked else ""


def errors_text(join: BoundQuery) -> str:
    """The line of an explanation about operations that fail; empty if none can."""
    if not join.may_fail:
        return ""
    return "errors: " + ("raised" if join.query.raises else "null, and counted as rows_failed")
