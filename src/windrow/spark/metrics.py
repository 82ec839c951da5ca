"""What a join did in each batch: a row per partition on Spark's side channel, and reading them back.

A task sends one JSON document beside its results; `observe` collects the documents of a batch into Spark's
own progress event, and they are dropped from the results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from windrow.shed.recall import batch_recall

COLUMN = "_windrow"
"""The helper column that carries the documents."""
PREFIX = "windrow."
DOCUMENTS = "partitions"


def observation_name(join: str) -> str:
    """Under this name the documents of a join stand in `observedMetrics`."""
    return PREFIX + join


def beats_name(join: str) -> str:
    """Under this name stands nothing of interest: see `Prepared._beats`."""
    return f"beats of {PREFIX}{join}"


@dataclass(frozen=True)
class StreamMetrics:
    """Of one stream, in one partition and batch. A row that went to several partitions counts once, in the
    first; except in `rows_filtered`, `rows_shed`, `rows_dropped` and `window_rows`, where each of its copies
    counts: each partition keeps or gives up its own."""

    rows_in: int
    rows_copied: int
    """Copies beyond the first, in this partition."""
    rows_late: int
    rows_ahead: int
    rows_null_time: int
    rows_filtered: int
    rows_shed: int
    rows_dropped: int
    window_rows: int
    memory_bytes: int
    newest: int | None
    """Newest event time seen so far, in microseconds since 1970."""


@dataclass(frozen=True)
class QueryMetrics:
    """Of one of the queries that share a join, in one partition and batch, or over all partitions.

    Response times are from the start of the batch that brought a result's newest row to the end of the one
    that handed the result on, in seconds; None without results.
    """

    results: int
    response_mean: float | None
    response_p99: float | None
    """To within a fifth; of several partitions, of the slowest."""
    response_max: float | None
    backlog: int
    """Rows carried over, whose results are not finished."""
    complete_from: int | None
    """Event time from which answers are complete, in microseconds; None: from the query's start."""

    @classmethod
    def together(cls, told: Sequence[QueryMetrics]) -> QueryMetrics:
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
            sum(t.backlog for t in told),
            largest(t.complete_from for t in told),
        )


@dataclass(frozen=True)
class PartitionMetrics:
    """Of one partition in one batch."""

    batch: int | None
    """None where the frames were no streams."""
    partition: int
    rows_in: int
    rows_copied: int
    rows_late: int
    rows_ahead: int
    """Rows set aside because their time was too far ahead of the clock."""
    rows_null_time: int
    rows_filtered: int
    rows_shed: int
    """Rows that went before they expired, for lack of memory."""
    rows_dropped: int
    """Rows that were never let in, for lack of time."""
    results: int
    window_rows: int
    memory_bytes: int
    memory_limit: str | None
    """The partition's share of the join's limit."""
    deadline: str | None
    throttle: float
    """The part of the full work that there was time for; 1 without a deadline."""
    overran: bool
    """Whether the partition took more than a fifth longer than its part of the deadline."""
    results_found: float
    """Results of this batch that the estimate of the recall knows of, the true number it comes to, and the
    variance of that."""
    results_true: float
    results_variance: float
    watched_rows: int
    """Rows kept to know the recall: what the estimate costs."""
    importance: float | None
    fairness: float | None
    sampling: float | None
    rejected: tuple[str, ...]
    """Why control documents of this batch were not followed."""
    comparisons: int
    from_memory: bool
    """Whether the worker still had the windows from the batch before."""
    hot_key: str | None
    """The most frequent key among a sample of the rows that came in, and its share of its stream."""
    hot_share: float
    seconds_input: float
    seconds_load: float
    seconds_process: float
    seconds_publish: float
    streams: Mapping[str, StreamMetrics]
    queries: Mapping[str, QueryMetrics] = field(default_factory=dict)
    """Of queries that share the join."""
    rows_waiting: int = 0
    """Rows held back: until their place in the order is certain, or until there is time for them."""
    memory_room: int | None = None
    """`memory_limit` as a number of bytes or rows."""
    seconds_allowed: float | None = None
    """The partition's part of the deadline."""
    learned: Mapping[str, Any] | None = None
    """What it knows of the streams (`Knowledge` as JSON); in each batch some of the partitions tell it."""
    importance_missing: int = 0
    """Rows without an importance, taken for unimportant."""
    results_unit: float = 0.0
    """What one row more would stand for, had it been seen among those that tell what is missed."""

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> PartitionMetrics:
        saved = json.loads(text)
        streams = {alias: StreamMetrics(**counts) for alias, counts in saved.pop("streams").items()}
        queries = {name: QueryMetrics(**told) for name, told in saved.pop("queries").items()}
        return cls(**saved | {"rejected": tuple(saved["rejected"])}, streams=streams, queries=queries)


