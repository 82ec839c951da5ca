"""A session to run a pipeline in, and a streaming query as it runs."""

from __future__ import annotations

import logging
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery as StreamingQuery

from windrow.redaction import redacted
from windrow.spark.complaints import sentence
from windrow.spark.java import cache_directory, find_java
from windrow.spark.metrics import BatchMetrics, read_progress
from windrow.spark.session import SETTINGS, _logging

LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set where spark-submit started this process and has a master for it."""
BEHIND = "maxOffsetsBehindLatest"
"""What Spark's sources call it, those that know."""
SPARK_PARTITIONS = "200"
"""Of a shuffle, where nobody says how many."""


@contextmanager
def open_session(
    master: str | None, name: str, settings: Mapping[str, str], check: bool = False
) -> Iterator[SparkSession]:
    """The session of this process, or a new and quiet one that ends with the block.

    Parameters
    ----------
    master
        Spark's URL of a cluster, or "local[n]"; None for what spark-submit says, or else all cores here.
    check
        Only schemas are wanted: a local session will do, whatever the master.
    """
    # PySpark logs every refused expression with its Java stack; `telling` tells it in a sentence.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    running = _running_session()
    if running is not None:
        yield running
        return
    if master is None and SUBMITTED not in os.environ:
        master = "local[*]"
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    told = {**_defaults(master, check), **settings}
    log = _logging(cache_directory(os.environ)).as_uri()
    java = "spark.driver.extraJavaOptions"
    told[java] = f"{told.get(java, '')} -Dlog4j2.configurationFile={log}".strip()
    builder = SparkSession.builder.appName(name)
    for key, value in told.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


def _running_session() -> SparkSession | None:
    """The session of this process: this thread's own, or else what another thread began."""
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def _defaults(master: str | None, check: bool) -> dict[str, str]:
    local = LOCAL.fullmatch(master) if master is not None else None
    found = {key: value for key, value in SETTINGS.items() if local or check or "driver" not in key}
    if local is not None:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        cores = os.cpu_count() or 1 if local[1] == "*" else int(local[1] or 1)
        found["spark.sql.shuffle.partitions"] = str(cores)
    elif check:
        found["spark.sql.shuffle.partitions"] = SPARK_PARTITIONS
    if check:
        master = "local[1]"
    return found if master is None else found | {"spark.master": master}


@dataclass(frozen=True)
class Progress:
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
        totals = (
            "rows_in", "rows_late", "rows_ahead", "rows_null_time", "rows_shed", "rows_dropped", "results",
            "window_rows", "memory_bytes", "rows_waiting", "throttle",
        )  # fmt: skip
        return {
            "batch": self.batch,
            "began": self.began,
            "seconds": self.seconds,
            "rows_read": self.rows_read,
            "results_late": self.results_late,
            "behind": self.behind,
            "joins": {
                join.join: {name: getattr(join, name) for name in totals}
                | {"recall": [None if math.isnan(r) else r for r in join.recall]}
                | {"skew": join.skew, "partitions": [asdict(p) for p in join.partitions]}
                for join in self.joins
            },
        }


class Running:
    """A started query, looked at from time to time."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._seen = -1

    @property
    def active(self) -> bool:
        return bool(self._query.isActive)

    def news(self) -> list[Progress]:
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
        return None if error is None else (sentence(error), redacted(str(error)))


def _progress(event: Any) -> Progress:
    return Progress(
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
