"""The operator: tables in, results out, in one process.

`process` reads as the data flows: admit rows, cut them into sub-batches, and for each expire, append and
probe (join.py). Rows wait outside the windows only until all schemas are known or, where windows are counted
in rows and rows may be late, until their place in the order is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.engine.adaptive_planner import AdaptivePlanner
from windrow.engine.compile_notice import announce_compilation
from windrow.engine.counters import Counters
from windrow.engine.expiry import Expiry
from windrow.engine.input_buffer import InputBuffer, expire_buffered, warn_if_large
from windrow.engine.join import ArrivingRows, Join
from windrow.engine.learned_models import learned_models
from windrow.engine.limits.deadline_controller import FIRST_ROWS, DeadlineController
from windrow.engine.rows import LeftOut, as_batch, check_time_column, plain_schema, same_schema, timed
from windrow.engine.snapshot import pack, unpack
from windrow.engine.state import capture, restore
from windrow.engine.steering import apply, turn_clocks_back
from windrow.engine.sub_batches import SubBatchCutter, cut, default_sub_batch_rows, interval_under_limit
from windrow.engine.watermarks import END, Watermarks
from windrow.errors import DataError, QueryError, StateError, unknown
from windrow.harvest.call_costs import Timed
from windrow.memory_models.allocation import RecallCurve
from windrow.model.interval import Interval
from windrow.model.learned_models import LearnedModels
from windrow.model.limits import MemoryLimit
from windrow.model.metrics import OperatorMetrics
from windrow.model.plan import Plan
from windrow.model.query import Query

Array = np.ndarray


class Operator:
    """A window join that runs in this process.

    Parameters
    ----------
    query
        What to join.
    schemas
        Alias to pyarrow schema, where they are known beforehand; mistakes in the query are then found here.
        A stream whose schema is not given shows it with its first batch.
    clock
        Seconds from any origin, to hold a deadline by.

    Examples
    --------
    >>> import pyarrow as pa, windrow as wr
    >>> query = wr.Query({"a": wr.Stream("ts", "5 s"), "b": wr.Stream("ts", "5 s")}, on="a.k = b.k")
    >>> rows = pa.table({"ts": pa.array([0, 9_000_000], pa.timestamp("us")), "k": [1, 1]})
    >>> wr.Operator(query).process({"a": rows, "b": rows}).num_rows
    2
    """

    def __init__(
        self,
        query: Query,
        schemas: Mapping[str, pa.Schema] | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        announce_compilation()
        self.query = query
        count = len(query.streams)
        self._number = {alias: k for k, alias in enumerate(query.aliases)}
        self._schemas: list[pa.Schema | None] = [None] * count
        self._join: Join | None = None
        self._buffer = [InputBuffer() for _ in range(count)]
        self._watermarks = Watermarks(
            count, query.watermark_delay_us, query.idle_timeout_us, query.counts_rows
        )
        self._counters = Counters(count)
        self._expiry = Expiry(query.expire_interval)
        self._planner = AdaptivePlanner(query)
        self._deadline_controller: DeadlineController | None = None
        if query.time_limit is not None:
            self._deadline_controller = DeadlineController(query.time_limit, query.time_policy, clock)
        self._broken = False
        self._calls = 0
        self._seq = 0
        self._arrivals = 0
        """Rows that came with this call."""
        for alias, schema in (schemas or {}).items():
            self._learn_schema(self._stream(alias), schema)
        self._create_join()

    # -- the public face ----------------------------------------------------------------------------

    def process(
        self,
        data: Mapping[str, pa.Table | pa.RecordBatch],
        seconds: float | None = None,
        now: int | None = None,
    ) -> pa.Table:
        """Takes in rows, in any order and of any of the streams, and returns the results they complete.

        `seconds` is what this call may take, where that is not what the query's deadline says. `now` is the
        clock's time, in microseconds since 1970, that rows may be `ahead` of.

        Returns a table with a struct column per stream. A row further behind than `late` is left out and
        counted, as is a row without a time, or one too far ahead of `now`.
        """
        self._check_usable()
        if self._deadline_controller is not None:
            self._deadline_controller.open()
        batches = {
            self._stream(alias): as_batch(alias, d, self._schemas[self._stream(alias)])
            for alias, d in data.items()
        }
        for stream, batch in batches.items():
            self._learn_schema(stream, batch.schema)
        self._create_join()
        self._admit(batches, now)
        if self._join is None:
            self._counters.count(
                "rows_expired", expire_buffered(self._buffer, self.query, self._watermarks, self._schemas)
            )
            warn_if_large(self._buffer, self.query, self._schemas)
        return self._table(self._run(final=False, seconds=seconds))

    def finish(self) -> pa.Table:
        """Declares that nothing earlier than what was seen will come, and returns what had to wait for it.

        Only a query with row windows and with `late` holds rows back. In an outer, semi, anti or as-of join
        it declares the end of all streams: everything that waits is decided, and any later row is late.
        """
        self._check_usable()
        if self.query.counts_rows:
            self._watermarks.close()
        if self.query.kind.shapes:
            self._check_buffers_empty()
            self._watermarks.closed_at = END
        return self._table(self._run(final=True))

    def advance_event_time(self, reached: Mapping[str, int | None]) -> None:
        """Takes note that a stream has come so far elsewhere, in microseconds since 1970, as if a row of that
        time had been seen; where an operator meets only a part of each stream's rows."""
        self._check_usable()
        for alias, time in reached.items():
            if time is not None:
                self._watermarks.advance(self._stream(alias), time)

    def set_aside(self, rows: Mapping[str, int]) -> None:
        """Counts rows of each stream that came and were found too far ahead, where someone else looks."""
        for alias, count in rows.items():
            self._counters.admit(self._stream(alias), count, LeftOut(0, 0, count))

    def watermark(self, alias: str) -> int | None:
        """The oldest time the next call takes a row of this stream with; None while any time will do."""
        return self._watermarks.watermark(self._stream(alias))

    @property
    def plan(self) -> Plan | None:
        """The plan in force; None until all schemas are known."""
        if self._join is None or self._join.plan is None:
            return None
        load_shedder = self._join.load_shedder
        return (
            self._join.plan
            if load_shedder is None
            else replace(self._join.plan, harvest=load_shedder.harvest)
        )

    @property
    def work(self) -> tuple[int, int]:
        """Rows compared and rows taken into the windows so far."""
        if self._join is None:
            return self._counters.compared_before, 0
        return self._counters.compared_before + self._join.comparisons, self._counters.rows_evaluated(
            self._join
        )

    def metrics(self) -> OperatorMetrics:
        """Counters and sizes, for the whole operator and per stream."""
        return self._counters.measurements(
            self.query.aliases,
            self._join,
            [len(w) for w in self._buffer],
            self._watermarks.max_event_times,
            self._planner,
            self._expiry.passes,
            self._deadline_controller,
        )

    def forecast(self) -> RecallCurve | None:
        """The recall to expect of how much memory, from what was learned so far.

        None without a memory limit, and of policies that have no model of it.
        """
        self._check_usable()
        if self._join is None or self._join.evictor is None or self._counters.sub_batches == 0:
            return None
        evictor = self._join.evictor
        outlook = evictor.forecast(self._join)
        return None if outlook is None else outlook.curve(evictor.limit.kind)

    def learned_models(self) -> LearnedModels:
        """What is known of the streams by now, and the plan: age curves, lags, the harvest."""
        return learned_models(
            self.query,
            self._join,
            self._deadline_controller.mean_throttle if self._deadline_controller else 1.0,
        )

    def set_memory_limit(self, limit: MemoryLimit) -> None:
        """Another memory limit from now on; the query must have one. What no longer fits goes with the next
        rows."""
        self._check_usable()
        if self.query.memory_limit is None:
            raise QueryError("resize: this query has no memory limit; give Query(memory=...) one")
        if limit.kind != self.query.memory_limit.kind:
            raise QueryError(f"resize: the query's limit counts {self.query.memory_limit.kind}, got {limit}")
        if self._join is not None and self._join.evictor is not None:
            self._join.evictor.limit = limit

    def memory_demand(self) -> float | None:
        """What complete windows would take lately, in the unit of the memory limit; None without a limit."""
        if self._join is None or self._join.evictor is None:
            return None
        return self._join.evictor.memory_demand(self._join)

    def control(self, document: str | Mapping[str, Any]) -> None:
        """Changes how the query runs, from a stated event time on.

        Parameters
        ----------
        document
            A mapping, or JSON: {"at": "2026-01-31T12:00:00Z", "importance": {"b": "b.price * 2"}}. `at` is an
            event time, as text or in microseconds since 1970; `importance` is as in `Importance(by=...)`.
            Or {"event_time": {"b": "2026-01-31T12:00:00Z"}}: see `set_back`. What is refused changes nothing.
        """
        self._check_usable()
        apply(self, document)

    def set_back(self, times: Mapping[str, int]) -> None:
        """Streams go on from these event times (microseconds since 1970), where a wrong row has pushed them
        further: rows from there on, less `late`, are taken again.

        It brings nothing back: rows that were left out as late, and rows of other streams that have expired,
        stay gone. Rows later than the time stay. A stream that has not come so far is left as it is.
        """
        self._check_usable()
        for alias, time in times.items():
            self._watermarks.set_back(self._stream(alias), time)
        turn_clocks_back(self)

    def snapshot(self) -> bytes:
        """Everything the operator knows, as bytes for `restore`."""
        self._check_usable()
        return pack(capture(self))

    @classmethod
    def restore(cls, query: Query, blob: bytes, clock: Callable[[], float] = perf_counter) -> Operator:
        """An operator that goes on where the one that wrote `blob` stopped. The query must be the same."""
        return restore(cls, query, unpack(blob), clock)

    # -- inside -------------------------------------------------------------------------------------

    def _stream(self, alias: str) -> int:
        if alias not in self._number:
            raise DataError(unknown("stream", str(alias), self._number))
        return self._number[alias]

    def _check_usable(self) -> None:
        if self._broken:
            raise StateError(
                "an earlier call of this operator failed halfway, so some of its rows are missing; "
                "go on from the last snapshot with Operator.restore"
            )

    def _learn_schema(self, stream: int, schema: pa.Schema) -> None:
        known = self._schemas[stream]
        alias = self.query.aliases[stream]
        if known is not None:
            same_schema(alias, known, schema)
            return
        check_time_column(alias, schema, self.query.streams[alias].time)
        self._schemas[stream] = plain_schema(schema)

    def _check_buffers_empty(self) -> None:
        """Rows of an outer join that wait for a stream that was never seen must not be lost."""
        unseen = [a for a, s in zip(self.query.aliases, self._schemas, strict=True) if s is None]
        if unseen and any(map(len, self._buffer)):
            raise DataError(
                f"streams {unseen} never came, so their columns are not known and rows of the others cannot "
                "be given out without them; give Operator(query, schemas={...})"
            )

    def _create_join(self) -> None:
        """Sets up the windows as soon as all schemas are known."""
        if self._join is None and all(s is not None for s in self._schemas):
            self._join = Join(self.query, [s for s in self._schemas if s is not None])

    def _admit(self, batches: Mapping[int, pa.RecordBatch], now: int | None) -> None:
        """Puts rows that are neither without time nor late nor far ahead into the waiting room."""
        self._calls += 1
        self._arrivals = 0
        earliest = [self._watermarks.watermark(stream) for stream in range(len(self._buffer))]
        bound = self.query.head_start
        latest = None if now is None or bound is None else now + bound
        for stream, batch in batches.items():
            time = self.query.streams[self.query.aliases[stream]].time
            ts, rows, left_out = timed(batch, time, earliest[stream], latest)
            self._counters.admit(stream, batch.num_rows, left_out)
            if len(ts):
                self._arrivals += len(ts)
                self._buffer[stream].add(ts, rows, np.broadcast_to(self._calls, len(ts)))
                self._watermarks.advance(stream, int(ts[-1]))

    def _run(self, final: bool, seconds: float | None = None) -> Iterator[pa.RecordBatch]:
        if self._join is None:
            return
        arrivals = self._release(self._join, final)
        self._planner.prepare(self._join, arrivals, self._counters, self._watermarks.max_event_time)
        self._counters.filtered(arrivals)
        if not self.query.counts_rows:
            arrivals = [a.stored() for a in arrivals]
        at = [0] * len(arrivals)
        controller = self._deadline_controller
        before = self._join.found, self._join.skipped
        sub_batches = (
            self._sub_batches(arrivals)
            if controller is None
            else self._timed(controller, arrivals, at, seconds)
        )
        for stop in sub_batches:
            sub_batch = [a.slice(i, j) for a, i, j in zip(arrivals, at, stop, strict=True)]
            yield from self._decide(arrivals, at)
            self._expire(arrivals, at)
            self._counters.sub_batches += 1
            for batch in self._join.evaluate(sub_batch, controller):
                self._counters.results += batch.num_rows
                yield batch
            self._seq += sum(len(a.rows) for a in sub_batch) if self.query.counts_rows else 0
            at[:] = stop
        yield from self._decide(arrivals, at, final)
        self._expire(arrivals, at)
        self._join.forget_keys()
        self._planner.replan(self._join, self._counters, self._watermarks.max_event_time)
        if controller is not None:
            self._planner.reorder(self._join)
            controller.end_call(
                self._buffer_unprocessed(arrivals, at), self._watermarks.max_event_time, self._built(before)
            )

    def _release(self, join: Join, final: bool) -> list[ArrivingRows]:
        """The rows whose turn it is, each stream's ascending in time, with their words."""
        before: int | None = None
        if self.query.counts_rows and self.query.watermark_delay_us and not final:
            top = self._watermarks.max_event_time
            before = None if top is None else top - self.query.watermark_delay_us
        taken = [w.release(before, self._schemas[s]) for s, w in enumerate(self._buffer)]
        arrivals = [join.read(s, ts, batch) for s, (ts, batch, _) in enumerate(taken)]
        if not self.query.counts_rows:
            return arrivals
        times = np.concatenate([ts for ts, _, _ in taken])
        calls = np.concatenate([call for _, _, call in taken])
        source = np.repeat(np.arange(len(taken)), [len(ts) for ts, _, _ in taken])
        seq = np.empty(len(times), np.int64)
        seq[np.lexsort((source, calls, times))] = self._seq + np.arange(len(times))
        parts = np.split(seq, np.cumsum([len(ts) for ts, _, _ in taken])[:-1])
        return [ArrivingRows(a.rows, a.joinable, a.keys, p) for a, p in zip(arrivals, parts, strict=True)]

    def _decide(
        self, arrivals: Sequence[ArrivingRows], at: Sequence[int], final: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Results of an outer join that waited for rows that can no longer come. Before rows expire: what is
        decided now may need them."""
        assert self._join is not None
        if self._join.outer is None:
            return
        earliest = [END] * len(arrivals) if final else self._earliest(arrivals, at)
        for batch in self._join.outer.release(earliest):
            self._counters.results += batch.num_rows
            yield batch

    def _expire(self, arrivals: Sequence[ArrivingRows], at: Sequence[int]) -> None:
        """Before rows `at` and later are taken in."""
        assert self._join is not None
        earliest, join = self._earliest(arrivals, at), self._join
        if self._expiry.due(earliest, lambda: self._counters.rows_evaluated(join)):
            self._counters.count("rows_expired", self._expiry.run(join, earliest, self._seq))

    def _earliest(self, arrivals: Sequence[ArrivingRows], at: Sequence[int]) -> list[int | None]:
        """Per stream the oldest time that can still come, from rows `at` on."""
        earliest: list[int | None] = []
        for stream, (arrived, start) in enumerate(zip(arrivals, at, strict=True)):
            bound = self._watermarks.watermark(stream)
            if start < len(arrived.rows):
                coming = int(arrived.rows.ts[start])
                bound = coming if bound is None else min(bound, coming)
            earliest.append(bound)
        return earliest

    def _timed(
        self,
        controller: DeadlineController,
        arrivals: list[ArrivingRows],
        at: list[int],
        seconds: float | None,
    ) -> Iterator[list[int]]:
        """Where each sub-batch ends, as long as there is time; `at` says how far the last has come."""
        rows, skipped = sum(len(a.rows) for a in arrivals), self._join.skipped if self._join else 0
        controller.begin_call(rows, self._arrivals, seconds)
        if not self.query.time_policy.plans_calls:
            for stop in self._paced(controller, arrivals):
                yield from self._clocked(controller, arrivals, at, stop)
            return
        assert self._join is not None and self._join.load_shedder is not None
        if controller.cost == 0.0 and rows > FIRST_ROWS:
            # A few rows tell what the others will cost.
            yield from self._clocked(controller, arrivals, at, _cutter(arrivals).cut(FIRST_ROWS))
        self._give_up(controller, arrivals, at)
        shedder = self._join.load_shedder
        finer = shedder.tight and controller.parts > 1
        for stop in self._paced(controller, arrivals) if finer else self._sub_batches(arrivals):
            if any(at):
                shedder.correct(self._join, controller)
            yield from self._clocked(controller, arrivals, at, stop)
        shedder.end(rows, controller, self._join.skipped - skipped)

    def _give_up(self, controller: DeadlineController, arrivals: list[ArrivingRows], at: list[int]) -> None:
        """Leaves out the rows that there is no time for, of those that are left; these then begin at 0."""
        assert self._join is not None and self._join.load_shedder is not None
        if any(at):
            arrivals[:] = [a.slice(i, len(a.rows)) for a, i in zip(arrivals, at, strict=True)]
            at[:] = [0] * len(at)
        masks = self._join.load_shedder.plan(self._join, arrivals, controller)
        controller.watch.start()
        if masks is not None:
            kept = self._join.admit(arrivals, masks)
            arrivals[:] = kept if self.query.counts_rows else [a.stored() for a in kept]

    def _paced(self, controller: DeadlineController, arrivals: Sequence[ArrivingRows]) -> Iterator[list[int]]:
        """As many rows at a time as the throttle fraction leaves time for, as long as there is time."""
        pace, cutter = self.query.evaluate_interval, _cutter(arrivals)
        while cutter.left and not controller.out_of_time:
            yield cutter.cut(pace.rows if pace is not None and pace.rows else controller.next_rows())

    def _clocked(
        self,
        controller: DeadlineController,
        arrivals: Sequence[ArrivingRows],
        at: Sequence[int],
        stop: list[int],
    ) -> Iterator[list[int]]:
        """A sub-batch, timed."""
        assert self._join is not None and self._join.load_shedder is not None
        join, load_shedder, done = self._join, self._join.load_shedder, sum(stop) - sum(at)
        now = max(int(a.rows.ts[j - 1]) for a, j in zip(arrivals, stop, strict=True) if j)
        before = join.comparisons, join.results_counted, join.found - join.skipped
        controller.begin_sub_batch(done)
        yield stop
        timed = None
        if self.query.time_policy.plans_calls:
            after = join.comparisons, join.results_counted, join.found - join.skipped
            compared, pieces, built = (b - a for a, b in zip(before, after, strict=True))
            timed = Timed(*controller.watch.seconds, done, compared, pieces, built)
            load_shedder.learn(join, timed)
        controller.end_sub_batch(done, load_shedder.work_fraction, now, timed)

    def _built(self, before: tuple[int, int]) -> float:
        """Which part of the results found since then was built."""
        assert self._join is not None
        found, skipped = self._join.found - before[0], self._join.skipped - before[1]
        return 1 - skipped / found if found else 1.0

    def _buffer_unprocessed(self, arrivals: Sequence[ArrivingRows], at: Sequence[int]) -> int:
        """Rows there was no time for wait, as many as the buffer holds; those that came last go. Returns how
        many wait."""
        waiting = 0
        for stream, (arrived, start) in enumerate(zip(arrivals, at, strict=True)):
            room = self.query.time_policy.buffer or 0
            kept = min(len(arrived.rows) - start, room)
            self._counters.counts["rows_dropped"][stream] += len(arrived.rows) - start - kept
            if kept:
                rows = arrived.rows.slice(start, start + kept)
                calls = np.broadcast_to(self._calls, kept)
                self._buffer[stream].add(rows.ts, rows.payload, calls)
            waiting += kept
        return waiting

    def _sub_batches(self, arrivals: Sequence[ArrivingRows]) -> Iterator[list[int]]:
        """Where each sub-batch ends in each stream."""
        pace = self.query.evaluate_interval
        if pace is None and self._join is not None and self._join.evictor is not None:
            pace = interval_under_limit(
                self._join.evictor.limit, self._join.windows, [a.rows for a in arrivals]
            )
        if self.query.counts_rows:
            pace = pace or Interval(rows=default_sub_batch_rows(self.query))
            if pace.rows:
                # Rows of one time have their order too.
                return cut([a.seq for a in arrivals if a.seq is not None], pace, None)
        spans = [s.window.size for s in self.query.streams.values() if s.window.is_time]
        return cut([a.rows.ts for a in arrivals], pace, min(spans, default=None))

    def _table(self, batches: Iterator[pa.RecordBatch]) -> pa.Table:
        if self._join is None:
            known = dict(zip(self.query.aliases, self._schemas, strict=True))
            kinds = {a: pa.null() if s is None else pa.struct(list(s)) for a, s in known.items()}
            return pa.schema([(a, kinds[a]) for a in self.query.result_aliases]).empty_table()
        self._broken = True
        table = pa.Table.from_batches(batches, self._join.output.schema)
        self._broken = False
        if self._deadline_controller is not None:
            self._deadline_controller.close()
        return table


def _cutter(arrivals: Sequence[ArrivingRows]) -> SubBatchCutter:
    return SubBatchCutter([a.rows.ts if a.seq is None else a.seq for a in arrivals])
