"""Names of queries: which are taken, by which join, and until when.

This follows from the control messages alone, not from how far a join has come: so every partition decides
alike, and so does every cut of the same messages into batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from windrow.errors import QueryError, unknown
from windrow.model.stateful import Stateful

REMEMBERED = 1_000
"""Names of queries that have an end; beyond that those that end first are forgotten."""


@dataclass(frozen=True)
class TakenName(Stateful):
    """By the last query of the name."""

    join: int
    number: int = 0
    """How many queries had the name before it."""
    until: int | None = None
    """Event time from which the name is free again; None while the query has no end."""


class QueryNames(Stateful):
    """
    Parameters
    ----------
    joins
        Per join, the names of the queries it began with.
    """

    saved = ("taken",)

    def __init__(self, joins: Sequence[Iterable[str]]) -> None:
        self.taken = {name: TakenName(join) for join, names in enumerate(joins) for name in names}

    def join_of(self, name: str) -> int:
        if name not in self.taken:
            raise QueryError(unknown("query", name, self.taken))
        return self.taken[name].join

    def check_new(self, name: str, at: int | None) -> None:
        """Refuses a query that would have its name at the same time as another."""
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
        """Refuses the end of a query that is not there, ends earlier already, or is the last."""
        if name not in self.taken:
            raise QueryError(f"remove: {unknown('query', name, self.taken)}")
        known = self.taken[name]
        if known.until is not None and at is not None and at >= known.until:
            raise QueryError(f"remove: the query '{name}' ends at {_shown(known.until)} already")
        others = (n for n, t in self.taken.items() if n != name and t.join == known.join)
        if not any(self.taken[n].until is None for n in others):
            raise QueryError(f"remove: '{name}' is the last query of the join; stop the join instead")

    def begin(self, name: str, join: int) -> int:
        """Returns how many queries had the name before."""
        known = self.taken.pop(name, None)
        self.taken[name] = TakenName(join, 0 if known is None else known.number + 1)
        return self.taken[name].number

    def end(self, name: str, at: int | None) -> None:
        """From event time `at` on the name is free; at None it always was."""
        if at is None:
            del self.taken[name]
            return
        self.taken[name] = replace(self.taken[name], until=at)
        ended = sorted((t.until, n) for n, t in self.taken.items() if t.until is not None)
        for _, first in ended[:-REMEMBERED]:
            del self.taken[first]


def _shown(micros: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).isoformat()
