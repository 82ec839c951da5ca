"""Names of queries: which are taken, by which join, and until when.

This depends only on the control messages, not on a join's progress. Every partition therefore decides alike,
and so does every division of the messages into micro-batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from windrow.errors import QueryError, unknown
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
    """Names taken by the queries of all joins.

    Parameters
    ----------
    joins
        Per join, the names of its initial queries.
    """

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
            raise QueryError(f"add: there is a query '{name}' already; remove it first, or take another name")
        if at is None or at < known.until:
            raise QueryError(
                f"add: there is a query '{name}' until {_shown(known.until)}; add it from then on, or take "
                "another name"
            )

    def check_old(self, name: str, at: int | None) -> None:
        """Refuse to end a query that does not exist, already ends earlier, or is the last."""
        if name not in self.taken:
            raise QueryError(f"remove: {unknown('query', name, self.taken)}")
        known = self.taken[name]
        if known.until is not None and at is not None and at >= known.until:
            raise QueryError(f"remove: the query '{name}' ends at {_shown(known.until)} already")
        others = (n for n, t in self.taken.items() if n != name and t.join == known.join)
        if not any(self.taken[n].until is None for n in others):
            raise QueryError(f"remove: '{name}' is the last query of the join; stop the join instead")

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
        ended = sorted((t.until, n) for n, t in self.taken.items() if t.until is not None)
        for _, first in ended[:-REMEMBERED]:
            del self.taken[first]


def _shown(micros: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).isoformat()
