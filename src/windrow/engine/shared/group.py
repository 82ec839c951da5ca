"""The operator of one group: queries that share one join, in this process.

It is the ordinary operator over the largest windows; only its results are not built one by one but routed.
Without a deadline a call finishes all its rows, so there is nothing to schedule; with one, see `carry.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.control import SetBack, refusing, short
from windrow.engine.operator import Operator
from windrow.engine.shared.bound import Bound, bind
from windrow.engine.shared.carry import Carrier, Release
from windrow.engine.shared.changes import Remove, read_change
from windrow.engine.shared.grouping import base_query
from windrow.engine.shared.names import Names
from windrow.engine.shared.results import Answer, Part, Piece, Results, ordered
from windrow.engine.shared.roster import NEVER, Key, Member, Roster
from windrow.engine.shared.routed import RoutedJoin, resize
from windrow.engine.shared.schedule import find_schedule
from windrow.engine.shared.siblings import Sibling, check_streams, choose
from windrow.errors import QueryError
from windrow.model.sharing import QueryMeasurements, Subscription
from windrow.model.units import SECOND, parse_duration

Array = np.ndarray
MOST_REASONS = 100


class GroupOperator(Operator):
    """
    Parameters
    ----------
    subscriptions
        Name to query; they can share a join (see `grouping.group`).
    schedule
        "lwo", "swf" or "greedy": what is served first when the deadline leaves no time for all.
    deadline
        Time a call may take, such as "2 seconds"; None: a call finishes all its rows.
    backlog
        Most rows that may be left behind; past that the deadline gives way. None: as many as the windows
        hold besides.
    clock
        Seconds, for response times and for how much work fits the deadline.
    """

    def __init__(
        self,
        subscriptions: Mapping[str, Subscription],
        schedule: str = "greedy",
        deadline: str | None = None,
        backlog: int | None = None,
        schemas: Mapping[str, pa.Schema] | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.roster = Roster(subscriptions)
        self._begun_with = frozenset(subscriptions)
        self.rejected: list[str] = []
        """Why queries that were added got nothing or were let go; for whoever reports it."""
        self.clock = clock
        self._routed: RoutedJoin | None = None
        self._began = 0.0
        self.early: dict[Key, list[Part]] = {}
        """Parts that were routed before the roster changed."""
        self.leaving: dict[Key, Member] = {}
        """Queries that are over, and have yet to get what was carried over for them."""
        self.gone: dict[Key, Member] = {}
        """Those that got the last of theirs with the last call."""
        self._carrier: Carrier | None = None
        self.names, self.number = Names([subscriptions]), 0
        """Of all joins that get the same control messages, and which of them this is."""
        self.siblings: tuple[Sibling, ...] = ()
        """All these joins, if there are others."""
        if deadline is not None:
            seconds = parse_duration(deadline, "deadline") / SECOND
            if seconds <= 0:
                raise QueryError(f"deadline: must be positive, got {deadline!r}")
            self._carrier = Carrier(find_schedule(schedule), seconds, backlog)
        else:
            find_schedule(schedule)
        super().__init__(base_query(self.roster.like, self.roster.ladder.top), schemas)

    # -- the public face ----------------------------------------------------------------------------

    def handle(self, data: Mapping[str, pa.Table | pa.RecordBatch], now: int | None = None) -> Results:
        """As `process`, with a table for each query."""
        self._began = self.clock()
        self._drop_ended()
        self.process(data, now=now)
        return self._hand_on()

    def conclude(self) -> Results:
        """As `finish`, with a table for each query; whatever was left behind is served."""
        self._began = self.clock()
        self.finish()
        return self._hand_on()

    def add(self, name: str, asked: Subscription, at: int | None = None) -> None:
        """A query from event time `at` on, or from now on. It starts with what the windows hold."""
        if not isinstance(name, str) or not name:
            raise QueryError(f"add: a query's name must be a text, got {name!r}")
        at = self._now if at is None else at
        self.names.check_new(name, at)
        self.sibling.check(name, asked)
        self.roster.check_room()
        completeness = self._completeness(asked, at)
        self._settle()
        number = self.names.begin(name, self.number)
        self.roster.add(Member(name, asked, at, None, *completeness, number=number))
        self._install()

    def remove(self, name: str, at: int | None = None) -> None:
        """No results for this query from event time `at` on, or from now on."""
        at = self._now if at is None else at
        self.names.check_old(name, at)
        self._settle()
        self.names.end(name, at)
        member = self.roster.last(name)
        if member is not None:
            member.until = at
            if at is None or member.empty:
                self._drop([member.key])

    def control(self, document: str | Mapping[str, Any]) -> None:
        """Applies a message as `SharedOperator.control`; of queries of other joins it takes note."""
        change = read_change(document)
        with refusing():
            joins = self.siblings or (self.sibling,)
            if isinstance(change, SetBack):
                check_streams(change, joins)
                self.set_back({a: t for a, t in change.times.items() if a in self.query.streams})
                return
            at = self._now if change.at is None else change.at
            if isinstance(change, Remove):
                self.names.check_old(change.name, at)
                if self.names.join_of(change.name) == self.number:
                    self.remove(change.name, at)
                else:
                    self.names.end(change.name, at)
                return
            owner = choose(change, joins, self.names)
            asked = change.subscription(joins[owner].like)
            self.names.check_new(change.name, at)
            joins[owner].check(change.name, asked)
            if owner == self.number:
                self.add(change.name, asked, at)
            else:
                self.names.begin(change.name, owner)

    @property
    def sibling(self) -> Sibling:
        """This join as others see it."""
        return Sibling(self.roster.like, self._routed.named_schemas if self._routed else None)

    @property
    def _now(self) -> int | None:
        """The first event time after all that was seen of any stream; None if nothing was."""
        newest = self._frontier.newest_of_all
        return None if newest is None else newest + 1

    def measure_queries(self) -> dict[str, QueryMeasurements]:
        return {m.name: m.measure(self.backlog(m)) for m in self.roster}

    def backlog(self, member: Member) -> int:
        """Rows whose results a query does not have yet."""
        return self._carrier.left(self.roster.output(member)) if self._carrier else 0

    @property
    def carrier(self) -> Carrier | None:
        """What is carried over, where there is a deadline."""
        return self._carrier

    @property
    def routed(self) -> RoutedJoin | None:
        """The join; None until all schemas are known."""
        return self._routed

    def serve_all(self, schedule: str = "lwo") -> None:
        """Rows were carried over, but there is no deadline any more: they are served with the next call."""
        if self._carrier is None:
            self._carrier = Carrier(find_schedule(schedule), math.inf)

    def enroll(self, members: Sequence[Member]) -> None:
        """These queries instead of those it was made with; before any row."""
        self.roster.members = {m.key: m for m in members}
        self.roster.drop([])
        self._install()

    # -- inside -------------------------------------------------------------------------------------

    def _open(self) -> None:
        if self._join is None and all(s is not None for s in self._schemas):
            self._routed = RoutedJoin(self.query, [s for s in self._schemas if s is not None])
            self._join = self._routed
            self._dismiss()
            self._install()

    def _dismiss(self) -> None:
        """Queries that were added before the columns were known and ask for one that there is not: they go,
        and the others go on."""
        assert self._routed is not None
        for member in [m for m in self.roster if self._added(m)]:
            try:
                bind(member.name, member.asked, self._routed.named_schemas)
            except QueryError as error:
                self.rejected.append(f"add: {error}")
                self.roster.drop([member.key])
                self.names.end(member.name, None)

    def _install(self) -> None:
        """Brings the join into line with the roster."""
        ladder = self.roster.ladder
        self.query = base_query(self.roster.like, ladder.top)
        self._controller.follow(self.query)
        if self._routed is None:
            return
        bounds = self.roster.bind(self._routed.named_schemas)
        self._routed.query = self.query
        self._routed.subscribe(ladder, bounds)
        resize(self._routed, ladder.top, self._seq)

    def _run(self, final: bool, seconds: float | None = None) -> Iterator[pa.RecordBatch]:
        if self._routed is not None:
            self._routed.now = self._began
        if self._routed is None or self._carrier is None:
            yield from super()._run(final, seconds)
            return
        self._controller.restart(self._routed)
        self._carrier.begin(self._routed)
        yield from super()._run(final, seconds)
        self._carrier.serve(self._routed, self.clock, everything=final)

    def _settle(self) -> None:
        """Serves what was left behind, for the queries as they are: rungs are about to change."""
        if self._carrier is not None and self._routed is not None:
            self._controller.resume(self._routed)
            self._carrier.settle(self._routed)
        self.early = {key: list(answer.parts) for key, answer in self._answers().items()}

    def _hand_on(self) -> Results:
        answers = self._answers()
        ended = self.clock()
        named: dict[str, Answer] = {}
        for key, member in sorted((self.roster.members | self.leaving).items(), key=lambda m: m[0][1]):
            for part in answers[key].parts:
                member.responses.add(ended - part.piece.arrived, len(part.chosen))
            named[member.name] = replace(answers[key], before=named.get(member.name))
        self.early, self.leaving, self.gone = {}, {}, self.leaving
        self._note_complete()
        return Results(named)

    def _answers(self) -> dict[Key, Answer]:
        """What each query gets of what was found since the last look."""
        members = (*self.roster, *self.leaving.values())
        parts: dict[Key, list[Part]] = {m.key: list(self.early.get(m.key, ())) for m in members}
        for release in self._releases():
            routed = self.roster.ladder.route(release.piece.ranks)
            for m in self.roster:
                output = self.roster.output(m)
                if release.first <= output < release.end:
                    parts[m.key].append(Part(release.piece, self._chosen(m, release.piece, routed[output])))
        schemas = self._routed.named_schemas if self._routed else {}
        empty = Bound((), {})
        return {m.key: Answer(m.bound or empty, schemas, tuple(parts[m.key])) for m in members}

    def _chosen(self, member: Member, piece: Piece, held: Array) -> Array:
        """Positions in the piece that a query gets, of those its windows hold."""
        held = member.inside(piece.newest, held)
        assert member.bound is not None
        try:
            passed = piece.passes(member.bound)
            chosen = held if passed is None else held[passed[held]]
            if len(chosen) and self._added(member):
                piece.prepare(member.bound)
            return chosen
        except Exception as error:
            # Rows for which an expression fails must not stop the other queries; the user's own may.
            if not self._added(member):
                raise
            if len(self.rejected) < MOST_REASONS:
                self.rejected.append(short(f"query '{member.name}' gets nothing of some rows: {error}"))
            return held[:0]

    def _added(self, member: Member) -> bool:
        """Whether it came while the join ran."""
        return member.number > 0 or member.name not in self._begun_with

    def _releases(self) -> list[Release]:
        if self._routed is None:
            return []
        if self._carrier is not None:
            self._tally.results = self._carrier.found
            released = self._carrier.release(len(self.roster.ladder))
            self._carrier.hold(self._routed)
            return released
        pieces, self._routed.pieces = self._routed.pieces, []
        self._tally.results += sum(map(len, pieces))
        return [
            Release(piece, 0, len(self.roster.ladder)) for piece in ordered(pieces, len(self.roster.members))
        ]

    def _drop_ended(self) -> None:
        """Queries whose time is over: every stream has passed it, so none of their results can come."""
        reached = [self._frontier.earliest(s) for s in range(len(self._waiting))]
        if any(t is None for t in reached):
            return
        passed = min(t for t in reached if t is not None)
        over = [m.key for m in self.roster if m.until is not None and m.until <= passed]
        if over:
            self._settle()
            self._drop(over)

    def _drop(self, keys: list[Key]) -> None:
        """These queries are over, but for what was routed to them before."""
        due = (key for key in keys if any(len(part.chosen) for part in self.early.get(key, ())))
        self.leaving |= {key: self.roster.members[key] for key in due}
        self.roster.drop(keys)
        self._install()

    def _completeness(self, asked: Subscription, at: int | None) -> tuple[int | None, list[int]]:
        """From when a new query's answers are complete, and how many rows its counted windows await."""
        whole, awaits = at, [0] * len(asked.windows)
        if self._routed is None:
            return whole, awaits
        for stream, (window, held) in enumerate(zip(asked.windows, self.roster.ladder.top, strict=True)):
            if window.size <= held.size:
                continue
            counted, horizon = self._routed.counted[stream], self._routed.horizons[stream]
            if counted is None:
                if horizon is not None:
                    whole = max(horizon + window.size, whole or horizon)
            elif counted.keys is not None:
                whole, awaits[stream] = NEVER, NEVER
            elif counted.total > held.size:
                whole, awaits[stream] = NEVER, counted.total - held.size + window.size
        return whole, awaits

    def _note_complete(self) -> None:
        for member in self.roster:
            if member.complete_from != NEVER or self._routed is None:
                continue
            totals = [0 if c is None else c.total for c in self._routed.counted]
            if all(came >= due for came, due in zip(totals, member.awaits, strict=True)):
                # Rows of the last time may have come before the row that made the window whole.
                whole = (self._frontier.newest_of_all or 0) + 1
                member.complete_from = whole if member.since is None else max(member.since, whole)
