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
    """The micro-batch of a task; on the driver, in `foreachBatch`, that of the function's frame."""
    query = context.getLocalProperty("sql.streaming.queryId") if context else None
    batch = context.getLocalProperty("streaming.sql.batchId") if context else None
    if context is None or query is None or batch is None:
        raise StateError(
            "this task does not know its streaming query and batch (Spark's local properties "
            f"sql.streaming.queryId = {query!r}, streaming.sql.batchId = {batch!r}), so results would not be "
            "exactly once. If foreachBatch runs its frame in a plain thread, use pyspark.InheritableThread, "
            "which passes the properties on. If this version of Spark does not set them, use PySpark 4.3"
        )
    return MicroBatch(query, _run(context.getLocalProperty("spark.jobGroup.id")), int(batch))


def _run(group: str | None) -> str:
    """The run id. Spark runs the jobs of a streaming query in a job group that is named by it."""
    try:
        return UUID(group or "").hex
    except ValueError:
        raise StateError(
            f"this task does not know the run of its streaming query (Spark's local property "
            f"spark.jobGroup.id = {group!r}), so a query that was set back would go unnoticed. If "
            "foreachBatch calls setJobGroup, use addTag instead"
        ) from None
