"""What a join did in each batch: a row per partition on Spark's side channel, and reading them back.

A task sends one JSON document beside its results; `observe` collects the documents of a batch into Spark's
own progress event, and they are dropped from the results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from windrow.errors import Option, QueryError
from windrow.estimation.recall import batch_recall
from windrow.model.metric_fields import losses, merged
from windrow.model.metrics import BatchCounts, StreamCounts
from windrow.model.notebook import html_text

COLUMN = "_windrow"
"""The helper column that carries the documents."""
PREFIX = "windrow."
DOCUMENTS = "partitions"
PARTS = ("streams", "queries")
"""What a partition tells of each by its name."""


def observation_name(join: str) -> str:
    """Under this name the documents of a join stand in `observedMetrics`."""
    return PREFIX + join


def beats_name(join: str) -> str:
    """Under this name stands nothing of interest: see `PreparedJoin._beats`."""
    return f"beats of {PREFIX}{join}"


@dataclass(frozen=True, kw_only=True)
class PartitionStreamMetrics(StreamCounts):
    """Of one stream, in one partition and batch. A row that went to several partitions counts once, in the
    first; except in `rows_filtered`, `rows_expired`, `rows_evicted`, `rows_dropped` and `window_rows`, where
    each of its copies counts: each partition keeps or loses its own."""

    max_event_time: int | None
    """Newest event time seen so far, in microseconds since 1970."""


@dataclass(frozen=True)
class PartitionQueryMetrics:
    """Of one of the queries that share a join, in one partition and batch, or over all partitions.

    Response times are from the start of the batch that brought a result's newest row to the end of the one
    that handed the result on, in seconds; None without results.
    """

    results: int
    response_mean: float | None
    response_p99: float | None
    """To within a fifth; of several partitions, of the slowest."""
    response_max: float | None
    backlog_rows: int
    """Rows carried over, whose results are not finished."""
    complete_from: int | None
    """Event time from which answers are complete, in microseconds; None: from the query's start."""

    @classmethod
    def together(cls, told: Sequence[PartitionQueryMetrics]) -> PartitionQueryMetrics:
        """Over several partitions."""
        results = sum(t.results for t in told)
        means = [(t.response_mean, t.results) for t in told if t.response_mean is not None]

        def largest(values: Iterable[Any]) -> Any:
            return max((v for v in values if v is not None), default=None)

        return cls(
            results,
            sum(mean * n for mean, n in means) / results if results else None,
            largest(t.response_p99 for t in told),
            largest(t.response_max for t in told),
            sum(t.backlog_rows for t in told),
            largest(t.complete_from for t in told),
        )


