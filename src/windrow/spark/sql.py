"""`wr.sql`: statements over Spark DataFrames, sources or tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from windrow.errors import Option, QueryError, located, unknown
from windrow.model.execution import Execution
from windrow.model.keywords import checks_keywords
from windrow.model.query import Function
from windrow.model.source import absolute
from windrow.spark.files.file_stream import FileStream
from windrow.spark.sources_sinks import read_source
from windrow.spark.statement_runner import StatementRunner
from windrow.sql_frontend.from_clause import CreatedStream
from windrow.sql_frontend.parser import ParsedScript, parse_script
from windrow.sql_frontend.scope import Parameter, StreamInfo
from windrow.sql_frontend.statement import Script


@checks_keywords("wr.sql")
def sql(
    text: str,
    spark: SparkSession,
    streams: Mapping[str, DataFrame | FileStream] | None = None,
    time: str | Mapping[str, str] | None = None,
    streaming: bool = True,
    functions: Mapping[str, Function | Callable[..., Any]] | None = None,
    parameters: Mapping[str, Parameter] | None = None,
    partitions: int | None = None,
    state: str | PathLike[str] | None = None,
    name: str | None = None,
) -> DataFrame:
    """Run SQL over streams. Returns a DataFrame of the selected columns.

    Several SELECTs, separated by semicolons, return one DataFrame with a column `query` for the statement's
    name, and share a join if they can. EXPLAIN returns one row per plan. Raises `QueryError` for any mistake
    in the text, with its line and a caret, before reading data.

    Parameters
    ----------
    text
        SELECT, EXPLAIN SELECT and CREATE STREAM statements.
    spark
        The session.
    streams
        Name to DataFrame or files (`wr.files`), for streams that the text does not create. Other names are
        tables or views of the session.
    time
        The event time column of streams that name none: one for all, or by stream name.
    streaming
        Whether sources of CREATE STREAM are read as streams or as batches.
    functions
        Python functions that conditions may call.
    parameters
        Values of names in the text that are not columns, such as a threshold.
    partitions, state
        As in `join`, for statements that do not set them.
    name
        Prefix of the joins' names in state and metrics, which are the names of the statements.

    Examples
    --------
    >>> hot = wr.sql("SELECT T.location FROM temperature T, humidity H "
    ...     "WHERE T.location = H.location AND T.value > 30 WINDOW 1 MINUTE",
    ...     spark=spark, time="at", state="/data/state")                                # doctest: +SKIP
    """
    parsed = parse_script(text)
    parsed.check_selects()
    frames, script = bind(parsed, spark, streams, time, streaming, functions, parameters)
    settings: dict[str, Any] = {"partitions": partitions, "state": state, "name": name}
    return StatementRunner(frames, Execution(**settings)).of(script.statements, spark)


def bind(
    parsed: ParsedScript,
    spark: SparkSession,
    streams: Mapping[str, DataFrame | FileStream] | None = None,
    time: str | Mapping[str, str] | None = None,
    streaming: bool = True,
    functions: Mapping[str, Function | Callable[..., Any]] | None = None,
    parameters: Mapping[str, Parameter] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[dict[str, DataFrame | FileStream], Script]:
    """The frames by name, and the statements with all names resolved."""
    given = dict(streams or {})
    times = dict(time) if isinstance(time, Mapping) else {}
    for named in times:
        if named not in (*given, *parsed.created, *parsed.names):
            raise QueryError(
                unknown("stream", named, [*given, *parsed.created, *parsed.names]), Option("time")
            )
    for named, frame in given.items():
        if not isinstance(frame, FileStream) and not hasattr(frame, "mapInArrow"):
            raise QueryError(f"expected a Spark DataFrame, got {type(frame).__name__}", Option(stream=named))
        if named in parsed.created:
            raise QueryError(f"'{named}' is created in the text too; leave one out", Option("streams"))
    frames: dict[str, DataFrame | FileStream] = dict(given)
    with located(parsed.locate):
        frames |= {n: read_source(spark, created.source, streaming) for n, created in parsed.created.items()}
    for named in parsed.names:
        if named.lower() not in {known.lower() for known in frames} and _is_table(spark, named):
            frames[named] = spark.table(named)
    known = {n: StreamInfo(tuple(frame.columns), times.get(n)) for n, frame in frames.items()}
    script = parsed.bind(known, time if isinstance(time, str) else None, functions, parameters, settings)
    return frames, script


def relative_to(parsed: ParsedScript, base: Path) -> ParsedScript:
    """Make relative paths of sources relative to a directory: that of the SQL file."""

    def moved(created: CreatedStream) -> CreatedStream:
        source = created.source
        return replace(created, source=replace(source, path=source.path and absolute(source.path, base)))

    return replace(parsed, created={name: moved(created) for name, created in parsed.created.items()})


def _is_table(spark: SparkSession, name: str) -> bool:
    try:
        return bool(spark.catalog.tableExists(name))
    except PySparkException:  # not a valid table name
        return False
