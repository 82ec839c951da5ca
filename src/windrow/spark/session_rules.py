"""What the session decides of a query that leaves it open."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from windrow.model.query import Query
from windrow.planning.bound_query import BoundQuery

ANSI = "spark.sql.ansi.enabled"


def with_session_rules(query: Query, spark: SparkSession) -> Query:
    """The query with `on_error` as Spark treats operations that fail, unless it says so itself."""
    if query.on_error is not None:
        return query
    ansi = str(spark.conf.get(ANSI, "true")).lower() == "true"
    return replace(query, on_error="raise" if ansi else "null")


def errors_text(join: BoundQuery) -> str:
    """What an explanation says of operations that fail; empty if none can."""
    if not join.may_fail:
        return ""
    return "errors: " + ("raised" if join.query.raises else "null, and counted as rows_failed")
