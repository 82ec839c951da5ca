"""Which batch of which streaming query a task belongs to.

Spark hands this to tasks in local properties that are not documented; only this file reads them.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import TaskContext

from windrow.errors import StateError


@dataclass(frozen=True)
class MicroBatch:
    """Where in a streaming query a task runs."""

    query: str
    batch: int
    task: int
    """Spark's number; the partition's own number unless Spark runs several in one task."""
    attempt: int
    """Unlike that of any other task or attempt of this session."""


def micro_batch() -> MicroBatch:
    context = TaskContext.get()
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
    return MicroBatch(query, int(batch), context.partitionId(), context.taskAttemptId())
