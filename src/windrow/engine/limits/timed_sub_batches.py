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
from windrow.engine.rows import ArrivingRows
from windrow.engine.sub_batches import SubBatchCutter, by_rows
from windrow.harvest.call_costs import USUAL, Costs
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
        assert join.load_shedder is not None
        self._query, self._join, self._controller = query, join, controller
        self._load_shedder, self._planner = join.load_shedder, join.call_planner
        self._arrivals, self._at = arrivals, at
        self._counted_before = join.counted
        self._costs: Costs | None = None
        self._stored = 0
        """Rows stored so far, those of the current sub-batch included."""

    def cut(self, plain: Cut, arrived: int, seconds: float | None) -> Iterator[list[int]]:
        """Yield the end of each sub-batch while there is time. `plain` cuts as without a deadline; `arrived`
        rows are new; the call may take `seconds`, by default the deadline."""
        controller, planner = self._controller, self._planner
        controller.begin_call(sum(len(a.rows) for a in self._arrivals), arrived, seconds, self._elapsed)
        self._drop_rows()
        rows = sum(lengths := [len(a.rows) for a in self._arrivals])
        if planner is not None and planner.call.plain:
            self._stored = rows
            self._load_shedder.statistics.skip(lengths)
            yield from plain(self._arrivals)
            return
        if planner is None:
            sub_batches = self._paced()
        elif planner.call.choice.z < 1:
            controller.pace(planner.call.choice.z, planner.parts())
            sub_batches = self._paced()
        else:
            parts = planner.parts()
            sub_batches = plain(self._arrivals) if parts == 1 else by_rows(self._order, -(-rows // parts))
        for stop in sub_batches:
            before = sum(self._at)
            if planner is not None and before:
                planner.correct(controller.seconds_left, rows - before)
            done = sum(stop) - before
            now = max(int(a.rows.ts[j - 1]) for a, j in zip(self._arrivals, stop, strict=True) if j)
            controller.begin_sub_batch(done)
            self._stored = sum(stop)
            yield stop
            controller.end_sub_batch(done, self._load_shedder.work_fraction, now)

    def buffer_rest(self, buffers: Sequence[InputBuffer], counters: Counters, room: int, number: int) -> int:
        """Buffer the rows that there was no time for, up to `room` of each stream, with the call's number.
        Drop the last ones beyond that. Return how many are buffered."""
        buffered = 0
        for stream, (arrived, start) in enumerate(zip(self._arrivals, self._at, strict=True)):
            if start == len(arrived.rows):
                continue
            kept = min(len(arrived.rows) - start, room)
            counters.counts["rows_dropped"][stream] += len(arrived.rows) - start - kept
            self._join.lose(stream, arrived, slice(start + kept, None))
            if kept:
                rows = arrived.rows.slice(start, start + kept)
                buffers[stream].add(rows.ts, rows.payload, np.broadcast_to(number, kept))
                # They are read again when they are released, and those that fail count then.
                failed = self._join.windows.readers[stream].failed(rows.payload)
                counters.counts["rows_failed"][stream] -= failed
            buffered += kept
        return buffered

    def end(self, buffered: int, newest: int | None) -> None:
        """End the call, with `buffered` rows buffered and event time at `newest`: results are delivered."""
        controller, planner = self._controller, self._planner
        controller.end_call(buffered, newest, 1.0 if planner is None else planner.work)
        controller.close(planner is not None and planner.call.short)
        counted = self._join.counted - self._counted_before
        if planner is not None:
            planner.end(controller.seconds, counted, self._load_shedder.work_fraction)
        elif controller.counts and self._stored:
            controller.costs.add(controller.seconds, self._stored, counted, 0)

    def _elapsed(self) -> float:
        """Seconds that the work done so far takes by the cost of earlier calls; none if that is unknown."""
        planner, built = self._planner, 0
        if planner is not None:
            self._costs, built = planner.call.costs, planner.call.built
        elif self._costs is None:
            self._costs = self._controller.costs.fitted(self._controller.budget)
        if self._costs is USUAL:
            return 0.0
        return self._costs.seconds(self._stored, self._join.counted - self._counted_before, built)

    def _drop_rows(self) -> None:
        """Remove the rows that the plan has no time for."""
        if self._planner is None:
            return
        began = self._controller.clock()
        kept = self._planner.plan(self._join.windows, self._arrivals, self._controller.budget)
        if kept is not None:
            sampled = self._planner.call.choice.recall > 0
            self._arrivals[:] = self._join.admit(self._arrivals, kept, sampled)
            # Measured, not counted: it matters to later calls only, as does the whole duration.
            self._planner.rows_dropped(self._controller.clock() - began)

    def _paced(self) -> Iterator[list[int]]:
        """Cut by the rows that the throttle fraction leaves time for."""
        pace, cutter = self._query.evaluate_interval, SubBatchCutter(self._order)
        while cutter.left and not self._controller.out_of_time:
            yield cutter.cut(pace.rows if pace is not None and pace.rows else self._controller.next_rows())

    @property
    def _order(self) -> list[np.ndarray]:
        """What the rows of each stream ascend by."""
        return [a.rows.ts if a.seq is None else a.seq for a in self._arrivals]
