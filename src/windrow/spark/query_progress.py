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
"""What Spark's sources call it, those that know."""


@dataclass(frozen=True)
class BatchProgress:
    """One batch of a running query."""

    batch: int
    began: str
    """When, in UTC, as Spark writes it."""
    seconds: float
    rows_read: int
    results_late: int
    """Results that came too late for the aggregation's watermark."""
    behind: float | None
    """Rows the sources still hold, where they say so: of Kafka, in the partition that is furthest back."""
    joins: tuple[BatchMetrics, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON: totals of each join, and all of each partition."""
        return {
            "batch": self.batch,
            "began": self.began,
            "seconds": self.seconds,
            "rows_read": self.rows_read,
            "results_late": self.results_late,
            "behind": self.behind,
            "joins": {
                join.join: {m.name: getattr(join, m.name) for m in metrics_of(BatchCounts)}
                | {"recall": [None if math.isnan(r) else r for r in join.recall]}
                | {"skew": join.skew, "partitions": [asdict(p) for p in join.partitions]}
                for join in self.joins
            },
        }


class QueryWatcher:
    """A started query, looked at from time to time."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._seen = -1

    @property
    def active(self) -> bool:
        return bool(self._query.isActive)

    def progress(self) -> list[BatchProgress]:
        """The batches that ended since the last look, oldest first."""
        last = self._query.lastProgress
        if last is None or (last.batchId <= self._seen and self.active):
            return []
        # Fetching one event is cheap, fetching all that Spark remembers is not.
        alone = last.batchId == self._seen + 1 and self.active
        events = [last] if alone else self._query.recentProgress
        # Spark also reports waiting, under the number of the batch to come.
        ran = [e for e in events if e.batchId > self._seen and "addBatch" in e.durationMs]
        if ran:
            self._seen = ran[-1].batchId
        return [_progress(event) for event in ran]

    def stop(self) -> None:
        self._query.stop()

    def failure(self) -> tuple[str, str] | None:
        """Of an ended query: the cause in a sentence, and all that Spark says."""
        error = self._query.exception()
        return None if error is None else (short_message(error), redacted(str(error)))


def _progress(event: Any) -> BatchProgress:
    return BatchProgress(
        batch=event.batchId,
        began=event.timestamp,
        seconds=event.batchDuration / 1000,
        rows_read=event.numInputRows,
        results_late=sum(int(o.numRowsDroppedByWatermark) for o in event.stateOperators),
        behind=_behind(event.sources),
        joins=tuple(read_progress(event)),
    )


def _behind(sources: Sequence[Any]) -> float | None:
    told = [source.metrics[BEHIND] for source in sources if BEHIND in (source.metrics or {})]
    return max(map(float, told), default=None)
