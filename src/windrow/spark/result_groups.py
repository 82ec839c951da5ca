"""Groups of results on Spark, as SQL's GROUP BY and a pipeline's `[aggregate]` form them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as sf

from windrow.errors import Option, QueryError
from windrow.model.result_groups import ResultGroups
from windrow.model.source import quoted
from windrow.spark.spark_errors import as_query_error

TIME = "_windrow_time"
EDGES = {"window_start": "window.start", "window_end": "window.end"}
"""The columns that replace a group's window, which is a struct."""


def group_results(
    results: DataFrame,
    groups: ResultGroups,
    keys: Sequence[Column],
    watermark_delay: int | None,
    place: Option,
) -> GroupedData:
    """The results by `window` and keys. `place` is where the time is written."""
    with as_query_error(place):
        timed = results.withColumn(TIME, sf.expr(groups.time))
    kind = timed.schema[TIME].dataType.typeName()
    if not kind.startswith("timestamp"):
        raise QueryError(f"the window needs a timestamp, got {groups.time}, a {kind}", place)
    if watermark_delay is not None:
        timed = timed.withWatermark(TIME, f"{watermark_delay} microseconds")
    slide = None if groups.slide is None else f"{groups.slide} microseconds"
    window = sf.window(TIME, f"{groups.window} microseconds", slide).alias("window")
    return timed.groupBy(window, *keys)


def aggregate(
    results: DataFrame, groups: ResultGroups, aggregates: Sequence[str], place: Option
) -> DataFrame:
    """Columns window_start and window_end, the keys, and the aggregates, which are Spark's SQL."""
    with as_query_error(place):
        keys = [sf.expr(key) for key in groups.keys]
        by = group_results(
            results, groups, keys, groups.aggregate_watermark_delay, replace(place, name="time")
        )
        grouped = by.agg(*map(sf.expr, aggregates))
        edges = (sf.col(field).alias(name) for name, field in EDGES.items())
        return grouped.select(*edges, *(grouped[quoted(name)] for name in grouped.columns[1:]))
