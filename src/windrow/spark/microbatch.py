"""The micro-batch, query and run that a task, or a call of a `foreachBatch` function, belongs to.

Spark passes them in undocumented local properties, which only this file reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from pyspark import SparkContext, TaskContext

from windrow.errors import StateError


@dataclass(frozen=True)
class MicroBatch:
    """The place of a task in a streaming query."""

    query: str
    """Spark's id of the query, which survives a restart from its checkpoint."""
    run: str
    """Spark's id of this start of the query, as 32 hexadecimal digits."""
    batch: int


def micro_batch(context: TaskContext | SparkContext | None) -> MicroBatch:
    """That of a task; on the driver, in `foreachBatch`, the one whose frame the function gets."""
    query = context.getLocalProperty("sql.streaming.queryId") if context else None
    batch = context.getLocalProperty("streaming.sql.batchId") if context else None
    if context is None or query is None or batch is None:
        raise StateError(
            "Spark does not tell this task its streaming query and batch (local properties "
            f"sql.streaming.queryId = {query!r}, streaming.sql.batchId = {batch!r}), and without them "
            "results would not be exactly once. Either foreachBatch runs its frame in a plain thread: use "
            "pyspark.InheritableThread, which hands them on. Or this version of Spark has none: use PySpark "
            "4.3"
        )
    return MicroBatch(query, _run(context.getLocalProperty("spark.jobGroup.id")), int(batch))


def _run(group: str | None) -> str:
    """The run id. Spark runs the jobs of a streaming query in a job group that is named by it."""
    try:
        return UUID(group or "").hex
    except ValueError:
        raise StateError(
            f"Spark does not tell this task the run of its streaming query (local property spark.jobGroup.id "
            f"= {group!r}), and without it a query that was set back would not be noticed. If foreachBatch "
            "calls setJobGroup, have it call addTag instead"
        ) from None
