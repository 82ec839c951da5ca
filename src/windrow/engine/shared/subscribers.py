"""The subscribers of a join: from when to when they are subscribed, and their response times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa

from windrow.engine.completeness import Completeness
from windrow.engine.shared.bound_subscription import BoundSubscription, bind
from windrow.engine.shared.grouping import with_windows
from windrow.engine.shared.response_times import ResponseTimes
from windrow.engine.shared.tiers import WindowTiers
from windrow.errors import QueryError
from windrow.model.query import Query, Window
from windrow.model.query_metrics import QueryMetrics
from windrow.model.sharing import Subscription
from windrow.model.stateful import Stateful, decode

Array = np.ndarray
MOST_QUERIES = 1_000
"""Maximum queries of a join when they are added while it runs."""
Key = tuple[str, int]


@dataclass
class Subscriber(Stateful):
    """One query of the join."""

    saved: ClassVar[tuple[str, ...]] = (
        "name", "since", "until", "completeness", "response_times", "number",
    )  # fmt: skip
    name: str
    subscription: Subscription
    since: int | None = None
    until: int | None = None
    completeness: Completeness = field(default_factory=Completeness)
    response_times: ResponseTimes = field(default_factory=ResponseTimes)
    number: int = 0
    """Number of earlier queries of the name."""
    bound: BoundSubscription | None = None

    @property
    def key(self) -> Key:
        """Name and number: a name can be reused while its previous query is not over in all streams."""
        return self.name, self.number

    @property
    def complete_from(self) -> int | None:
        """Event time from which its results are complete."""
        return self.completeness.complete_from

    @property
    def empty(self) -> bool:
        """Whether it ends before it begins."""
        return self.until is not None and self.since is not None and self.until <= self.since

    def inside(self, newest: Array, held: Array) -> Array:
        """The results among `held` that fall into its time; `newest` holds the times of all, ascending."""
        begun = self.since is None or len(newest) == 0 or newest[0] >= self.since
        if begun and self.until is None:
            return held
        newest = newest[held]
        a = 0 if self.since is None else int(np.searchsorted(newest, self.since, side="left"))
        b = len(newest) if self.until is None else int(np.searchsorted(newest, self.until, side="left"))
        return held[a : max(a, b)]

    def metrics(self, backlog: int) -> QueryMetrics:
        return QueryMetrics(
            **self.response_times.metrics(),
            backlog_rows=backlog,
            since=self.since,
            until=self.until,
            complete_from=self.complete_from,
        )

    def dump(self) -> dict[str, Any]:
        query = {
            "within": [f"{w.size} {w.kind}" for w in self.subscription.windows],
            "on": self.subscription.query.on,
            "where": self.subscription.where,
            "select": list(self.subscription.select),
        }
        return super().dump() | query | {"complete_from": self.complete_from}

    @classmethod
    def load(cls, saved: Mapping[str, Any], like: Query) -> Subscriber:
        """Restore a subscriber to the join of `like`, whose streams and functions its query has."""
        windows = [saved_window(text) for text in saved["within"]]
        subscription = Subscription(with_windows(like, windows, saved["on"]), saved["where"], saved["select"])
        # States of earlier versions do not say what they are.
        plain = {"is": saved.get("is", [cls.__name__, 1])} | {name: saved[name] for name in cls.saved}
        found: Subscriber = decode(plain, [], cls(saved["name"], subscription))
        return found


def saved_window(text: str) -> Window:
    """Parse a window that `Subscriber.dump` wrote."""
    size, _, kind = text.partition(" ")
    return Window(cast(Any, kind), int(size))


class Subscribers:
    """The queries of one join, in the order they were added."""

    def __init__(self, subscriptions: Mapping[str, Subscription]) -> None:
        self.all: dict[Key, Subscriber] = {}
        for name, subscription in subscriptions.items():
            self.all[name, 0] = Subscriber(name, subscription)
        self.like = next(iter(subscriptions.values())).query
        self._attach()

    def __iter__(self) -> Iterator[Subscriber]:
        return iter(self.all.values())

    def _attach(self) -> None:
        self.tiers = WindowTiers.of(m.subscription.windows for m in self)
        self.outputs = {m.key: self.tiers.number[m.subscription.windows] for m in self}
        """The output of the tiers that each query is attached to."""

    def bind(self, schemas: Mapping[str, pa.Schema]) -> list[BoundSubscription]:
        for subscriber in self:
            subscriber.bound = subscriber.bound or bind(subscriber.name, subscriber.subscription, schemas)
        return [m.bound for m in self if m.bound is not None]

    def check_room(self) -> None:
        if len(self.all) >= MOST_QUERIES:
            raise QueryError(f"a join has at most {MOST_QUERIES} queries; remove one first")

    def last(self, name: str) -> Subscriber | None:
        """The last query of the name, unless it is over."""
        return next((m for m in reversed(self.all.values()) if m.name == name), None)

    def add(self, subscriber: Subscriber) -> None:
        self.all[subscriber.key] = subscriber
        self._attach()

    def drop(self, keys: list[Key]) -> None:
        for key in keys:
            del self.all[key]
        self._attach()
