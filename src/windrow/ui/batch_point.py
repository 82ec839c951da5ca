"""What a join did in one batch, as the page draws it; several neighbouring batches can be taken as one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from windrow.estimation.recall import batch_recall
from windrow.model.metric_fields import in_turn, lost_rows, metrics_of
from windrow.model.metrics import BatchCounts, ResultCounts, StreamCounts

PER_PARTITION = ("read_input", "load_state", "process", "commit_state")


@dataclass(frozen=True)
class QueryPoint:
    """Of one of the queries that share the join. Response times in seconds; None without results."""

    results: int
    mean: float | None
    p99: float | None
    backlog_rows: int

    def and_then(self, later: QueryPoint) -> QueryPoint:
        results = self.results + later.results
        means = [(q.mean, q.results) for q in (self, later) if q.mean is not None]
        mean = sum(m * n for m, n in means) / max(1, sum(n for _, n in means)) if means else None
        return QueryPoint(results, mean, _most(self.p99, later.p99), later.backlog_rows)


@dataclass(frozen=True, kw_only=True)
class BatchPoint(BatchCounts):
    """
    Parameters
    ----------
    at
        When it ended, in milliseconds since 1970.
    span
        Seconds since the batch before it began: what rates are counted over.
    seconds, slowest_partition_seconds, deadline_seconds
        What Spark took, what the slowest partition took, and what that may take.
    memory_size, memory_limit_size
        What windows hold of the limit and the limit itself, in bytes or rows.
    """

    batch: int
    at: float
    span: float
    seconds: float
    slowest_partition_seconds: float
    deadline_seconds: float | None
    results_late: int
    behind: float | None
    memory_size: float
    memory_limit_size: float | None
    has_limits: bool
    skew: float
    streams: Mapping[str, StreamCounts]
    queries: Mapping[str, QueryPoint]
    batches: int = 1

    @classmethod
    def read(
        cls,
        shown: Mapping[str, Any],
        join: Mapping[str, Any],
        at: float,
        span: float,
        known: Sequence[Mapping[str, Any]],
    ) -> BatchPoint:
        """From a batch's document (`BatchProgress.to_dict`), the part of one join in it, and all partitions
        of the join as each was last heard of."""
        parts = join["partitions"]
        slowest = max(parts, key=partition_seconds)
        aliases = dict.fromkeys(alias for part in known for alias in part["streams"])
        limits = [part["memory_limit_size"] for part in known]
        counts = _counts(BatchCounts, [join], known)
        return cls(
            **counts,
            batch=shown["batch"],
            at=at,
            span=span,
            seconds=shown["seconds"],
            slowest_partition_seconds=partition_seconds(slowest),
            deadline_seconds=slowest["deadline_seconds"],
            results_late=shown["results_late"],
            behind=shown["behind"],
            memory_size=counts["window_rows" if limit_in_rows(known) else "memory_bytes"],
            memory_limit_size=sum(limits) if limits and None not in limits else None,
            has_limits=any(part["memory_limit"] or part["deadline"] for part in parts),
            skew=join["skew"],
            streams={
                alias: StreamCounts(
                    **_counts(
                        StreamCounts,
                        [part["streams"][alias] for part in parts],
                        [part["streams"][alias] for part in known],
                    )
                )
                for alias in aliases
            },
            queries=_queries(parts),
        )

    @property
    def lost(self) -> dict[str, int]:
        """Rows lost, by cause."""
        return lost_rows(BatchCounts, self)

    @property
    def recall(self) -> tuple[float, float, float] | None:
        """Estimate and interval; None where nothing tells."""
        shown = batch_recall(self, self.results, self.has_limits)
        return None if math.isnan(shown[0]) else shown

    def and_then(self, later: BatchPoint) -> BatchPoint:
        """Both as one."""
        rows = [self.rows_in, later.rows_in]
        summed = ("span", "results_late", "batches")
        largest = ("seconds", "slowest_partition_seconds", "memory_size", "skew", "has_limits")
        slower = self if self.slowest_partition_seconds > later.slowest_partition_seconds else later
        return replace(
            later,
            **in_turn(BatchCounts, self, later, rows),
            **{name: getattr(self, name) + getattr(later, name) for name in summed},
            **{name: max(getattr(self, name), getattr(later, name)) for name in largest},
            deadline_seconds=slower.deadline_seconds,
            streams=_merged(
                self.streams, later.streams, lambda a, b: StreamCounts(**in_turn(StreamCounts, a, b, rows))
            ),
            queries=_merged(self.queries, later.queries, QueryPoint.and_then),
        )

    @cached_property
    def plain(self) -> dict[str, Any]:
        """As the page takes it."""
        hidden = ("at", "streams", "queries", *(m.name for m in metrics_of(ResultCounts)))
        shown = {f.name: short(getattr(self, f.name)) for f in fields(self) if f.name not in hidden}
        recall = self.recall if self.has_limits else None
        return shown | {
            "at": round(self.at),
            "rows": {alias: stream.rows_in for alias, stream in self.streams.items()},
            "in": {alias: short(s.rows_in / max(self.span, 1e-3)) for alias, s in self.streams.items()},
            "lost": self.lost,
            "out": short(self.results / max(self.span, 1e-3)),
            "recall": None if recall is None else [short(r) for r in recall],
            "queries": {
                name: [q.results, short(q.mean), short(q.p99), q.backlog_rows]
                for name, q in self.queries.items()
            },
        }


def limit_in_rows(parts: Iterable[Mapping[str, Any]]) -> bool:
    return any((part["memory_limit"] or "").endswith("rows") for part in parts)


def partition_seconds(part: Mapping[str, Any]) -> float:
    """What a partition took in its last batch."""
    return float(sum(part[f"seconds_{name}"] for name in PER_PARTITION))


def _counts(
    record: type, batch: Sequence[Mapping[str, Any]], known: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What happened in a batch, and what all partitions hold, as each was last heard of."""
    return {
        m.name: m.merge([part[m.name] for part in (known if m.held else batch)], [1.0] * len(batch))
        for m in metrics_of(record)
    }


def _queries(parts: Sequence[Mapping[str, Any]]) -> dict[str, QueryPoint]:
    """Over partitions: all results, the mean over them, the worst partition's tail."""
    found: dict[str, QueryPoint] = {}
    for part in parts:
        for name, q in part["queries"].items():
            one = QueryPoint(q["results"], q["response_mean"], q["response_p99"], q["backlog_rows"])
            before = found.get(name)
            found[name] = (
                one
                if before is None
                else replace(before.and_then(one), backlog_rows=before.backlog_rows + one.backlog_rows)
            )
    return found


def short(value: Any) -> Any:
    """Few digits: it is for a picture. What is no number JSON does not know."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.5g}") if math.isfinite(value) else None


def _most(one: float | None, other: float | None) -> float | None:
    return max((v for v in (one, other) if v is not None), default=None)


def _merged(one: Mapping[str, Any], other: Mapping[str, Any], both: Callable[[Any, Any], Any]) -> dict:
    return {
        key: both(one[key], other[key]) if key in one and key in other else one.get(key, other.get(key))
        for key in (*one, *(k for k in other if k not in one))
    }
