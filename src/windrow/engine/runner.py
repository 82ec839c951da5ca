"""Runs one join: rows in, results into its sink, in one process.

    read -> admit -> for each sub-batch: expire, append, probe

Rows are buffered only until all schemas are known or, in a join with row windows and late rows, until their
place in the order is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from windrow.engine.adaptive_planner import AdaptivePlanner
from windrow.engine.compile_notice import announce_compilation
from windrow.engine.completeness import Completeness
from windrow.engine.counters import Counters
from windrow.engine.input_buffer import (
    InputBuffer,
    check_nothing_buffered,
    expire_buffered,
    numbered_rows,
    warn_if_large,
)
from windrow.engine.join import Join, ResultSink
from windrow.engine.late_rows import AHEAD, LATE, DroppedRows, late_rows_table
from windrow.engine.learned_models import learned_models
from windrow.engine.limits.deadline_controller import DeadlineController
from windrow.engine.limits.timed_sub_batches import TimedSubBatches
from windrow.engine.operator_metrics import operator_metrics
from windrow.engine.result_builder import ResultBuilder
from windrow.engine.rows import ArrivingRows, as_batch, check_time_column, plain_schema, same_schema, timed
from windrow.engine.source_partitions import check_source_partition, newest_by_partition
from windrow.engine.sub_batches import sub_batches
from windrow.engine.threads import ONE_THREAD, Threads
from windrow.engine.watermarks import END, Expiry, Watermarks, earliest_to_come
from windrow.errors import DataError, StateError, unknown
from windrow.memory_models.allocation import RecallCurve
from windrow.model.learned_models import LearnedModels
from windrow.model.limits import MemoryLimit
from windrow.model.metrics import OperatorMetrics
from windrow.model.plan import Plan
from windrow.model.query import Query
from windrow.planning.bound_query import BoundQuery


class JoinRunner:
    """Runs a join and owns its buffers, watermarks and counters.

    Parameters
    ----------
    schemas
        Alias to pyarrow schema, as far as known.
    clock
        Seconds from an arbitrary origin, for deadlines; by default the machine's.
    make_sink
        Makes the sink of the results, once all schemas are known.
    spill_directory
        Where windows spill to; by default the system's directory for temporary files.
    """

    def __init__(
        self,
        query: Query,
        schemas: Mapping[str, pa.Schema] | None = None,
        clock: Callable[[], float] | None = None,
        make_sink: Callable[[BoundQuery], ResultSink] = ResultBuilder,
        threads: Threads = ONE_THREAD,
        spill_directory: str | None = None,
    ) -> None:
        announce_compilation()
        self.query = query
        count = len(query.streams)
        self._make_sink, self._threads, self._spill_directory = make_sink, threads, spill_directory
        self._number = {alias: k for k, alias in enumerate(query.aliases)}
        self.schemas: list[pa.Schema | None] = [None] * count
        self.join: Join | None = None
        """None until all schemas are known."""
        self.buffer = [InputBuffer() for _ in range(count)]
        tracked = [s.source_partition is not None for s in query.streams.values()]
        late, idle = query.watermark_delays, query.idle_timeout_us
        self.watermarks = Watermarks(late, idle, query.counts_rows, tracked)
        self.sees_all = True
        """Whether this join sees every row of its streams, and not one partition of them."""
        self.dropped: list[DroppedRows] = []
        """Rows that the last call dropped because of their time."""
        self.counters = Counters(count)
        self.expiry = Expiry(query.expire_interval)
        self.completeness = Completeness()
        self.changes: tuple[str, ...] = ()
        """Changes of the query since the state it was restored from, and their effect on the rows held."""
        self.planner = AdaptivePlanner(query)
        self.deadline_controller: DeadlineController | None = None
        if query.time_limit is not None:
            self.deadline_controller = DeadlineController(query.time_limit, query.time_policy, clock)
        self.overhead = 0.0
        """Seconds that recent calls took outside the join, which a deadline covers too: to read rows, and to
        load and store windows."""
        self.calls = 0
        self.seq = 0
        """Rows of all streams numbered so far, in a join with row windows."""
        self._broken = False
        self.rows_arrived = 0
        """Rows that arrived with this call."""
        for alias, schema in (schemas or {}).items():
            self._learn_schema(self._stream(alias), schema)
        self.create_join()

    # -- the data flow ------------------------------------------------------------------------------

    def process(
        self,
        data: Mapping[str, pa.Table | pa.RecordBatch],
        seconds: float | None = None,
        now: int | None = None,
    ) -> pa.Table:
        """Join new rows and return the results they complete; as `Operator.process`."""
        self.admit(self.read(data), now)
        return self._results(seconds=seconds)

    def finish(self) -> pa.Table:
        """Return the results that waited for rows which will not arrive any more."""
        self.close()
        return self._results(final=True)

    def _results(self, final: bool = False, seconds: float | None = None) -> pa.Table:
        with self.whole_call():
            return pa.Table.from_batches(self.run(final, seconds), self.result_schema)

    def read(self, data: Mapping[str, pa.Table | pa.RecordBatch]) -> dict[int, pa.RecordBatch]:
        """Check the rows of a call. The first rows of a stream define its schema."""
        self.check_usable()
        if self.deadline_controller is not None:
            self.deadline_controller.open()
        batches = {
            self._stream(alias): as_batch(alias, d, self.schemas[self._stream(alias)])
            for alias, d in data.items()
        }
        for stream, batch in batches.items():
            self._learn_schema(stream, batch.schema)
        self.create_join()
        return batches

    def admit(self, batches: Mapping[int, pa.RecordBatch], now: int | None = None) -> None:
        """Buffer the rows that have a time and are neither late nor too far ahead of `now`."""
        self.calls += 1
        self.rows_arrived = 0
        self.dropped = []
        bounds = [self.watermarks.bound(stream) for stream in range(len(self.buffer))]
        bound = self.query.head_start
        latest = None if now is None or bound is None else now + bound
        for stream, batch in batches.items():
            of = self.query.streams[self.query.aliases[stream]]
            earliest, origin = bounds[stream]
            ts, rows, left_out = timed(batch, of.time, earliest, latest)
            self.counters.admit(stream, batch.num_rows, left_out)
            if left_out.late is not None and earliest is not None:
                self.dropped.append(DroppedRows(stream, LATE, left_out.late, earliest, origin))
            if left_out.ahead is not None and latest is not None:
                self.dropped.append(DroppedRows(stream, AHEAD, left_out.ahead, latest, now))
            # Late rows count too: a source partition that has fallen behind holds the others back until it
            # has caught up, and does not fall behind further.
            for held in (rows, left_out.late) if of.source_partition is not None else ():
                if held is not None and held.num_rows:
                    self.watermarks.advance_partitions(stream, newest_by_partition(held, of))
            if len(ts):
                self.rows_arrived += len(ts)
                self.buffer[stream].add(ts, rows, np.full(len(ts), self.calls))
                self.watermarks.advance(stream, int(ts[-1]))
        if self.sees_all:
            self.watermarks.settle()
        if self.join is None:
            gone = expire_buffered(self.buffer, self.query, self.watermarks, self.schemas)
            self.counters.count("rows_expired", gone)
            warn_if_large(self.buffer, self.query, self.schemas)

    def run(self, final: bool = False, seconds: float | None = None) -> Iterator[pa.RecordBatch]:
        """Join the buffered rows that are ready, all of them if `final`; yield the batches of the sink."""
        if self.join is None:
            return
        arrivals = self._release(self.join, final)
        self.planner.prepare(self.join, arrivals, self.counters, self.watermarks.max_event_time)
        self.counters.filtered(arrivals)
        if not self.query.counts_rows:
            arrivals = [a.compact() for a in arrivals]
        at = [0] * len(arrivals)
        controller = self.deadline_controller
        plain = partial(sub_batches, self.query, self.join.memory_limit, self.join.windows)
        call: TimedSubBatches | None = None
        if controller is None:
            stops = plain(arrivals)
        else:
            call = TimedSubBatches(self.query, self.join, controller, arrivals, at)
            stops = call.cut(plain, self.rows_arrived, seconds)
        for stop in stops:
            sub_batch = [a.slice(i, j) for a, i, j in zip(arrivals, at, stop, strict=True)]
            yield from self._decide(self.join, arrivals, at)
            self._expire(arrivals, at)
            self.counters.sub_batches += 1
            yield from self.counters.counted(self.join.evaluate(sub_batch, controller))
            self.seq += sum(len(a.rows) for a in sub_batch) if self.query.counts_rows else 0
            at[:] = stop
        buffered = 0
        if call is not None:
            # Nothing is taken after the end of an outer join, so what is not processed by then is dropped.
            ended = final and self.join.outer is not None
            room = 0 if ended else self.query.time_policy.buffer_rows or 0
            buffered = call.buffer_rest(self.buffer, self.counters, room, self.calls)
        yield from self._decide(self.join, arrivals, at, final)
        self._expire(arrivals, at)
        if self.join.evictor is not None:
            self.join.windows.forget_keys()
        self.completeness.note(self.join.windows, self.watermarks.max_event_time)
        self.planner.replan(self.join, self.counters, self.watermarks.max_event_time)
        if call is not None:
            self.planner.reorder(self.join)
            call.end(buffered, self.watermarks.max_event_time)

    @contextmanager
    def whole_call(self) -> Iterator[None]:
        """Refuse further calls if this one fails: the join lacks some of its rows."""
        self._broken = True
        yield
        self._broken = False

    def close(self) -> None:
        """Declare that no row earlier than those seen will arrive; in an outer join, no row at all."""
        self.check_usable()
        if self.query.counts_rows:
            self.watermarks.close()
        if self.query.kind.shapes:
            check_nothing_buffered(self.buffer, self.query, self.schemas)
            self.watermarks.close(END)

    @property
    def result_schema(self) -> pa.Schema:
        if self.join is not None:
            return self.join.sink.schema
        kinds = [pa.null() if s is None else pa.struct(list(s)) for s in self.schemas]
        return pa.schema([(a, kinds[self._number[a]]) for a in self.query.kind.result_aliases])

    # -- reports ------------------------------------------------------------------------------------

    @property
    def plan(self) -> Plan | None:
        """The current plan; None until all schemas are known."""
        plan = self.join.plan if self.join else None
        load_shedder = self.join.load_shedder if self.join else None
        return replace(plan, harvest=load_shedder.harvest) if plan and load_shedder else plan

    @property
    def work(self) -> tuple[int, int]:
        """Rows compared and rows stored so far."""
        before = self.counters.compared_before
        if self.join is None:
            return before, 0
        return before + self.join.comparisons, self.counters.rows_evaluated(self.join)

    def metrics(self) -> OperatorMetrics:
        return operator_metrics(self)

    def forecast(self) -> RecallCurve | None:
        """Expected recall by memory; None without a memory limit or a model of it."""
        self.check_usable()
        if self.join is None or self.join.evictor is None or self.counters.sub_batches == 0:
            return None
        forecast = self.join.evictor.forecast(self.join.windows)
        return None if forecast is None else forecast.curve(self.join.evictor.limit.kind)

    def learned_models(self) -> LearnedModels:
        throttle = self.deadline_controller.mean_throttle if self.deadline_controller else 1.0
        return learned_models(self.query, self.join, throttle)

    def late_rows(self) -> pa.Table:
        """The rows that the last call dropped because of their time."""
        return late_rows_table(self.query, self.schemas, self.dropped)

    # -- changes from outside -----------------------------------------------------------------------

    def advance_event_time(self, reached: Mapping[str, int | None]) -> None:
        """Advance to event times that other partitions have seen (microseconds since 1970)."""
        self.check_usable()
        for alias, time in reached.items():
            if time is not None:
                self.watermarks.advance(self._stream(alias), time)

    def advance_partition_times(self, reached: Sequence[Mapping[str | None, int]]) -> None:
        """Advance to what all partitions of the join have seen of each stream's source partitions, before
        this micro-batch. From now on they settle only here, because this join sees a part of their rows."""
        self.sees_all = False
        for stream, times in enumerate(reached):
            self.watermarks.advance_partitions(stream, times)
        self.watermarks.settle()

    def set_back(self, times: Mapping[str, int]) -> None:
        """Set streams back to these event times, where a wrong row has advanced them too far.

        Rows from there on, less `late`, are admitted again. Rows that were dropped as late, and rows of other
        streams that have expired, are not recovered. Rows later than the time stay.
        """
        self.check_usable()
        for alias, time in times.items():
            self.watermarks.set_back(self._stream(alias), time)
        newest = self.watermarks.max_event_time
        if newest is None:
            return
        self.expiry.set_back()
        for part in (self.planner, self.deadline_controller, self.join):
            if part is not None:
                part.turn_back(newest)

    def learn_overhead(self, seconds: float) -> None:
        """This call took so long outside the join. Only later calls get less time for it, so another attempt
        at this one does the same work."""
        self.overhead += (seconds - self.overhead) * (0.5 if self.overhead else 1.0)

    def set_memory_limit(self, limit: MemoryLimit) -> None:
        """Change the memory limit from the next rows on, if the query has one, in the unit of that."""
        whole = self.query.memory_limit
        if self.join is not None and whole is not None:
            self.join.set_memory_limit(limit, whole)

    def set_windows(self, query: Query) -> None:
        """Continue the same join over other windows."""
        self.query = query
        self.planner.set_query(query)
        if self.join is not None:
            self.join.windows.resize([stream.window for stream in query.streams.values()], self.seq)

    # -- inside -------------------------------------------------------------------------------------

    def _stream(self, alias: str) -> int:
        if alias not in self._number:
            raise DataError(unknown("stream", str(alias), self._number))
        return self._number[alias]

    def check_usable(self) -> None:
        if self._broken:
            raise StateError(
                "an earlier call of this operator failed halfway, so some of its rows are missing; "
                "resume from the last snapshot with Operator.restore"
            )

    def _learn_schema(self, stream: int, schema: pa.Schema) -> None:
        known = self.schemas[stream]
        alias = self.query.aliases[stream]
        if known is not None:
            same_schema(alias, known, schema)
            return
        check_time_column(alias, schema, self.query.streams[alias].time)
        check_source_partition(alias, schema, self.query.streams[alias].source_partition)
        self.schemas[stream] = plain_schema(schema)

    def create_join(self) -> None:
        """Create the join if all schemas are known."""
        schemas = [s for s in self.schemas if s is not None]
        if self.join is None and len(schemas) == len(self.schemas):
            bound = BoundQuery.of(self.query, schemas)
            self.join = Join(bound, self._make_sink, self._threads, self._spill_directory)

    def _release(self, join: Join, final: bool) -> list[ArrivingRows]:
        """Rows that are ready, per stream in time order, with their join columns."""
        before = self.watermarks.ordered_before if self.query.counts_rows and not final else None
        taken = [w.release(before, self.schemas[s]) for s, w in enumerate(self.buffer)]
        found = [join.windows.readers[s].read_new(ts, batch) for s, (ts, batch, _) in enumerate(taken)]
        arrivals = [arrived for arrived, _ in found]
        self.counters.count("rows_failed", [failed for _, failed in found])
        if not self.query.counts_rows:
            return arrivals
        numbered = numbered_rows([ts for ts, _, _ in taken], [call for _, _, call in taken], self.seq)
        return [replace(a, seq=seq) for a, seq in zip(arrivals, numbered, strict=True)]

    def _expire(self, arrivals: Sequence[ArrivingRows], at: Sequence[int]) -> None:
        """Expire rows before those from `at` on are stored."""
        assert self.join is not None
        join, earliest = self.join, earliest_to_come(self.watermarks, arrivals, at)
        if self.expiry.due(earliest, lambda: self.counters.rows_evaluated(join)):
            self.counters.count("rows_expired", self.expiry.run(join.windows, earliest, self.seq))

    def _decide(
        self, join: Join, arrivals: Sequence[ArrivingRows], at: Sequence[int], final: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Decided results of an outer join. Runs before expiry: deciding may need rows about to expire."""
        if join.outer is not None:
            earliest = [END] * len(arrivals) if final else earliest_to_come(self.watermarks, arrivals, at)
            yield from self.counters.counted(join.decide(earliest))
