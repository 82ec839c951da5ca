"""`SharedOperator`: many queries in one process, those that can share a join sharing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import pyarrow as pa

from windrow.engine.control import SetBack, refusing
from windrow.engine.shared.changes import Remove, read_change
from windrow.engine.shared.group import GroupOperator
from windrow.engine.shared.grouping import Group, difference, group
from windrow.engine.shared.names import Names
from windrow.engine.shared.results import Results
from windrow.engine.shared.siblings import check_streams, choose
from windrow.engine.shared.state import capture_group, revive_group
from windrow.engine.snapshot import pack, unpack
from windrow.engine.state import State
from windrow.errors import QueryError, StateError, unknown
from windrow.model.query import Query
from windrow.model.sharing import SharedMeasurements, Subscription


class SharedOperator:
    """Many queries over the same streams, in this process.

    Queries with the same streams and conditions between them share one join, whatever their windows, filters
    and select lists; others get joins of their own. Each query's results are exactly, and in the same order,
    what it would get alone: by the time of their newest row.

    Parameters
    ----------
    queries
        Name to `Query`, or to `Subscription` for a select list or a further filter.
    schedule
        "lwo", "swf" or "greedy": what is served first when the deadline leaves no time for all.
    deadline
        Time a call may take, such as "2 seconds"; what is left is carried over to the next. None: a call
        finishes all its rows.
    backlog
        Most rows of a join that may be carried over; past that the deadline gives way.
    schemas
        Alias to pyarrow schema, where they are known beforehand.
    clock
        Seconds, for response times and the deadline.

    Examples
    --------
    >>> import pyarrow as pa, windrow as wr
    >>> def within(window):
    ...     return wr.Query({a: wr.Stream("ts", window) for a in "ab"}, on="a.k = b.k")
    >>> rows = pa.table({"ts": pa.array([0, 9_000_000], pa.timestamp("us")), "k": [1, 1]})
    >>> shared = wr.SharedOperator({"fast": within("5 s"), "slow": within("1 min")})
    >>> {name: table.num_rows for name, table in shared.process({"a": rows, "b": rows}).items()}
    {'fast': 2, 'slow': 4}
    """

    def __init__(
        self,
        queries: Mapping[str, Query | Subscription],
        schedule: str = "greedy",
        deadline: str | None = None,
        backlog: int | None = None,
        schemas: Mapping[str, pa.Schema] | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        groups = group(queries)
        self._names = Names([g.subscriptions for g in groups])
        self._joins = [
            GroupOperator(g.subscriptions, schedule, deadline, backlog, _of(g, schemas), clock)
            for g in groups
        ]
        for number, join in enumerate(self._joins):
            join.names, join.number = self._names, number

    def process(self, data: Mapping[str, pa.Table | pa.RecordBatch], now: int | None = None) -> Results:
        """Takes in rows, as `Operator.process`; returns each query's results by name."""
        known = {alias for join in self._joins for alias in join.query.aliases}
        for alias in data:
            if alias not in known:
                raise QueryError(unknown("stream", str(alias), known))
        return self._all(
            lambda join: join.handle({a: rows for a, rows in data.items() if a in join.query.streams}, now)
        )

    def finish(self) -> Results:
        """Declares that nothing earlier will come; serves what was carried over."""
        return self._all(lambda join: join.conclude())

    def add(self, name: str, query: Query | Subscription, at: int | None = None) -> None:
        """Adds a query, for results from event time `at` on (microseconds since 1970), or from now on: those
        whose newest row is later than every row seen so far.

        It starts with what the windows hold; `measure()` tells from when its answers are complete. A query
        that names an unknown column is refused; if columns are not known yet, it is let go with the first
        rows, and `measure().rejected` tells why.
        """
        asked = Subscription.of(query, name)
        able = [join for join in self._joins if difference(join.roster.like, asked.query) is None]
        (able or self._joins)[0].add(name, asked, at)

    def remove(self, name: str, at: int | None = None) -> None:
        """Removes a query: no results from event time `at` on, or from now on. What is earlier it still gets;
        the name can be taken again from that time on."""
        if name not in self._names.taken:
            raise QueryError(f"remove: {unknown('query', str(name), self.queries)}")
        self._joins[self._names.join_of(name)].remove(name, at)

    def control(self, document: str | Mapping[str, Any]) -> None:
        """Applies a control message: a mapping, or JSON. One that is refused (QueryError) changes nothing.

        {"at": "2026-01-31T12:00:00Z", "add": {"name": "hourly", "within": "1 hour", "where": "b.price > 10",
        "select": ["a.id"], "like": "fast"}}, or {"at": ..., "remove": "hourly"}. `at` may be left out. Or, as
        `Operator.control`, {"event_time": {"b": "2026-01-31T12:00:00Z"}}.
        """
        change = read_change(document)
        with refusing():
            if isinstance(change, SetBack):
                check_streams(change, [join.sibling for join in self._joins])
                for join in self._joins:
                    join.set_back({a: t for a, t in change.times.items() if a in join.query.streams})
            elif isinstance(change, Remove):
                self.remove(change.name, change.at)
            else:
                siblings = [join.sibling for join in self._joins]
                owner = choose(change, siblings, self._names)
                asked = change.subscription(siblings[owner].like)
                self._joins[owner].add(change.name, asked, change.at)

    @property
    def queries(self) -> dict[str, Subscription]:
        """All queries by name."""
        return {m.name: m.asked for join in self._joins for m in join.roster}

    @property
    def groups(self) -> list[Group]:
        """The joins and who shares them; they print themselves."""
        return [Group({m.name: m.asked for m in join.roster}) for join in self._joins]

    def measure(self) -> SharedMeasurements:
        """Of each join and each query."""
        queries = {name: m for join in self._joins for name, m in join.measure_queries().items()}
        rejected = tuple(reason for join in self._joins for reason in join.rejected)
        return SharedMeasurements(tuple(join.measure() for join in self._joins), queries, rejected)

    def snapshot(self) -> bytes:
        """Everything the operator knows, what is carried over included, as bytes for `restore`."""
        states = [capture_group(join) for join in self._joins]
        head = {"shared": [{"head": s.head, "parts": len(s.parts)} for s in states]}
        return pack(State(head, tuple(part for s in states for part in s.parts)))

    @classmethod
    def restore(
        cls,
        queries: Mapping[str, Query | Subscription],
        blob: bytes,
        schedule: str = "greedy",
        deadline: str | None = None,
        backlog: int | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> SharedOperator:
        """An operator that goes on where the one that wrote `blob` stopped.

        `queries` are those the first operator was made with; queries added and removed since are in the blob.
        """
        found = cls(queries, schedule, deadline, backlog, clock=clock)
        state = unpack(blob)
        if "shared" not in state.head or len(state.head["shared"]) != len(found._joins):
            raise StateError("this snapshot is of other queries; restore it with those it was begun with")
        at = 0
        for join, saved in zip(found._joins, state.head["shared"], strict=True):
            revive_group(join, State(saved["head"], state.parts[at : at + saved["parts"]]))
            at += saved["parts"]
        return found

    def _all(self, action: Callable[[GroupOperator], Results]) -> Results:
        return Results({name: a for join in self._joins for name, a in action(join).answers.items()})


def _of(one: Group, schemas: Mapping[str, pa.Schema] | None) -> dict[str, pa.Schema]:
    aliases = next(iter(one.subscriptions.values())).query.aliases
    return {alias: schema for alias, schema in (schemas or {}).items() if alias in aliases}
