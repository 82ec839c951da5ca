"""The joins of one `share`: all get the same control messages, and each knows what the others do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from windrow.engine.control import SetBack
from windrow.engine.shared.bound_subscription import bind
from windrow.engine.shared.control_messages import AddQuery
from windrow.engine.shared.grouping import difference
from windrow.engine.shared.query_names import QueryNames
from windrow.errors import QueryError, unknown
from windrow.model.query import Query
from windrow.model.sharing import Subscription


@dataclass(frozen=True)
class Sibling:
    """One of the joins.

    Parameters
    ----------
    like
        One of its queries.
    schemas
        Schemas of its streams; None until known.
    """

    like: Query
    schemas: Mapping[str, pa.Schema] | None = None

    def check(self, name: str, asked: Subscription) -> None:
        """Refuse a query that cannot share the join."""
        why = difference(self.like, asked.query)
        if why is not None:
            raise QueryError(f"add: query '{name}' cannot share the join: {why}")
        if self.schemas is not None:
            bind(name, asked, self.schemas)


def check_streams(change: SetBack, joins: Sequence[Sibling]) -> None:
    """Refuse streams that none of the joins has."""
    known = {alias for join in joins for alias in join.like.aliases}
    for alias in change.times:
        if alias not in known:
            raise QueryError(f"control: event_time: {unknown('stream', alias, known)}")


def choose(change: AddQuery, joins: Sequence[Sibling], names: QueryNames) -> int:
    """The join that a new query belongs to."""
    if change.like is not None:
        try:
            return names.join_of(change.like)
        except QueryError as error:
            raise QueryError(f"add: like: {error}") from None
    if len(joins) == 1:
        return 0
    if change.on is None:
        raise QueryError(
            f"add: there are {len(joins)} joins; say which with 'like': a query's name, or with 'on'"
        )
    for number, join in enumerate(joins):
        if change.how is None and change.match is None and join.like.kind.shapes:
            continue  # an inner join is meant
        try:
            if difference(join.like, change.subscription(join.like).query) is None:
                return number
        except QueryError:
            continue  # it has other streams
    return 0  # it will report why not
