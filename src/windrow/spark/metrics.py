"""Metrics of a join in each micro-batch: one JSON document per partition, carried by Spark's progress events.

A task emits its document in an extra row among its results. `observe` collects the documents of a micro-batch
into Spark's progress event, and a filter removes these rows from the results.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from windrow.estimation.recall import batch_recall
from windrow.model.keywords import checks_keywords
from windrow.model.metric_fields import losses, merged, recall_text
from windrow.model.metrics import BatchCounts, StreamCounts
from windrow.model.notebook import html_fields, html_text, short_repr
from windrow.model.query_metrics import BatchQueryMetrics
from windrow.model.units import format_bytes
from windrow.spark.spark_errors import check_started

COLUMN = "_windrow"
"""The column of the result that carries the documents."""
PREFIX = "windrow."
DOCUMENTS = "partitions"
PARTS = ("streams", "queries")
"""Fields of `PartitionMetrics` with metrics by name."""


def observation_name(join: str) -> str:
    """The name of a join's documents in `observedMetrics`."""
    return PREFIX + join


@dataclass(frozen=True, kw_only=True)
class PartitionStreamMetrics(StreamCounts):
    """Metrics of one stream in one partition and micro-batch. A row that is copied to several partitions
    counts once, in the first. In `rows_filtered`, `rows_expired`, `rows_evicted`, `rows_dropped`,
    `window_rows`, `memory_bytes` and `spilled_bytes` every copy counts, because each partition stores or
    loses its own."""

    max_event_time: int | None
    """Max event time so far, in microseconds since 1970."""

    __repr__ = short_repr
    _repr_html_ = html_fields

    def __str__(self) -> str:
        return f"{self.rows_in:,} rows in, {self.window_rows:,} in the window"


