"""Cuts a call under a deadline into sub-batches and times them.

If whole calls are planned, the plan chooses the rows to admit, and they are cut as without a deadline.
Otherwise the time left determines the size of each sub-batch, and the throttle fraction follows each one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from windrow.engine.counters import Counters
from windrow.engine.input_buffer import InputBuffer
from windrow.engine.join import Join
from windrow.engine.limits.deadline_controller import DeadlineController
from windrow.engine.limits.harvester import Harvester
from windrow.engine.rows import ArrivingRows
from windrow.engine.sub_batches import SubBatchCutter
from windrow.model.query import Query

Cut = Callable[[Sequence[ArrivingRows]], Iterator[list[int]]]
"""Yields the end of each sub-batch in each stream."""


class TimedSubBatches:
    """The sub-batches of one call.

    Parameters
    ----------
    arrivals
        The call's rows; those not admitted are removed from it.
    at
        Per stream, the position sub-batches have reached; the caller advances it.
    """

    def __init__(
        self,
        query: Query,
        join: Join,
        controller: DeadlineController,
        arrivals: list[ArrivingRows],
        at: list[int],
    ) -> None:
        self._query = query
        self._join = join
        self._controller = controller
        self._arrivals = arrivals
        self._at = at
        self._before = _work_done(join)

    def cut(self, plain: Cut, arrived: int, seconds: float | None) -> Iterator[list[int]]:
        """Yield the end of each sub-batch while there is time. `plain` cuts as without a deadline; `arrived`
        rows are new; the call may take `seconds`, by default the deadline."""
        self._controller.begin_call(sum(len(a.rows) for a in self._arrivals), arrived, seconds)
        self._give_up_rows()
        planner, load_shedder = self._join.call_planner, self._join.load_shedder
        assert load_shedder is not None
        if planner is not None and planner.plain:
            load_shedder.statistics.skip([len(a.rows) for a in self._arrivals])
            yield from plain(self._arrivals)
            return
        rows = sum(len(a.rows) for a in self._arrivals)
        parts = 1 if planner is None else planner.parts(self._controller)
        if planner is None:
            sub_batches = self._paced()
        elif planner.choice.z < 1:
            self._controller.pace(planner.choice.z, parts)
            sub_batches = self._paced()
        else:
            sub_batches = plain(self._arrivals) if parts == 1 else self._even(-(-rows // parts))
        for stop in sub_batches:
            before = sum(self._at)
            if planner is not None and before:
                planner.correct(self._controller, rows - before)
            done = sum(stop) - before
            now = max(int(a.rows.ts[j - 1]) for a, j in zip(self._arrivals, stop, strict=True) if j)
            self._controller.begin_sub_batch(done)
            yield stop
            self._controller.end_sub_batch(done, load_shedder.work_fraction, now)

    def end(self, buffered: int, newest: int | None) -> None:
        """End processing, with `buffered` rows buffered and event time at `newest`."""
        found, skipped = self._join.found - self._before[1], self._join.skipped - self._before[2]
        built = 1 - skipped / found if found else 1.0
        planner = self._join.call_planner
        self._controller.end_call(
            buffered, newest, built if planner is None else min(built, planner.choice.work)
        )

    def close(self) -> None:
        """Stop the clock: results are delivered."""
        planner = self._join.call_planner
        if planner is None:
            self._controller.close()
            return
        left = self._controller.seconds_left
        self._controller.close(planner.short)
        compared, found, skipped = (
            after - before for before, after in zip(self._before, _work_done(self._join), strict=True)
        )
        assert self._join.load_shedder is not None
        planner.end(left, compared, found, found - skipped, self._join.load_shedder.work_fraction)

    def _give_up_rows(self) -> None:
        """Remove the rows that the plan has no time for."""
        load_shedder, join = self._join.load_shedder, self._join
        if not isinstance(load_shedder, Harvester) or load_shedder.calls is None:
            return
        positions = load_shedder.plan(join.windows, self._arrivals, self._controller)
        if positions is None:
            return
        for stream, kept in enumerate(positions):
            if kept is None:
                continue
            arrived = self._arrivals[stream]
            dropped = len(arrived.rows) - len(kept)
            join.dropped[stream] += dropped
            if join.outer is not None:
                lost = np.ones(len(arrived.rows), bool)
                lost[kept] = False
                join.lose(stream, arrived, lost)
            if load_shedder.calls.choice.recall == 0.0:
                join.unsampled[stream] += dropped
            self._arrivals[stream] = arrived.admitted_at(kept, self._query.counts_rows)
        load_shedder.calls.rows_dropped(self._controller)

    def _paced(self) -> Iterator[list[int]]:
        """Cut by the rows that the throttle fraction leaves time for."""
        pace, cutter = self._query.evaluate_interval, self._cutter()
        while cutter.left and not self._controller.out_of_time:
            yield cutter.cut(pace.rows if pace is not None and pace.rows else self._controller.next_rows())

    def _even(self, rows: int) -> Iterator[list[int]]:
        cutter = self._cutter()
        while cutter.left:
            yield cutter.cut(rows)

    def _cutter(self) -> SubBatchCutter:
        return SubBatchCutter([a.rows.ts if a.seq is None else a.seq for a in self._arrivals])


def buffer_unprocessed(
    buffers: Sequence[InputBuffer],
    join: Join,
    counters: Counters,
    room: int,
    arrivals: Sequence[ArrivingRows],
    at: Sequence[int],
    call: int,
) -> int:
    """Buffer unprocessed rows while there is `room`, drop the last ones; return the number buffered."""
    buffered = 0
    for stream, (arrived, start) in enumerate(zip(arrivals, at, strict=True)):
        if start == len(arrived.rows):
            continue
        kept = min(len(arrived.rows) - start, room)
        counters.counts["rows_dropped"][stream] += len(arrived.rows) - start - kept
        join.lose(stream, arrived, slice(start + kept, None))
        if kept:
            rows = arrived.rows.slice(start, start + kept)
            buffers[stream].add(rows.ts, rows.payload, np.broadcast_to(call, kept))
            reader = join.windows.readers[stream]
            if reader.may_fail:
                # They are read again when they are released, and those that fail count then.
                counters.counts["rows_failed"][stream] -= reader.failed(rows.payload)
        buffered += kept
    return buffered


def _work_done(join: Join) -> tuple[int, int, int]:
    """Rows compared, results found and results not built so far."""
    return join.comparisons, join.found, join.skipped
