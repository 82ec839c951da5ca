"""Queries as they share a join, and the settings of such a join."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any

from windrow.errors import Option, QueryError, placed
from windrow.model.execution import SETTINGS
from windrow.model.limits import Deadline
from windrow.model.query import Query, Window
from windrow.model.settings import (
    Parsed,
    choice,
    keep_read_values,
    number,
    optional,
    setting,
    settings_class,
    settings_of,
    truth,
)

_AS = re.compile(r"^(?P<expression>.+?)\s+as\s+(?P<name>\w+)$", re.IGNORECASE | re.DOTALL)
_COLUMN = re.compile(r"^(?P<expression>\w+\.(?:\w+\.)*(?P<name>\w+))$")


@settings_class("wr.Subscription")
class Subscription:
    """One query of a shared join, with its own condition and select list.

    Parameters
    ----------
    query
        Streams, windows and predicate. Single-stream conditions are evaluated above the join, so queries
        that differ in them share it.
    where
        A further SQL condition on results.
    select
        SQL expressions over the aliases, such as ("a.id", "b.price * 2 as double"); empty for a struct column
        per stream.

    Examples
    --------
    >>> import windrow as wr
    >>> streams = {"a": wr.Stream("at", "5 s"), "b": wr.Stream("at", "5 s")}
    >>> wr.Subscription(wr.Query(streams, "a.k = b.k"), select=["a.k", "b.v + 1 as v"]).columns
    {'k': 'a.k', 'v': 'b.v + 1'}
    """

    query: Query
    where: str | None = None
    select: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.query, Query):
            raise QueryError(f"expected wr.Query(...), got {self.query!r}")
        if self.where is not None and (not isinstance(self.where, str) or not self.where.strip()):
            raise QueryError(
                f"expected a SQL condition such as 'b.price > 10', got {self.where!r}", Option("where")
            )
        if isinstance(self.select, str) or not all(isinstance(item, str) for item in self.select):
            raise QueryError(
                f"expected a list such as ['a.id', 'b.price as p'], got {self.select!r}", Option("select")
            )
        object.__setattr__(self, "select", tuple(self.select))
        if self.query.memory_limit is not None or self.query.deadline is not None:
            raise QueryError(
                "a query that shares its join takes no memory limit or deadline of its own; run it alone "
                "with wr.join, or give wr.share a deadline for all"
            )
        assert self.columns is not None

    @classmethod
    def of(cls, given: Query | Subscription, name: str) -> Subscription:
        """Accepts a plain query."""
        with placed(Option(query=name)):
            return given if isinstance(given, Subscription) else cls(given)

    @property
    def columns(self) -> dict[str, str]:
        """Name to expression of the select list."""
        found: dict[str, str] = {}
        for item in self.select:
            named = _AS.match(item.strip()) or _COLUMN.match(item.strip())
            if named is None:
                raise QueryError(f"{item!r} needs a name; write '{item} as name'", Option("select"))
            if named["name"] in found:
                raise QueryError(
                    f"two columns are called '{named['name']}'; name one with 'as'", Option("select")
                )
            found[named["name"]] = named["expression"]
        return found

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """Windows per stream."""
        return tuple(s.window for s in self.query.streams.values())


@settings_class("wr.share")
class SharingSettings:
    """When a join finds the results of the queries that share it."""

    schedule: str = setting(
        choice("schedule", "lwo", "swf", "greedy"),
        '"lwo", "swf" or "greedy": what is served first when time is short.',
        default="greedy",
    )
    deadline: str | timedelta | Deadline | None = setting(
        Deadline.parse,
        'How long a call of `process`, or a micro-batch, may take: "2 seconds", or the rate to keep up '
        'with: "50000 rows/s"; the rest is deferred to the next. None: all rows are finished.',
        default=None,
    )
    max_backlog: int | None = setting(
        optional(number("a whole number of rows of at least 0", lambda n: n >= 0, whole=True)),
        "Maximum rows of a join, or of its partition, in the backlog; beyond it the deadline is exceeded.",
        default=None,
    )
    heartbeat: bool = setting(
        truth,
        "A row for every partition, at most once a second, from a source of its own. The backlog is then "
        "served, and micro-batches continue, while the streams pause.",
        default=False,
    )

    time_limit = Parsed[Deadline | None]("deadline")

    def __post_init__(self) -> None:
        keep_read_values(self)


SHARING_SETTINGS = settings_of(SharingSettings)
DEFERRAL_SETTINGS = {name: each for name, each in SHARING_SETTINGS.items() if name != "deadline"}
"""Of SQL and TOML: with one of these a deadline defers rows to the next call, and none is shed."""
JOIN_SETTINGS = {**SETTINGS, **DEFERRAL_SETTINGS}
"""All that `WITH` and `[join]` may set."""


def read_sharing(given: dict[str, Any], shared: bool = False) -> SharingSettings | None:
    """Take the settings of a shared join out of those of a join; None if there are none, unless `shared`."""
    found = {name: given.pop(name) for name in DEFERRAL_SETTINGS if name in given}
    if not found and not shared:
        return None
    if found and given.get("deadline") is None:
        raise QueryError("needs a deadline, beyond which rows are deferred", Option(next(iter(found))))
    return SharingSettings(deadline=given.pop("deadline", None), **found)
