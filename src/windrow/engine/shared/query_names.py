"""Names of queries, and the joins that they belong to: those of one `share`, or of one operator.

All joins get the same control messages, and each knows what the others do. Which names are taken, by which
join, and until when depends only on the messages, not on a join's progress. Every partition therefore decides
alike, and so does every division of the messages into micro-batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from windrow.engine.control import SetBack
from windrow.engine.shared.bound_subscription import bind
from windrow.engine.shared.control_messages import AddQuery
from windrow.engine.shared.grouping import difference
from windrow.errors import Option, QueryError, placed, unknown
from windrow.model.query import Query
from windrow.model.sharing import Subscription
from windrow.model.stateful import Stateful

REMEMBERED = 1_000
"""Maximum names of ended queries to remember; those that end first are forgotten first."""


@dataclass(frozen=True)
class TakenName(Stateful):
    """The last query of a name."""

    join: int
    number: int = 0
    """Number of earlier queries of the name."""
    until: int | None = None
    """Event time from which the name is free again; None while the query has no end."""


class QueryNames(Stateful):
    """Names taken by the queries of all joins; at first those of each join's initial queries."""

    saved = ("taken",)

    def __init__(self, joins: Sequence[Iterable[str]]) -> None:
        self.taken = {name: TakenName(join) for join, names in enumerate(joins) for name in names}

    def join_of(self, name: str) -> int:
        if name not in self.taken:
            raise QueryError(unknown("query", name, self.taken))
        return self.taken[name].join

    def check_new(self, name: str, at: int | None) -> None:
        """Refuse a query whose name is taken at that time."""
        known = self.taken.get(name)
        if known is None:
            return
        if known.until is None:
            raise QueryError(f"there is a query '{name}' already; remove it first, or take another name")
        if at is None or at < known.until:
            raise QueryError(
                f"there is a query '{name}' until {_shown(known.until)}; add it from then on, or take "
                "another name"
            )

    def check_old(self, name: str, at: int | None) -> None:
        """Refuse to end a query that does not exist, already ends earlier, or is the last."""
        if name not in self.taken:
            raise QueryError(unknown("query", name, self.taken))
        known = self.taken[name]
        if known.until is not None and at is not None and at >= known.until:
            raise QueryError(f"the query '{name}' ends at {_shown(known.until)} already")
        others = (n for n, t in self.taken.items() if n != name and t.join == known.join)
        if not any(self.taken[n].until is None for n in others):
            raise QueryError(f"'{name}' is the last query of the join; stop the join instead")

    def begin(self, name: str, join: int) -> int:
        """Take the name; return the number of earlier queries of that name."""
        known = self.taken.pop(name, None)
        self.taken[name] = TakenName(join, 0 if known is None else known.number + 1)
        return self.taken[name].number

    def end(self, name: str, at: int | None) -> None:
        """Free the name from event time `at` on; None frees it entirely."""
        if at is None:
            del self.taken[name]
            return
        self.taken[name] = replace(self.taken[name], until=at)
        # An ended name stays taken for results before its end, so it is remembered; only so many are.
        ended = sorted((t.until, n) for n, t in self.taken.items() if t.until is not None)
        for _, first in ended[:-REMEMBERED]:
            del self.taken[first]


@dataclass(frozen=True)
class Sibling:
    """One of the joins, as the others see it."""

    like: Query
    """One of its queries."""
    schemas: Mapping[str, pa.Schema] | None = None
    """Schemas of its streams; None until known."""

    def check(self, name: str, subscription: Subscription) -> None:
        """Refuse a query that cannot share the join."""
        why = difference(self.like, subscription.query)
        if why is not None:
            raise QueryError(f"cannot share the join: {why}", Option(query=name))
        if self.schemas is not None:
            bind(name, subscription, self.schemas)


def check_streams(change: SetBack, joins: Sequence[Sibling]) -> None:
    """Refuse streams that none of the joins has."""
    known = {alias for join in joins for alias in join.like.aliases}
    for alias in change.times:
        if alias not in known:
            raise QueryError(unknown("stream", alias, known), Option("event_time"))


def choose(change: AddQuery, joins: Sequence[Sibling], names: QueryNames) -> int:
    """The join that a new query belongs to."""
    if change.like is not None:
        with placed(Option("like")):
            return names.join_of(change.like)
    if len(joins) == 1:
        return 0
    if change.on is None:
        raise QueryError(f"there are {len(joins)} joins; say which with 'like': a query's name, or with 'on'")
    for number, join in enumerate(joins):
        if change.how is None and change.match is None and join.like.kind.shapes:
            continue  # an inner join is meant
        try:
            if difference(join.like, change.subscription(join.like).query) is None:
                return number
        except QueryError:
            continue  # it has other streams
    return 0  # it will report why not


def _shown(micros: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).isoformat()
