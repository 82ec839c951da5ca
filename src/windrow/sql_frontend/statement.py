"""Statements as frozen values: what was asked, taken apart, each part checked as far as names go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windrow.errors import QueryError
from windrow.model.execution import Execution
from windrow.model.query import Query
from windrow.model.settings import optional, setting
from windrow.model.source import Source
from windrow.model.units import format_duration, parse_duration
from windrow.sql_frontend.source_text import ClauseSpans

AGGREGATES = ("count", "sum", "avg", "min", "max")


@dataclass(frozen=True)
class Aggregate:
    """A call such as sum(b.price)."""

    function: str
    value: str | None
    """SQL over the result; None counts results."""

    @property
    def sql(self) -> str:
        return f"{self.function}({self.value or '*'})"


def key_column(number: int) -> str:
    return f"_key{number}"


def aggregate_column(number: int) -> str:
    return f"_aggregate{number}"


@dataclass(frozen=True)
class SelectItem:
    """A column of the answer."""

    sql: str
    """Over the result: an expression; "*" or "a.*" for all columns, of all streams or of one."""
    name: str | None = None
    """Stated with AS; otherwise it follows from the expression."""
    shaped: str | None = None
    """Of groups: the same over the group's columns, which `Grouping` names."""
    natural: str | None = None
    """The name without AS: a column's own."""
    alias: str | None = None
    """The stream whose column it is."""

    def __str__(self) -> str:
        return f"{self.sql} AS {self.name}" if self.name else self.sql


def _confidence(value: object) -> float:
    if not isinstance(value, float) or not 0 < value < 1:
        raise QueryError(f"expected a number between 0 and 1, got {value!r}")
    return value


@dataclass(frozen=True)
class Grouping:
    """`GROUP BY` a window of the result's time, and further keys.

    A group is a row of window_start, window_end, a column for each key (`key_column`) and for each aggregate
    (`aggregate_column`); what is selected is made of these.
    """

    time: str
    window: int
    """Microseconds."""
    slide: int | None = None
    keys: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    having: str | None = None
    """Over the group's columns."""
    watermark: int | None = field(
        default=None,
        metadata=setting(
            optional(parse_duration),
            "How long a window of GROUP BY waits for results on a stream; None for `late` plus the longest "
            "window.",
        ),
    )
    confidence: float = field(
        default=0.95, metadata=setting(_confidence, "Of the intervals around aggregates of a sample.")
    )

    def __str__(self) -> str:
        every = f" every {format_duration(self.slide)}" if self.slide else ""
        shown = f"windows of {format_duration(self.window)}{every} of {self.time}"
        return ", ".join((shown, *self.keys))


@dataclass(frozen=True)
class Statement:
    """One SELECT: the join, and what is made of its results."""

    name: str
    query: Query
    sources: Mapping[str, str]
    """Alias to the name of the stream."""
    outputs: tuple[SelectItem, ...]
    conditions: tuple[str, ...] = ()
    """Between streams."""
    filters: tuple[str, ...] = ()
    """On one stream each, or on none."""
    where: tuple[str, ...] = ()
    """On results, where rows may be missing from them."""
    grouping: Grouping | None = None
    explain: bool = False
    execution: Execution = field(default_factory=Execution)
    """Without the name, which is the statement's."""
    places: ClauseSpans | None = field(default=None, compare=False, repr=False)

    @property
    def sampled(self) -> bool:
        return self.query.memory_limit is not None and self.query.memory_policy.samples

    def __str__(self) -> str:
        windows = ", ".join(
            f"{self.sources[alias]} {alias} [{stream.window}]" for alias, stream in self.query.streams.items()
        )
        shown = {
            "select": ", ".join(map(str, self.outputs)),
            "from": windows,
            "join": " AND ".join(self.conditions),
            "filter": " AND ".join(self.filters),
            "how": _told_kind(self.query),
            "where": " AND ".join(self.where),
            "group": str(self.grouping or ""),
            "memory": f"{self.query.memory_limit} by {self.query.memory_policy}"
            if self.query.memory_limit
            else "",
            "deadline": f"{self.query.deadline} by {self.query.time_policy}" if self.query.deadline else "",
        }
        lines = [f"  {key:<9}{value}" for key, value in shown.items() if value]
        return "\n".join([f"{'explain ' if self.explain else ''}{self.name}", *lines])


def _told_kind(query: Query) -> str:
    if not query.kind.shapes:
        return ""
    shown = query.how if isinstance(query.how, str) else ", ".join(f"{a} {r}" for a, r in query.how.items())
    matches = ", ".join(f"{alias} {match} in time" for alias, match in (query.match or {}).items())
    return "; ".join(filter(None, (shown, matches)))


@dataclass(frozen=True)
class Script:
    """All statements of a text."""

    sources: Mapping[str, Source]
    statements: tuple[Statement, ...]

    def __str__(self) -> str:
        return "\n".join([*(f"stream {s}" for s in self.sources.values()), *map(str, self.statements)])
