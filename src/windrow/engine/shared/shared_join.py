"""One query group: queries that share one join, in this process.

The join runs like any other, over the largest windows of the queries; its sink routes results to the queries.
Without a deadline a call finishes all its rows; with one, or unit by unit, see `backlog.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from windrow.engine.completeness import Completeness
from windrow.engine.control import SetBack, refusing, short
from windrow.engine.runner import JoinRunner
from windrow.engine.shared.backlog import BacklogScheduler
from windrow.engine.shared.bound_subscription import BoundSubscription, bind
from windrow.engine.shared.control_messages import ADD, REMOVE, RemoveQuery, read_change
from windrow.engine.shared.grouping import base_query
from windrow.engine.shared.query_names import QueryNames, Sibling, check_streams, choose
from windrow.engine.shared.query_router import QueryRouter
from windrow.engine.shared.release import Delivery
from windrow.engine.shared.response_times import ResponseTimes
from windrow.engine.shared.results import QueryResults, ResultBatch, ResultsByQuery, ResultSelection, ordered
from windrow.engine.shared.schedule import SCHEDULES
from windrow.engine.shared.subscribers import Key, Subscriber, Subscribers
from windrow.errors import QueryError, placed
from windrow.model.query_metrics import QueryMetrics
from windrow.model.sharing import SharingSettings, Subscription
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
Data: TypeAlias = Mapping[str, pa.Table | pa.RecordBatch]
MOST_REASONS = 100


class SharedJoin:
    """A join shared by several queries, which must be able to share it (see `grouping.group_queries`). The
    other parameters are those of `SharedOperator`; a deadline does not apply to outer, semi, anti and as-of
    joins."""

    def __init__(
        self,
        subscriptions: Mapping[str, Subscription],
        sharing: SharingSettings | None = None,
        schemas: Mapping[str, pa.Schema] | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.subscribers = Subscribers(subscriptions)
        self._initial = frozenset(subscriptions)
        self.control_errors: list[str] = []
        """Why queries that were added got no results or were removed; to be reported."""
        self.clock = clock
        self.router: QueryRouter | None = None
        """None until all schemas are known."""
        self._bound = False
        """Whether the queries are bound to the schemas."""
        self.undelivered: dict[Key, list[ResultSelection]] = {}
        """Results routed before the subscribers changed."""
        self.departing: dict[Key, Subscriber] = {}
        """Queries that have ended but still await deferred results."""
        self.departed: dict[Key, Subscriber] = {}
        """Queries that received their last results with the last call."""
        self.scheduler: BacklogScheduler | None = None
        """The backlog, if there is a deadline or results are found unit by unit."""
        self.names, self.number = QueryNames([subscriptions]), 0
        """Names of all joins that get the same control messages, and the number of this one."""
        self.siblings: tuple[Sibling, ...] = ()
        """All these joins, if there are others."""
        sharing = sharing or SharingSettings()
        self._schedule, self._deadline = SCHEDULES[sharing.schedule], sharing.time_limit
        if self._deadline is not None and not self.subscribers.like.kind.shapes:
            self.scheduler = BacklogScheduler(self._schedule, sharing.max_backlog)
        query = base_query(self.subscribers.like, self.subscribers.tiers.largest)
        self.runner = JoinRunner(query, schemas, make_sink=self._make_router)
        self.bind()

    # -- the public face ----------------------------------------------------------------------------

    def process(self, data: Data, now: int | None = None, seconds: float | None = None) -> ResultsByQuery:
        """Join new rows; return each query's results. `seconds` is the time limit of this call, by default
        the deadline."""
        began = self.clock()
        self._admit(data, now)
        self._run(began, seconds=seconds)
        return self._deliver(self._deliveries())

    def releases(self, data: Data, now: int | None, arrived: float | None) -> Iterator[ResultsByQuery]:
        """Store new rows; return an iterator that finds results."""
        if self.scheduler is None and not self.subscribers.like.kind.shapes:
            self.serve_all()
        began = self.clock() if arrived is None else arrived
        self._admit(data, now)
        self._run(began, by_unit=True)
        return self._serve()

    def finish(self) -> ResultsByQuery:
        """Declare that no earlier row will arrive; serve the backlog."""
        began = self.clock()
        self.runner.close()
        self._run(began, final=True)
        return self._deliver(self._deliveries())

    def add(self, name: str, subscription: Subscription, at: int | None = None) -> None:
        """Add a query from event time `at` or from now on. It starts with the rows in the windows."""
        at = self._now if at is None else at
        with placed(ADD):
            if not isinstance(name, str) or not name:
                raise QueryError(f"a query's name must be a text, got {name!r}")
            self.names.check_new(name, at)
            self.sibling.check(name, subscription)
            self.subscribers.check_room()
        completeness = self._completeness(subscription, at)
        # Rows in the backlog have passed tiers by number, and a new query changes the tiers.
        self._drain()
        number = self.names.begin(name, self.number)
        self.subscribers.add(Subscriber(name, subscription, at, None, completeness, number=number))
        self._install()

    def remove(self, name: str, at: int | None = None) -> None:
        """End a query's results at event time `at`, or now."""
        at = self._now if at is None else at
        with placed(REMOVE):
            self.names.check_old(name, at)
        self._drain()
        self.names.end(name, at)
        subscriber = self.subscribers.last(name)
        if subscriber is not None:
            subscriber.until = at
            if at is None or subscriber.empty:
                self._drop([subscriber.key])

    def control(self, message: str | Mapping[str, Any]) -> None:
        """Apply a message like `SharedOperator.control`; record it if it concerns a query of another join."""
        change = read_change(message)
        with refusing():
            joins = self.siblings or (self.sibling,)
            if isinstance(change, SetBack):
                check_streams(change, joins)
                self.set_back(change.times)
                return
            at = self._now if change.at is None else change.at
            if isinstance(change, RemoveQuery):
                with placed(REMOVE):
                    self.names.check_old(change.name, at)
                if self.names.join_of(change.name) == self.number:
                    self.remove(change.name, at)
                else:
                    self.names.end(change.name, at)
                return
            with placed(ADD):
                owner = choose(change, joins, self.names)
                subscription = change.subscription(joins[owner].like)
                self.names.check_new(change.name, at)
                joins[owner].check(change.name, subscription)
            if owner == self.number:
                self.add(change.name, subscription, at)
            else:
                self.names.begin(change.name, owner)

    @property
    def sibling(self) -> Sibling:
        """This join as the others see it."""
        if self.siblings:
            return self.siblings[self.number]
        return Sibling(self.subscribers.like, self.router.result_schemas if self.router else None)

    def set_back(self, times: Mapping[str, int]) -> None:
        """Set this join's own streams back to these event times."""
        self.runner.set_back({a: t for a, t in times.items() if a in self.runner.query.streams})

    @property
    def _now(self) -> int | None:
        """The first event time after all those seen on any stream; None if none was."""
        newest = self.runner.watermarks.max_event_time
        return None if newest is None else newest + 1

    def query_metrics(self) -> dict[str, QueryMetrics]:
        return {m.name: m.metrics(self.backlog(m)) for m in self.subscribers}

    def backlog(self, subscriber: Subscriber) -> int:
        """Rows whose results a query has not received yet."""
        return self.scheduler.rows_left(self.subscribers.outputs[subscriber.key]) if self.scheduler else 0

    def serve_all(self) -> None:
        """Keep a backlog without a deadline: unit by unit, or to finish the one of an earlier run."""
        if self.scheduler is None:
            self.scheduler = BacklogScheduler(self._schedule)
            if self.router is not None:
                self.router.defer = self.scheduler.defer

    def restore_subscribers(self, subscribers: Sequence[Subscriber]) -> None:
        """Replace the initial queries by these, before any row."""
        self.subscribers.all = {m.key: m for m in subscribers}
        self.subscribers.drop([])
        self._install()

    # -- inside -------------------------------------------------------------------------------------

    def _make_router(self, bound: BoundQuery) -> QueryRouter:
        self.router = QueryRouter(bound, self.scheduler.defer if self.scheduler else None)
        return self.router

    def bind(self) -> None:
        """Bind the queries to the streams' columns once these are known."""
        if self.router is not None and not self._bound:
            self._reject_unbindable(self.router.result_schemas)
            self._install()
            self._bound = True

    def _reject_unbindable(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Remove queries that were added before the columns were known and name an unknown one."""
        for subscriber in [m for m in self.subscribers if self._added(m)]:
            try:
                with placed(ADD):
                    bind(subscriber.name, subscriber.subscription, schemas)
            except QueryError as error:
                self.control_errors.append(str(error))
                self.subscribers.drop([subscriber.key])
                self.names.end(subscriber.name, None)

    def _install(self) -> None:
        """Apply a change of subscribers to the join."""
        tiers = self.subscribers.tiers
        if self.router is not None:
            self.router.subscribe(tiers, self.subscribers.bind(self.router.result_schemas))
        self.runner.set_windows(base_query(self.subscribers.like, tiers.largest))

    def _admit(self, data: Data, now: int | None) -> None:
        self._drop_ended()
        batches = self.runner.read(data)
        self.bind()
        self.runner.admit(batches, now)

    def _run(
        self, began: float, final: bool = False, by_unit: bool = False, seconds: float | None = None
    ) -> None:
        """Store the call's rows. Find their results and those of rows deferred earlier, as far as there is
        time; none of them if that is done `by_unit`."""
        join, router, scheduler = self.runner.join, self.router, self.scheduler
        if join is None or router is None:
            return
        router.now = began
        with self.runner.whole_call():
            if scheduler is not None:
                if by_unit:
                    scheduler.retain_rows(join.windows)
                else:
                    self.runner.planner.forget(join)
                scheduler.begin(began, len(self.subscribers.tiers), by_unit)
            for _ in self.runner.run(final):
                pass  # the router keeps the results
            if scheduler is not None and not by_unit:
                if seconds is None:
                    rows = self.runner.rows_arrived
                    seconds = math.inf if self._deadline is None else self._deadline.seconds(rows)
                scheduler.run(join, router, self.clock, final, seconds)
        for subscriber in self.subscribers:
            subscriber.completeness.note(join.windows, self.runner.watermarks.max_event_time)

    def _serve(self) -> Iterator[ResultsByQuery]:
        join, router, scheduler = self.runner.join, self.router, self.scheduler
        if join is None or router is None:
            return
        if scheduler is None or any(self.undelivered.values()):
            yield self._deliver(self._deliveries())
        units = scheduler.releases(join, router, self.clock) if scheduler else iter(())
        while True:
            with self.runner.whole_call():
                due = next(units, None)
            if due is None:
                return
            yield self._deliver(due)

    def _drain(self) -> None:
        """Serve the backlog for the present queries, before tiers change."""
        if self.scheduler is not None and self.runner.join is not None and self.router is not None:
            self.runner.planner.ensure_plan(self.runner.join)
            self.scheduler.drain(self.runner.join, self.router)
        self.undelivered = self._selections(self._deliveries())

    def _deliver(self, due: Sequence[Delivery]) -> ResultsByQuery:
        parts = self._selections(due)
        ended = self.clock()
        schemas = self.router.result_schemas if self.router else {}
        named: dict[str, list[QueryResults]] = {}
        waited: dict[int, ResponseTimes] = {}
        for key, subscriber in sorted((self.subscribers.all | self.departing).items(), key=lambda m: m[0][1]):
            for part in parts[key]:
                if part.released is None:
                    subscriber.response_times.add(ended - part.batch.arrived, len(part.chosen))
                    continue
                # Queries that get the same results have the very same times.
                if (each := id(part.released)) not in waited:
                    waited[each] = ResponseTimes.of(part.released - part.batch.arrived)
                subscriber.response_times.merge(waited[each])
            bound = subscriber.bound or BoundSubscription((), {})
            results = QueryResults(bound, schemas, tuple(parts[key]), ended)
            named.setdefault(subscriber.name, []).append(results)
        self.undelivered, self.departing, self.departed = {}, {}, self.departing
        return ResultsByQuery(named)

    def _selections(self, due: Sequence[Delivery]) -> dict[Key, list[ResultSelection]]:
        """Each query's part of the results that are due, after those routed before subscribers changed."""
        if self.router is not None:
            self.runner.counters.results += self.router.routed
            self.router.routed = 0
        keys = (*self.subscribers.outputs, *self.departing)
        parts = {key: list(self.undelivered.get(key, ())) for key in keys}
        for release in due:
            batch, released = release.batch, release.released
            routed = self.subscribers.tiers.route(batch.ranks)
            for key, output in self.subscribers.outputs.items():
                if release.first <= output < release.end and len(routed[output]):
                    chosen = self._chosen(self.subscribers.all[key], batch, routed[output])
                    times = released if released is None or len(chosen) == len(batch) else released[chosen]
                    parts[key].append(ResultSelection(batch, chosen, times))
        return parts

    def _chosen(self, subscriber: Subscriber, piece: ResultBatch, held: Array) -> Array:
        """Positions in the piece that a query gets, among those its windows hold."""
        held = subscriber.inside(piece.newest, held)
        assert subscriber.bound is not None
        if subscriber.bound.plain:
            return held
        try:
            passed = piece.passes(subscriber.bound)
            chosen = held if passed is None else held[passed[held]]
            if self.runner.join is not None:
                self.runner.join.failed.add(piece.failures(subscriber.bound, held), piece.columns, len(piece))
            if len(chosen) and self._added(subscriber):
                piece.prepare(subscriber.bound)
            return chosen
        except Exception as error:
            # A failing expression of an added query must not stop the others; one of the initial queries may.
            if not self._added(subscriber):
                raise
            if len(self.control_errors) < MOST_REASONS:
                self.control_errors.append(short(f"query '{subscriber.name}' misses some results: {error}"))
            return held[:0]

    def _added(self, subscriber: Subscriber) -> bool:
        """Whether it was added while the join was running."""
        return subscriber.number > 0 or subscriber.name not in self._initial

    def _deliveries(self) -> list[Delivery]:
        if self.runner.join is None or self.router is None:
            return []
        if self.scheduler is not None:
            released = self.scheduler.deliveries(len(self.subscribers.tiers))
            self.scheduler.retain_rows(self.runner.join.windows)
            return released
        pieces, self.router.batches = self.router.batches, []
        batches = ordered(pieces, len(self.subscribers.all))
        return [Delivery(batch, 0, len(self.subscribers.tiers)) for batch in batches]

    def _drop_ended(self) -> None:
        """Remove queries whose end every stream has passed: no more results can arrive."""
        reached = [self.runner.watermarks.watermark(s) for s in range(len(self.runner.buffer))]
        if any(t is None for t in reached):
            return
        passed = min(t for t in reached if t is not None)
        outer = self.runner.join.outer if self.runner.join else None
        over = [
            m.key
            for m in self.subscribers
            if m.until is not None and m.until <= passed and not (outer and outer.waits_before(m.until))
        ]
        if over:
            # What was deferred is still theirs, so it is found first.
            self._drain()
            self._drop(over)

    def _drop(self, keys: list[Key]) -> None:
        """End these queries, except for results already routed to them."""
        due = (key for key in keys if any(len(part.chosen) for part in self.undelivered.get(key, ())))
        self.departing |= {key: self.subscribers.all[key] for key in due}
        self.subscribers.drop(keys)
        self._install()

    def _completeness(self, subscription: Subscription, at: int | None) -> Completeness:
        """From which event time on a new query's answers are complete."""
        found = Completeness(at)
        if self.runner.join is not None:
            found.lack_expired(self.runner.join.windows, self.subscribers.tiers.largest, subscription.windows)
        return found