@dataclass(frozen=True, kw_only=True)
class PartitionMetrics(BatchCounts):
    """Metrics of one partition in one micro-batch."""

    batch: int | None
    """None in a batch query."""
    partition: int
    memory_limit: str | None
    """The partition's memory share."""
    memory_limit_size: int | None
    """The same as a number of bytes or rows."""
    deadline: str | None
    deadline_seconds: float | None
    """The partition's share of the deadline."""
    monitored_rows: int
    """Rows kept to estimate the recall."""
    importance: float | None
    fairness: float | None
    sampling_fraction: float | None
    control_errors: tuple[str, ...]
    """Reasons why control messages of this micro-batch were refused."""
    state_cache_hit: bool
    """Whether the worker had the windows in memory."""
    changes: tuple[str, ...] = ()
    """How a changed query altered the restored windows, in its first micro-batch."""
    complete_from: int | None = None
    """As in `OperatorMetrics`."""
    hot_key: str | None
    """The most frequent key in a sample of the arriving rows."""
    hot_key_share: float
    """Its share of its stream."""
    seconds_read_input: float
    seconds_load_state: float
    seconds_process: float
    seconds_commit_state: float
    streams: Mapping[str, PartitionStreamMetrics]
    queries: Mapping[str, BatchQueryMetrics] = field(default_factory=dict)
    """Metrics of the queries of a shared join."""
    learned_models: Mapping[str, Any] | None = None
    """`LearnedModels` as JSON, from some partitions in each micro-batch."""

    @property
    def seconds(self) -> float:
        """Total time of the partition."""
        return (
            self.seconds_read_input
            + self.seconds_load_state
            + self.seconds_process
            + self.seconds_commit_state
        )

    __repr__ = short_repr
    _repr_html_ = html_fields

    def __str__(self) -> str:
        return f"partition {self.partition}: {_counted(self, self.seconds)}"

    def to_json(self) -> str:
        nested = {name: {key: vars(value) for key, value in getattr(self, name).items()} for name in PARTS}
        return json.dumps(vars(self) | nested, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> PartitionMetrics:
        saved = json.loads(text)
        streams = {alias: PartitionStreamMetrics(**counts) for alias, counts in saved.pop("streams").items()}
        queries = {name: BatchQueryMetrics(**counts) for name, counts in saved.pop("queries").items()}
        texts = {name: tuple(saved[name]) for name in ("control_errors", "changes")}
        return cls(**saved | texts, streams=streams, queries=queries)


@dataclass(frozen=True, kw_only=True, repr=False)
class BatchMetrics(BatchCounts):
    """Metrics of one join in one micro-batch: over all partitions, and of each."""

    join: str
    batch: int
    seconds: float
    """Duration of the micro-batch, as Spark reports it."""
    partitions: tuple[PartitionMetrics, ...]

    @classmethod
    def of(
        cls, join: str, batch: int, seconds: float, partitions: Sequence[PartitionMetrics]
    ) -> BatchMetrics:
        rows = [p.rows_in + p.rows_copied for p in partitions]
        counts = merged(BatchCounts, [vars(p) for p in partitions], rows)
        return cls(join=join, batch=batch, seconds=seconds, partitions=tuple(partitions), **counts)

    @property
    def recall(self) -> tuple[float, float, float]:
        """(estimate, low, high) of this micro-batch, with a 95 % interval. 1 without losses, NaN if
        unknown."""
        return batch_recall(self, self.results, self.has_limits)

    @property
    def has_limits(self) -> bool:
        """Whether the join has a memory limit or a deadline."""
        return any(p.memory_limit or p.deadline for p in self.partitions)

    @property
    def queries(self) -> dict[str, BatchQueryMetrics]:
        """Metrics of the queries of a shared join, by name."""
        names = dict.fromkeys(name for p in self.partitions for name in p.queries)
        return {
            n: BatchQueryMetrics.together([p.queries[n] for p in self.partitions if n in p.queries])
            for n in names
        }

    @property
    def control_errors(self) -> tuple[str, ...]:
        """Reasons why control messages were refused, each once."""
        return tuple(dict.fromkeys(reason for p in self.partitions for reason in p.control_errors))

    @property
    def changes(self) -> tuple[str, ...]:
        """How a changed query altered the restored windows, each change once; in its first micro-batch."""
        return tuple(dict.fromkeys(change for p in self.partitions for change in p.changes))

    @property
    def complete_from(self) -> int | None:
        """Event time from which results are complete; as in `OperatorMetrics`."""
        return max((p.complete_from for p in self.partitions if p.complete_from is not None), default=None)

    @property
    def skew(self) -> float:
        """Rows of the largest partition over the mean; 1 is even."""
        rows = [p.rows_in + p.rows_copied for p in self.partitions]
        return max(rows) * len(rows) / sum(rows) if sum(rows) else 1.0

    @property
    def hottest_partition(self) -> PartitionMetrics | None:
        """The partition with the most frequent key."""
        return max(self.partitions, key=lambda p: p.hot_key_share * p.rows_in, default=None)

    _repr_html_ = html_text

    def __repr__(self) -> str:
        return f"<BatchMetrics {self}>"

    def __str__(self) -> str:
        return (
            f"{self.join} batch {self.batch}: {_counted(self, self.seconds)}; {len(self.partitions)} "
            f"partitions, skew {self.skew:.2f}"
            + (f"; throttle {self.throttle_fraction:.1%}" if any(p.deadline for p in self.partitions) else "")
            + (f"; {self.missed_deadlines} missed the deadline" if self.missed_deadlines else "")
            + (f"; recall {recall_text(self.recall, self.rows_late)}" if self.has_limits else "")
            + "".join(f"; {change}" for change in self.changes)
        )


def _counted(counts: BatchCounts, seconds: float) -> str:
    lost = losses(BatchCounts, counts)
    return (
        f"{counts.rows_in:,} rows in{lost and ', '}{lost}, {counts.results:,} results in {seconds:.2f} s; "
        f"windows hold {counts.window_rows:,} rows in {format_bytes(counts.memory_bytes)}"
    )


class MetricsList(list[BatchMetrics]):
    """Metrics of several micro-batches, oldest first; a table in a notebook and in pandas."""

    COLUMNS = (
        "batch", "join", "seconds", "rows_in", "rows_late", "results", "window_rows", "memory_bytes",
        "rows_evicted", "rows_dropped", "recall", "recall_low", "recall_high",
    )  # fmt: skip

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one line per micro-batch and join."""
        pandas = import_module("pandas")

        rows = [vars(m) | dict(zip(self.COLUMNS[-3:], m.recall, strict=True)) for m in self]
        return pandas.DataFrame([[row[name] for name in self.COLUMNS] for row in rows], columns=self.COLUMNS)

    def _repr_html_(self) -> str:
        return str(self.to_pandas().to_html(index=False))


@checks_keywords("wr.metrics")
def metrics(query: StreamingQuery, join: str | None = None) -> MetricsList:
    """Metrics of the joins of a running or ended query in its recent micro-batches, oldest first.

    Parameters
    ----------
    query
        As `writeStream.start()` returned it.
    join
        The `name` of one join; None for all joins.
    """
    check_started(query)
    return MetricsList(found for progress in query.recentProgress for found in read_progress(progress, join))


def read_progress(progress: Any, join: str | None = None) -> list[BatchMetrics]:
    """The joins' metrics in one of Spark's progress events."""
    found = []
    for name, row in progress.observedMetrics.items():
        if not name.startswith(PREFIX) or join not in (None, name.removeprefix(PREFIX)):
            continue
        # A task that ran twice reports twice, with the same counts.
        reports = {p.partition: p for p in map(PartitionMetrics.from_json, _documents(row))}
        if reports:
            partitions = [reports[p] for p in sorted(reports)]
            seconds = progress.batchDuration / 1000
            found.append(BatchMetrics.of(name.removeprefix(PREFIX), progress.batchId, seconds, partitions))
    return found


def _documents(row: Any) -> Sequence[str]:
    """The documents in an observed row. Spark Connect sends a row as a list of values, with its schema."""
    return (row["values"][0] if "values" in row else row[DOCUMENTS]) or ()
