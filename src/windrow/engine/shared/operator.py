"""`SharedOperator`: many queries in one process; those that can share a join do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import chain
from time import perf_counter
from typing import Any

import pyarrow as pa

from windrow.engine.control import SetBack, refusing
from windrow.engine.shared.control_messages import ADD, REMOVE, RemoveQuery, read_change
from windrow.engine.shared.grouping import QueryGroup, difference, group_queries
from windrow.engine.shared.query_names import QueryNames, check_streams, choose
from windrow.engine.shared.results import ResultsByQuery
from windrow.engine.shared.shared_join import Data, SharedJoin
from windrow.engine.shared.state import capture_group, restore_group
from windrow.engine.snapshot import pack, unpack
from windrow.engine.state import State
from windrow.errors import QueryError, StateError, placed, unknown
from windrow.model.keywords import checks_keywords
from windrow.model.limits import Deadline
from windrow.model.query import Query
from windrow.model.query_metrics import SearchProgress, SharedMetrics
from windrow.model.settings import documents
from windrow.model.sharing import SHARING_SETTINGS, SharingSettings, Subscription


@checks_keywords("wr.SharedOperator")
@documents(SHARING_SETTINGS)
class SharedOperator:
    """Many queries over the same streams, in this process.

    Queries with the same streams and conditions between them share one join; their windows, filters and
    select lists may differ. Other queries get joins of their own. Each query gets exactly the results it
    would get alone, in the same order: by the time of their newest row.

    Parameters
    ----------
    queries
        Name to `Query`, or to `Subscription` for a select list or a further filter.
    {options}
    schemas
        Alias to pyarrow schema, if known in advance.
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
        deadline: str | timedelta | Deadline | None = None,
        max_backlog: int | None = None,
        schemas: Mapping[str, pa.Schema] | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        groups = group_queries(queries)
        sharing = SharingSettings(schedule, deadline, max_backlog)
        self._names = QueryNames([g.subscriptions for g in groups])
        self._joins = [SharedJoin(g.subscriptions, sharing, _of(g, schemas), clock) for g in groups]
        for number, join in enumerate(self._joins):
            join.names, join.number = self._names, number

    def __repr__(self) -> str:
        return f"SharedOperator({len(self.queries)} queries in {len(self._joins)} joins)"

    def _repr_html_(self) -> str:
        return self.metrics()._repr_html_()

    def process(self, data: Data, now: int | None = None) -> ResultsByQuery:
        """Join new rows, like `Operator.process`; return each query's results by name."""
        given = self._by_join(data)
        return _together(join.process(rows, now) for join, rows in zip(self._joins, given, strict=True))

    def releases(
        self,
        data: Data,
        now: int | None = None,
        arrived: float | None = None,
    ) -> Iterator[ResultsByQuery]:
        """Store new rows, and find results unit by unit.

        The rows are stored at once. Each turn of the iterator then searches a slice of the windows for the
        rows of one sub-batch, in the order of the schedule, and returns what queries may have by then:

        - under "swf", once the sub-batch has passed the query's window;
        - under "lwo" and "greedy", if the sub-batch is a single row (`evaluate="every 1 rows"`), as it is
          found, once all earlier rows have passed the query's window; otherwise like "swf".

        Results are ordered by the time of their newest row, within a call and across calls if rows arrive in
        order. `ResultsByQuery.release_times` says when each was released. Rows that are not finished when the
        caller stops stay in the backlog for the next call or `finish`, which ends an iterator that has begun.
        The caller decides when to stop, so the deadline does not apply. Outer, semi, anti and as-of joins
        take a single turn.

        Parameters
        ----------
        data, now
            As in `process`.
        arrived
            When the rows arrived, in seconds of the clock, if that was before now; response times count from
            there.

        Examples
        --------
        >>> import pyarrow as pa, windrow as wr
        >>> def within(window):
        ...     streams = {a: wr.Stream("ts", window) for a in "ab"}
        ...     return wr.Query(streams, on="a.k = b.k", evaluate="every 1 rows")
        >>> rows = pa.table({"ts": pa.array([0, 9_000_000], pa.timestamp("us")), "k": [1, 1]})
        >>> shared = wr.SharedOperator({"fast": within("5 s"), "slow": within("1 min")}, "lwo")
        >>> for release in shared.releases({"a": rows, "b": rows}):
        ...     print({name: table.num_rows for name, table in release.items()})
        {'fast': 0, 'slow': 0}
        {'fast': 1, 'slow': 1}
        {'fast': 0, 'slow': 1}
        {'fast': 1, 'slow': 2}
        """
        given = self._by_join(data)
        stored = [join.releases(rows, now, arrived) for join, rows in zip(self._joins, given, strict=True)]
        return chain.from_iterable(stored)

    def late_rows(self) -> tuple[pa.Table, ...]:
        """Per join, the rows that the last call dropped because of their time, like `Operator.late_rows`."""
        return tuple(join.runner.late_rows() for join in self._joins)

    def finish(self) -> ResultsByQuery:
        """Declare that no earlier row will arrive; serve the backlog and return the results."""
        return _together(join.finish() for join in self._joins)

    def add(self, name: str, query: Query | Subscription, at: int | None = None) -> None:
        """Add a query for results from event time `at` on (microseconds since 1970). By default it starts
        now: with results whose newest row is later than every row seen so far.

        It starts with the rows that the windows hold; `metrics()` reports from when its answers are complete.
        A query that names an unknown column is refused. If columns are not known yet, it is removed with the
        first rows, and `metrics().control_errors` gives the reason.
        """
        subscription = Subscription.of(query, name)
        able = [join for join in self._joins if difference(join.subscribers.like, subscription.query) is None]
        (able or self._joins)[0].add(name, subscription, at)

    def remove(self, name: str, at: int | None = None) -> None:
        """Remove a query: no results from event time `at` on, by default from now on. It still gets earlier
        results. Its name is free again from that time on."""
        if name not in self._names.taken:
            raise QueryError(unknown("query", str(name), self.queries), REMOVE)
        self._joins[self._names.join_of(name)].remove(name, at)

    def control(self, message: str | Mapping[str, Any]) -> None:
        """Apply a control message: a mapping, or JSON. A message that is refused (QueryError) changes
        nothing.

        {"at": "2026-01-31T12:00:00Z", "add": {"name": "hourly", "within": "1 hour", "where": "b.price > 10",
        "select": ["a.id"], "like": "fast"}}, or {"at": ..., "remove": "hourly"}. `at` is optional. Or, like
        `Operator.control`, {"event_time": {"b": "2026-01-31T12:00:00Z"}}.
        """
        change = read_change(message)
        with refusing():
            if isinstance(change, SetBack):
                check_streams(change, [join.sibling for join in self._joins])
                for join in self._joins:
                    join.set_back(change.times)
            elif isinstance(change, RemoveQuery):
                self.remove(change.name, change.at)
            else:
                siblings = [join.sibling for join in self._joins]
                with placed(ADD):
                    owner = choose(change, siblings, self._names)
                    subscription = change.subscription(siblings[owner].like)
                self._joins[owner].add(change.name, subscription, change.at)

    @property
    def queries(self) -> dict[str, Subscription]:
        """All queries by name."""
        return {m.name: m.subscription for join in self._joins for m in join.subscribers}

    @property
    def groups(self) -> list[QueryGroup]:
        """The joins and the queries that share them; they print themselves."""
        return [QueryGroup({m.name: m.subscription for m in join.subscribers}) for join in self._joins]

    @property
    def progress(self) -> SearchProgress:
        """How far the search for results has come, if it runs unit by unit or under a deadline."""
        rows_probed = found = backlog_rows = results_held = 0
        for join in self._joins:  # a loop, for this may be read after every unit
            if (served := join.scheduler) is not None:
                rows_probed += served.rows_probed
                found += served.found
                backlog_rows += served.rows
                results_held += served.held
        return SearchProgress(rows_probed, found, backlog_rows, results_held)

    def metrics(self) -> SharedMetrics:
        """Metrics of each join and each query."""
        queries = {name: m for join in self._joins for name, m in join.query_metrics().items()}
        errors = tuple(reason for join in self._joins for reason in join.control_errors)
        return SharedMetrics(tuple(join.runner.metrics() for join in self._joins), queries, errors)

    def snapshot(self) -> bytes:
        """The operator's whole state, backlog included, as bytes for `restore`."""
        states = [capture_group(join) for join in self._joins]
        head = {"shared": [{"metadata": s.metadata, "parts": len(s.parts)} for s in states]}
        return pack(State(head, tuple(part for s in states for part in s.parts)))

    @classmethod
    def restore(
        cls,
        queries: Mapping[str, Query | Subscription],
        blob: bytes,
        schedule: str = "greedy",
        deadline: str | timedelta | Deadline | None = None,
        max_backlog: int | None = None,
        clock: Callable[[], float] = perf_counter,
        schemas: Mapping[str, pa.Schema] | None = None,
    ) -> SharedOperator:
        """Resume where the operator that wrote `blob` stopped.

        `queries` are those the first operator was made with, which may differ in `late` and `idle`; queries
        added and removed since are in the blob. `schemas` as in `Operator.restore`.
        """
        found = cls(queries, schedule, deadline, max_backlog, schemas, clock)
        state = unpack(blob)
        if "shared" not in state.metadata or len(state.metadata["shared"]) != len(found._joins):
            raise StateError("this snapshot is of other queries; restore it with those it was begun with")
        at = 0
        for join, saved in zip(found._joins, state.metadata["shared"], strict=True):
            restore_group(join, State(saved["metadata"], state.parts[at : at + saved["parts"]]))
            at += saved["parts"]
        return found

    def _by_join(self, data: Data) -> list[Data]:
        """The rows of each join's streams."""
        known = {alias for join in self._joins for alias in join.runner.query.aliases}
        for alias in data:
            if alias not in known:
                raise QueryError(unknown("stream", str(alias), known))
        streams = [join.runner.query.streams for join in self._joins]
        return [{alias: rows for alias, rows in data.items() if alias in own} for own in streams]


def _together(outputs: Iterable[ResultsByQuery]) -> ResultsByQuery:
    """The results of all joins."""
    return ResultsByQuery({name: each for output in outputs for name, each in output.query_results.items()})


def _of(one: QueryGroup, schemas: Mapping[str, pa.Schema] | None) -> dict[str, pa.Schema]:
    aliases = next(iter(one.subscriptions.values())).query.aliases
    return {alias: schema for alias, schema in (schemas or {}).items() if alias in aliases}