@dataclass(frozen=True, kw_only=True)
class PartitionMetrics(BatchCounts):
    """Of one partition in one batch."""

    batch: int | None
    """None where the frames were no streams."""
    partition: int
    memory_limit: str | None
    """The partition's share of the join's limit, and the same as a number of bytes or rows."""
    memory_limit_size: int | None
    deadline: str | None
    deadline_seconds: float | None
    """The partition's share of the deadline."""
    monitored_rows: int
    """Rows kept to know the recall: what the estimate costs."""
    importance: float | None
    fairness: float | None
    sampling_fraction: float | None
    control_errors: tuple[str, ...]
    """Why control documents of this batch were not followed."""
    state_cache_hit: bool
    """Whether the worker still had the windows from the batch before."""
    hot_key: str | None
    """The most frequent key among a sample of the rows that came in, and its share of its stream."""
    hot_key_share: float
    seconds_read_input: float
    seconds_load_state: float
    seconds_process: float
    seconds_commit_state: float
    streams: Mapping[str, PartitionStreamMetrics]
    queries: Mapping[str, PartitionQueryMetrics] = field(default_factory=dict)
    """Of queries that share the join."""
    learned_models: Mapping[str, Any] | None = None
    """What it knows of the streams (`LearnedModels` as JSON); some partitions tell it in each batch."""

    @property
    def seconds(self) -> float:
        """What the partition took."""
        return (
            self.seconds_read_input
            + self.seconds_load_state
            + self.seconds_process
            + self.seconds_commit_state
        )

    def to_json(self) -> str:
        within = {name: {key: vars(told) for key, told in getattr(self, name).items()} for name in PARTS}
        return json.dumps(vars(self) | within, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> PartitionMetrics:
        saved = json.loads(text)
        streams = {alias: PartitionStreamMetrics(**counts) for alias, counts in saved.pop("streams").items()}
        queries = {name: PartitionQueryMetrics(**told) for name, told in saved.pop("queries").items()}
        errors = {"control_errors": tuple(saved["control_errors"])}
        return cls(**saved | errors, streams=streams, queries=queries)


@dataclass(frozen=True, kw_only=True)
class BatchMetrics(BatchCounts):
    """Of one join in one batch: over all partitions, and of each."""

    join: str
    batch: int
    seconds: float
    """The whole batch, as Spark tells it."""
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
        """Of this batch: estimate and 95 % interval; 1 where nothing was lost, NaN where nothing tells."""
        return batch_recall(self, self.results, self.has_limits)

    @property
    def has_limits(self) -> bool:
        """Whether memory or time have a limit."""
        return any(p.memory_limit or p.deadline for p in self.partitions)

    @property
    def queries(self) -> dict[str, PartitionQueryMetrics]:
        """Of queries that share the join, by name."""
        names = dict.fromkeys(name for p in self.partitions for name in p.queries)
        return {
            n: PartitionQueryMetrics.together([p.queries[n] for p in self.partitions if n in p.queries])
            for n in names
        }

    @property
    def control_errors(self) -> tuple[str, ...]:
        """Why control documents were not followed, each reason once."""
        return tuple(dict.fromkeys(reason for p in self.partitions for reason in p.control_errors))

    @property
    def skew(self) -> float:
        """Rows of the fullest partition over the mean; 1 is even. Partitions without rows do not report."""
        rows = [p.rows_in + p.rows_copied for p in self.partitions]
        return max(rows) * len(rows) / sum(rows) if sum(rows) else 1.0

    @property
    def hottest_partition(self) -> PartitionMetrics | None:
        """The partition with the most frequent key."""
        return max(self.partitions, key=lambda p: p.hot_key_share * p.rows_in, default=None)

    _repr_html_ = html_text

    def __str__(self) -> str:
        lost = losses(BatchCounts, self)
        return (
            f"{self.join} batch {self.batch}: {self.rows_in:,} rows in{lost and ', '}{lost}, "
            f"{self.results:,} results in {self.seconds:.2f} s; windows hold {self.window_rows:,} rows in "
            f"{self.memory_bytes / 2**20:.1f} MiB; {len(self.partitions)} partitions, skew {self.skew:.2f}"
            + (f"; throttle {self.throttle_fraction:.1%}" if any(p.deadline for p in self.partitions) else "")
            + (f"; {self.missed_deadlines} missed the deadline" if self.missed_deadlines else "")
            + ("; recall {:.3f} [{:.3f}, {:.3f}]".format(*self.recall) if self.has_limits else "")
        )


def metrics(query: StreamingQuery, join: str | None = None) -> list[BatchMetrics]:
    """What the joins of a running or ended query did in its recent batches, oldest first.

    Parameters
    ----------
    query
        As `writeStream.start()` returned it.
    join
        The `name` of one join; None for all.
    """
    if not hasattr(query, "recentProgress"):
        raise QueryError(
            f"expected a query as writeStream.start() returns it, got {type(query).__name__}", Option("query")
        )
    return [found for progress in query.recentProgress for found in read_progress(progress, join)]


def read_progress(progress: Any, join: str | None = None) -> list[BatchMetrics]:
    """The joins' metrics in one of Spark's progress events."""
    found = []
    for name, row in progress.observedMetrics.items():
        if not name.startswith(PREFIX) or join not in (None, name.removeprefix(PREFIX)):
            continue
        # A task that ran twice reports twice; both report the same counts.
        told = {p.partition: p for p in map(PartitionMetrics.from_json, row[DOCUMENTS] or ())}
        if told:
            partitions = [told[p] for p in sorted(told)]
            seconds = progress.batchDuration / 1000
            found.append(BatchMetrics.of(name.removeprefix(PREFIX), progress.batchId, seconds, partitions))
    return found
