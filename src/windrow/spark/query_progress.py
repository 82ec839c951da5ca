"""Progress of a running streaming query, micro-batch by micro-batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql.streaming import StreamingQuery as StreamingQuery

from windrow.model.metric_fields import metrics_of
from windrow.model.metrics import BatchCounts
from windrow.redaction import redacted
from windrow.spark.metrics import BatchMetrics, read_progress
from windrow.spark.spark_errors import short_message

BEHIND = "maxOffsetsBehindLatest"
"""The metric in which some of Spark's sources report their lag."""


@dataclass(frozen=True)
class BatchProgress:
    """One micro-batch of a running query."""

    batch: int
    began: str
    """Start time in UTC, in Spark's format."""
    seconds: float
    rows_read: int
    results_late: int
    """Results too late for the watermark of the aggregation."""
    offsets_behind: float | None
    """Rows not yet read, if a source reports them. For Kafka, those of the partition furthest behind."""
    joins: tuple[BatchMetrics, ...]

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON: the totals of each join and of its queries, and all metrics of each partition."""
        return {
            "batch": self.batch,
            "began": self.began,
            "seconds": self.seconds,
            "rows_read": self.rows_read,
            "results_late": self.results_late,
            "offsets_behind": self.offsets_behind,
            "joins": {
                join.join: {m.name: getattr(join, m.name) for m in metrics_of(BatchCounts)}
                | {"recall": [None if math.isnan(r) else r for r in join.recall]}
                | {"skew": join.skew, "queries": {name: vars(q) for name, q in join.queries.items()}}
                | {"partitions": [asdict(p) | {"seconds": p.seconds} for p in join.partitions]}
                for join in self.joins
            },
        }


class QueryWatcher:
    """Polls the progress of a started query."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._seen = -1

    @property
    def active(self) -> bool:
        return bool(self._query.isActive)

    def progress(self) -> list[BatchProgress]:
        """The micro-batches that ended since the last call, oldest first."""
        last = self._query.lastProgress
        if last is None or (last.batchId <= self._seen and self.active):
            return []
        # Fetching the last event is cheap, fetching all recent ones is not.
        only_one = last.batchId == self._seen + 1 and self.active
        events = [last] if only_one else self._query.recentProgress
        # While Spark waits for data it also reports, under the number of the next micro-batch.
        ran = [e for e in events if e.batchId > self._seen and "addBatch" in e.durationMs]
        if ran:
            self._seen = ran[-1].batchId
        return [_progress(event) for event in ran]

    def stop(self) -> None:
        self._query.stop()

    def failure(self) -> tuple[str, str] | None:
        """(cause in a sentence, Spark's complete message) of a failed query."""
        error = self._query.exception()
        return None if error is None else (short_message(error), redacted(str(error)))


def _progress(event: Any) -> BatchProgress:
    joins = tuple(read_progress(event))
    return BatchProgress(
        batch=event.batchId,
        began=event.timestamp,
        seconds=event.batchDuration / 1000,
        # To Spark, a file that Windrow reads is one row.
        rows_read=max([event.numInputRows, *(join.rows_in for join in joins)]),
        results_late=sum(int(o.numRowsDroppedByWatermark) for o in event.stateOperators),
        offsets_behind=_offsets_behind(event.sources),
        joins=joins,
    )


def _offsets_behind(sources: Sequence[Any]) -> float | None:
    return max((float(s.metrics[BEHIND]) for s in sources if BEHIND in (s.metrics or {})), default=None)
