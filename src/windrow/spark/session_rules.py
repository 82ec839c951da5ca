"""Settings that a query takes from the Spark session."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from windrow.model.query import Query
from windrow.planning.bound_query import BoundQuery

ANSI = "spark.sql.ansi.enabled"


def with_session_rules(query: Query, spark: SparkSession) -> Query:
    """The query with `on_error` as in the session's ANSI mode, unless the query sets it."""
    if query.on_error is not None:
        return query
    ansi = str(spark.conf.get(ANSI, "true")).lower() == "true"
    return replace(query, on_error="raise" if ansi else "null")


def errors_text(join: BoundQuery) -> str:
    """The line of an explanation about operations that fail; empty if none can."""
    if not join.may_fail:
        return ""
    return "errors: " + ("raised" if join.query.raises else "null, and counted as rows_failed")
