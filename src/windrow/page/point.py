"""What a join did in one batch, as the page draws it; several neighbouring batches can be taken as one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from windrow.shed.recall import batch_recall

PER_PARTITION = ("seconds_input", "seconds_load", "seconds_process", "seconds_publish")


@dataclass(frozen=True)
class QueryPoint:
    """Of one of the queries that share the join. Response times in seconds; None without results."""

    results: int
    mean: float | None
    p99: float | None
    backlog: int

    def and_then(self, later: QueryPoint) -> QueryPoint:
        results = self.results + later.results
        means = [(q.mean, q.results) for q in (self, later) if q.mean is not None]
        mean = sum(m * n for m, n in means) / max(1, sum(n for _, n in means)) if means else None
        return QueryPoint(results, mean, _most(self.p99, later.p99), later.backlog)


@dataclass(frozen=True)
class Point:
    """
    Parameters
    ----------
    at
        When it ended, in milliseconds since 1970.
    span
        Seconds since the batch before it began: what rates are counted over.
    seconds, busy, allowed
        What Spark took, what the slowest partition took, and what that may take.
    rows
        By stream.
    shed, dropped, copied
        Copies count each: of a row that went to several partitions, each may shed or drop its own. `copied`
        are those beyond the first.
    memory, room
        What windows hold of the limit and the limit itself, in bytes or rows.
    found, true, variance, unit
        Of the recall: results known, their true number, its variance, what one row more would stand for.
    """

    batch: int
    at: float
    span: float
    seconds: float
    busy: float
    allowed: float | None
    rows: Mapping[str, int]
    results: int
    late: int
    ahead: int
    untimed: int
    shed: int
    dropped: int
    results_late: int
    waiting: int
    behind: float | None
    window_rows: int
    memory: float
    room: float | None
    throttle: float | None
    limited: bool
    found: float
    true: float
    variance: float
    skew: float
    queries: Mapping[str, QueryPoint]
    batches: int = 1
    unit: float = 0.0
    copied: int = 0

    @classmethod
    def read(
        cls, told: Mapping[str, Any], join: Mapping[str, Any], at: float, span: float, held: Held
    ) -> Point:
        """From a batch's document (`Progress.to_dict`) and the part of one join in it."""
        parts = join["partitions"]
        limited = any(p["memory_limit"] or p["deadline"] for p in parts)
        slowest = max(parts, key=_busy)
        rows: dict[str, int] = {}
        for part in parts:
            for alias, stream in part["streams"].items():
                rows[alias] = rows.get(alias, 0) + stream["rows_in"]
        return cls(
            batch=told["batch"],
            at=at,
            span=span,
            seconds=told["seconds"],
            busy=_busy(slowest),
            allowed=slowest.get("seconds_allowed"),
            rows=rows,
            results=join["results"],
            late=join["rows_late"],
            ahead=join["rows_ahead"],
            untimed=join["rows_null_time"],
            shed=join["rows_shed"],
            dropped=join["rows_dropped"],
            results_late=told["results_late"],
            waiting=held.waiting,
            behind=told.get("behind"),
            window_rows=held.window_rows,
            memory=held.memory,
            room=held.room,
            throttle=join["throttle"] if any(p["deadline"] for p in parts) else None,
            limited=limited,
            **{name: sum(p[f"results_{name}"] for p in parts) for name in ("found", "true", "variance")},
            unit=max((p.get("results_unit", 0.0) for p in parts), default=0.0),
            skew=join["skew"],
            queries=_queries(parts),
            copied=sum(p["rows_copied"] for p in parts),
        )

    @property
    def left_out(self) -> int:
        """Rows that were left out, for whatever reason. Of a row in several partitions each copy that was
        shed or dropped is that part of it, so these are never more rows than came."""
        rows = sum(self.rows.values())
        copies = 1 + self.copied / rows if rows else 1.0
        return self.late + self.ahead + self.untimed + round((self.shed + self.dropped) / copies)

    @property
    def recall(self) -> tuple[float, float, float] | None:
        """Estimate and interval; None where nothing tells."""
        told = batch_recall(self.found, self.true, self.variance, self.results, self.limited, self.unit)
        return None if math.isnan(told[0]) else told

    def and_then(self, later: Point) -> Point:
        """Both as one."""
        before, after = sum(self.rows.values()), sum(later.rows.values())
        throttle = later.throttle
        if self.throttle is not None and later.throttle is not None and before + after > 0:
            throttle = (self.throttle * before + later.throttle * after) / (before + after)
        summed = (
            "span", "results", "late", "ahead", "untimed", "shed", "dropped", "results_late", "found", "true",
            "variance", "batches", "copied",
        )  # fmt: skip
        largest = ("seconds", "busy", "window_rows", "memory", "skew", "limited", "unit")
        return replace(
            later,
            **{name: getattr(self, name) + getattr(later, name) for name in summed},
            **{name: max(getattr(self, name), getattr(later, name)) for name in largest},
            allowed=self.allowed if self.busy > later.busy else later.allowed,
            rows=_merged(self.rows, later.rows, lambda a, b: a + b),
            throttle=throttle,
            queries=_merged(self.queries, later.queries, QueryPoint.and_then),
        )

    @cached_property
    def plain(self) -> dict[str, Any]:
        """As the page takes it."""
        hidden = ("found", "true", "variance", "unit", "at", "rows", "queries")
        told = {f.name: short(getattr(self, f.name)) for f in fields(self) if f.name not in hidden}
        recall = self.recall if self.limited else None
        return told | {
            "at": round(self.at),
            "rows": dict(self.rows),
            "in": {alias: short(n / max(self.span, 1e-3)) for alias, n in self.rows.items()},
            "left_out": self.left_out,
            "out": short(self.results / max(self.span, 1e-3)),
            "recall": None if recall is None else [short(r) for r in recall],
            "queries": {
                name: [q.results, short(q.mean), short(q.p99), q.backlog] for name, q in self.queries.items()
            },
        }


@dataclass(frozen=True)
class Held:
    """What the windows of all partitions hold, as each was last heard of."""

    window_rows: int
    memory: float
    room: float | None
    waiting: int

    @classmethod
    def of(cls, parts: Sequence[Mapping[str, Any]]) -> Held:
        rooms: list[Any] = [p.get("memory_room") for p in parts]
        in_rows = any((p["memory_limit"] or "").endswith("rows") for p in parts)
        return cls(
            sum(p["window_rows"] for p in parts),
            sum(p["window_rows" if in_rows else "memory_bytes"] for p in parts),
            sum(rooms) if rooms and None not in rooms else None,
            sum(p.get("rows_waiting", 0) for p in parts),
        )


def _busy(part: Mapping[str, Any]) -> float:
    return float(sum(part[name] for name in PER_PARTITION))


def _queries(parts: Sequence[Mapping[str, Any]]) -> dict[str, QueryPoint]:
    """Over partitions: all results, the mean over them, the worst partition's tail."""
    found: dict[str, QueryPoint] = {}
    for part in parts:
        for name, q in part["queries"].items():
            one = QueryPoint(q["results"], q["response_mean"], q["response_p99"], q["backlog"])
            before = found.get(name)
            found[name] = (
                one if before is None else replace(before.and_then(one), backlog=before.backlog + one.backlog)
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