@dataclass(frozen=True)
class BatchMetrics:
    """Of one join in one batch: totals, and per partition."""

    join: str
    batch: int
    seconds: float
    """The whole batch, as Spark tells it."""
    partitions: tuple[PartitionMetrics, ...]

    def total(self, name: str) -> Any:
        """The sum of a counter over the partitions."""
        return sum(getattr(p, name) for p in self.partitions)

    @property
    def rows_in(self) -> int:
        return int(self.total("rows_in"))

    @property
    def rows_late(self) -> int:
        return int(self.total("rows_late"))

    @property
    def rows_ahead(self) -> int:
        return int(self.total("rows_ahead"))

    @property
    def rows_null_time(self) -> int:
        return int(self.total("rows_null_time"))

    @property
    def results(self) -> int:
        return int(self.total("results"))

    @property
    def window_rows(self) -> int:
        return int(self.total("window_rows"))

    @property
    def memory_bytes(self) -> int:
        return int(self.total("memory_bytes"))

    @property
    def rows_shed(self) -> int:
        return int(self.total("rows_shed"))

    @property
    def rows_dropped(self) -> int:
        return int(self.total("rows_dropped"))

    @property
    def rows_waiting(self) -> int:
        return int(self.total("rows_waiting"))

    @property
    def throttle(self) -> float:
        """The part of the full work that there was time for: the mean over partitions, by their rows."""
        rows = [p.rows_in + p.rows_copied for p in self.partitions]
        total = sum(rows)
        return (
            sum(p.throttle * n for p, n in zip(self.partitions, rows, strict=True)) / total if total else 1.0
        )

    @property
    def recall(self) -> tuple[float, float, float]:
        """Of this batch: estimate and 95 % interval; 1 where nothing was lost, NaN where nothing tells."""
        found, true, variance = (self.total(f"results_{name}") for name in ("found", "true", "variance"))
        unit = max((p.results_unit for p in self.partitions), default=0.0)
        return batch_recall(found, true, variance, self.results, self.limited, unit)

    @property
    def limited(self) -> bool:
        """Whether memory or time have a limit."""
        return any(p.memory_limit or p.deadline for p in self.partitions)

    @property
    def queries(self) -> dict[str, QueryMetrics]:
        """Of queries that share the join, by name."""
        names = dict.fromkeys(name for p in self.partitions for name in p.queries)
        return {
            n: QueryMetrics.together([p.queries[n] for p in self.partitions if n in p.queries]) for n in names
        }

    @property
    def rejected(self) -> tuple[str, ...]:
        """Why control documents were not followed, each reason once."""
        return tuple(dict.fromkeys(reason for p in self.partitions for reason in p.rejected))

    @property
    def importance_missing(self) -> int:
        return int(self.total("importance_missing"))

    @property
    def comparisons(self) -> int:
        return int(self.total("comparisons"))

    @property
    def skew(self) -> float:
        """Rows of the fullest partition over the mean; 1 is even. Partitions without rows do not report."""
        rows = [p.rows_in + p.rows_copied for p in self.partitions]
        return max(rows) * len(rows) / sum(rows) if sum(rows) else 1.0

    @property
    def hottest(self) -> PartitionMetrics | None:
        """The partition with the most frequent key."""
        return max(self.partitions, key=lambda p: p.hot_share * p.rows_in, default=None)

    def __str__(self) -> str:
        lost = {
            "late": self.rows_late,
            "too far ahead": self.rows_ahead,
            "without time": self.rows_null_time,
            "shed": self.rows_shed,
            "dropped": self.rows_dropped,
        }
        told = "".join(f", {count:,} {name}" for name, count in lost.items() if count)
        return (
            f"{self.join} batch {self.batch}: {self.rows_in:,} rows in{told}, {self.results:,} results in "
            f"{self.seconds:.2f} s; windows hold {self.window_rows:,} rows in "
            f"{self.memory_bytes / 2**20:.1f} MiB; {len(self.partitions)} partitions, skew {self.skew:.2f}"
            + (f"; time for {self.throttle:.1%}" if any(p.deadline for p in self.partitions) else "")
            + (f"; {late} past the deadline" if (late := sum(p.overran for p in self.partitions)) else "")
            + ("; recall {:.3f} [{:.3f}, {:.3f}]".format(*self.recall) if self.limited else "")
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
            partitions = tuple(told[p] for p in sorted(told))
            found.append(
                BatchMetrics(
                    name.removeprefix(PREFIX), progress.batchId, progress.batchDuration / 1000, partitions
                )
            )
    return found
