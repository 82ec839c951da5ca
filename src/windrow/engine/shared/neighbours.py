"""Other joins beside this one that get the same control documents."""

from __future__ import annotations

from dataclasses import dataclass, field

from windrow.engine.shared.changes import Add
from windrow.engine.shared.grouping import difference
from windrow.engine.shared.roster import Roster
from windrow.errors import QueryError, unknown
from windrow.model.query import Query


@dataclass
class Neighbours:
    names: set[str] = field(default_factory=set)
    """Queries of other joins."""
    likes: tuple[Query, ...] = ()
    """One query of each."""

    def take(self, change: Add, roster: Roster) -> bool:
        """Whether a new query belongs to another join than that of `roster`."""
        if change.like is not None:
            if change.like in roster.members:
                return False
            if change.like not in self.names:
                raise QueryError(
                    f"add: like: {unknown('query', change.like, {*roster.members, *self.names})}"
                )
            return True
        if not self.likes:
            return False
        if change.on is None:
            raise QueryError(
                f"add: there are {len(self.likes) + 1} joins; say which with 'like': a query's name, or "
                "with 'on'"
            )
        if difference(roster.like, change.subscription(roster.like).query) is None:
            return False
        return any(difference(like, change.subscription(like).query) is None for like in self.likes)
