"""Who is subscribed to a join, from when to when, and how they fare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.shared.bound import Bound, bind
from windrow.engine.shared.grouping import difference, with_windows
from windrow.engine.shared.ladder import Ladder
from windrow.engine.shared.response import Responses
from windrow.errors import QueryError, unknown
from windrow.model.query import Query, Window
from windrow.model.sharing import QueryMeasurements, Subscription

Array = np.ndarray
NEVER = int(np.iinfo(np.int64).max)
"""Of `complete_from`: not yet, or it cannot be told."""


@dataclass
class Member:
    """One query of the join."""

    name: str
    asked: Subscription
    since: int | None = None
    until: int | None = None
    complete_from: int | None = None
    awaits: list[int] = field(default_factory=list)
    """Per stream, how many rows must have come before a counted window is whole; 0: it is."""
    responses: Responses = field(default_factory=Responses)
    bound: Bound | None = None

    def inside(self, newest: Array, held: Array) -> Array:
        """Those of the results `held` that fall into its time; `newest` are the times of all, ascending."""
        if self.since is None and self.until is None:
            return held
        newest = newest[held]
        a = 0 if self.since is None else int(np.searchsorted(newest, self.since, side="left"))
        b = len(newest) if self.until is None else int(np.searchsorted(newest, self.until, side="left"))
        return held[a : max(a, b)]

    def measure(self, backlog: int) -> QueryMeasurements:
        r = self.responses
        return QueryMeasurements(
            r.count,
            r.mean,
            r.percentile(0.99),
            r.maximum,
            backlog,
            self.since,
            self.until,
            self.complete_from,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "within": [f"{w.size} {w.kind}" for w in self.asked.windows],
            "on": self.asked.query.on,
            "where": self.asked.where,
            "select": list(self.asked.select),
            "since": self.since,
            "until": self.until,
            "complete_from": self.complete_from,
            "awaits": self.awaits,
            "responses": self.responses.to_json(),
        }

    @classmethod
    def load(cls, saved: Mapping[str, Any], like: Query) -> Member:
        asked = Subscription(
            with_windows(like, [saved_window(text) for text in saved["within"]], saved["on"]),
            saved["where"],
            saved["select"],
        )
        times = (saved["since"], saved["until"], saved["complete_from"])
        return cls(saved["name"], asked, *times, list(saved["awaits"]), Responses.load(saved["responses"]))


def saved_window(text: str) -> Window:
    """A window as `Member.to_json` wrote it."""
    size, _, kind = text.partition(" ")
    return Window("time" if kind == "time" else "rows" if kind == "rows" else "rows per key", int(size))


class Roster:
    """The queries of one join, in the order they came."""

    def __init__(self, subscriptions: Mapping[str, Subscription]) -> None:
        self.members = {name: Member(name, asked) for name, asked in subscriptions.items()}
        self.like = next(iter(subscriptions.values())).query
        self.ladder = self._ladder()

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members.values())

    def _ladder(self) -> Ladder:
        return Ladder.of(m.asked.windows for m in self)

    def output(self, member: Member) -> int:
        """Which of the ladder's outputs a query is attached to."""
        return self.ladder.number[member.asked.windows]

    def bind(self, schemas: Mapping[str, pa.Schema]) -> list[Bound]:
        for member in self:
            member.bound = member.bound or bind(member.name, member.asked, schemas)
        return [m.bound for m in self if m.bound is not None]

    def check_new(self, name: str, asked: Subscription) -> None:
        if not isinstance(name, str) or not name:
            raise QueryError(f"add: a query's name must be a text, got {name!r}")
        if name in self.members:
            raise QueryError(f"add: there is a query '{name}' already; remove it first, or take another name")
        why = difference(self.like, asked.query)
        if why is not None:
            raise QueryError(f"add: query '{name}' cannot share the join: {why}")

    def check_old(self, name: str) -> None:
        if name not in self.members:
            raise QueryError(f"remove: {unknown('query', str(name), self.members)}")
        going_on = [m.name for m in self if m.until is None and m.name != name]
        if not going_on:
            raise QueryError(f"remove: '{name}' is the last query of the join; stop the join instead")

    def add(self, member: Member) -> None:
        self.members[member.name] = member
        self.ladder = self._ladder()

    def drop(self, names: list[str]) -> None:
        for name in names:
            del self.members[name]
        self.ladder = self._ladder()
