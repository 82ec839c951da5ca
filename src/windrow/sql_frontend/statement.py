"""Statements as frozen values, with all names resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windrow.model.execution import Execution
from windrow.model.limits import memory_text
from windrow.model.query import Query
from windrow.model.result_groups import ResultGroups
from windrow.model.settings import number, setting
from windrow.model.sharing import SharingSettings
from windrow.model.source import Source
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
    """An item of the select list."""

    sql: str
    """An expression over the result; "*" or "a.*" for all columns of all streams or of one."""
    name: str | None = None
    """The name given with AS."""
    shaped: str | None = None
    """With GROUP BY: the expression over the group's columns, which `Grouping` names."""
    natural: str | None = None
    """The name if there is no AS: that of the column."""
    alias: str | None = None
    """The stream of the column."""

    def __str__(self) -> str:
        return f"{self.sql} AS {self.name}" if self.name else self.sql


@dataclass(frozen=True)
class Grouping:
    """`GROUP BY`, and the aggregates of its groups.

    A group is one row: window_start, window_end, a column per key (`key_column`) and a column per aggregate
    (`aggregate_column`). SELECT and HAVING are expressions over these columns.
    """

    groups: ResultGroups
    aggregates: tuple[Aggregate, ...] = ()
    having: str | None = None
    """Over the group's columns."""
    confidence: float = setting(
        number("between 0 and 1", lambda n: 0 < n < 1),
        "Confidence level of the intervals of a sample's aggregates.",
        default=0.95,
    )


@dataclass(frozen=True)
class Statement:
    """One SELECT: the join, and the columns or groups of its results."""

    name: str
    query: Query
    sources: Mapping[str, str]
    """Alias to the name of the stream."""
    outputs: tuple[SelectItem, ...]
    conditions: tuple[str, ...] = ()
    """Conditions between streams."""
    filters: tuple[str, ...] = ()
    """Conditions on one stream, or on none."""
    where: tuple[str, ...] = ()
    """Conditions on the results of outer joins, in which rows may be missing."""
    grouping: Grouping | None = None
    explain: bool = False
    execution: Execution = field(default_factory=Execution)
    """Without the name, which is the statement's."""
    sharing: SharingSettings | None = None
    """Of the join that statements with the same settings share, if its deadline defers rows."""
    places: ClauseSpans | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        streams = self.query.streams.items()
        shown = {
            "select": ", ".join(map(str, self.outputs)),
            "from": ", ".join(f"{self.sources[alias]} {alias} [{s.window}]" for alias, s in streams),
            "join": " AND ".join(self.conditions),
            "filter": " AND ".join(self.filters),
            "how": _kind(self.query),
            "where": " AND ".join(self.where),
            "group": str(self.grouping.groups) if self.grouping else "",
            "memory": _memory(self.query),
            "deadline": _deadline(self.query, self.sharing),
        }
        lines = [f"  {key:<9}{value}" for key, value in shown.items() if value]
        return "\n".join([f"{'explain ' if self.explain else ''}{self.name}", *lines])


def _deadline(query: Query, sharing: SharingSettings | None) -> str:
    if sharing is not None:
        return f"{sharing.deadline}, the rest deferred by {sharing.schedule}"
    return f"{query.deadline} by {query.time_policy}" if query.deadline else ""


def _memory(query: Query) -> str:
    shown = memory_text(query.memory_limit, query.disk_limit) or ""
    return f"{shown} by {query.memory_policy}" if query.shed_limit else shown


def _kind(query: Query) -> str:
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
