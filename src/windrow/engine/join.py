"""One join: windows, a plan, the probes that follow it, and a sink for the results.

Streams take turns in a fixed order: a stream's new rows are appended, then probe all other windows. Each
result among rows of one sub-batch is therefore found exactly once, by the last of its streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from windrow.engine.failed_combinations import FailedCombinations
from windrow.engine.limits.admission_units import Units
from windrow.engine.limits.call_planner import CallPlanner
from windrow.engine.limits.deadline_controller import DeadlineController
from windrow.engine.limits.evictor import Evictor
from windrow.engine.limits.load_shedder import LoadShedder, make_load_shedder
from windrow.engine.outer.outer_join import Decided, OuterJoin
from windrow.engine.partial_matches import PartialMatches, in_pieces
from windrow.engine.probe import Probe
from windrow.engine.rows import ArrivingRows
from windrow.engine.windows import Windows
from windrow.eviction.ranking import Selection
from windrow.eviction.window_view import RowState
from windrow.model.plan import Plan
from windrow.model.stateful import Stateful
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray


class ResultSink(Protocol):
    """Receives results: `ResultBuilder` builds rows, `QueryRouter` routes them to many queries."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches it yields."""

    @property
    def defers(self) -> bool:
        """Whether new rows are only stored now, and probed later by the sink."""

    def add(
        self, windows: Windows, found: PartialMatches, sample: Selection | None, certain: Array | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Take results. Their positions are valid until the next stream's turn.

        `certain` is given for results that an outer join has decided. These may lack rows, and are verified;
        their positions are valid during the call only.
        """

    def end_sub_batch(
        self, windows: Windows, arrivals: Sequence[ArrivingRows], starts: Sequence[int]
    ) -> None:
        """A sub-batch is stored, each stream's rows from position `starts[stream]` on."""


class Join(Stateful):
    """A window join whose schemas are all known, and its state.

    Parameters
    ----------
    bound
        What to join.
    make_sink
        Makes the sink for the results.
    """

    saved = (
        "evictor",
        "load_shedder",
        "dropped",
        "unsampled",
        "conserved",
        "found",
        "skipped",
        "outer",
        "failed",
    )

    def __init__(self, bound: BoundQuery, make_sink: Callable[[BoundQuery], ResultSink]) -> None:
        self.bound = bound
        query, count = bound.query, len(bound.schemas)
        self._watermark_delay_us = query.watermark_delay_us
        self.evictor: Evictor | None = None
        if query.memory_limit is not None:
            self.evictor = Evictor(query.memory_policy, query.memory_limit, bound)
        units = Units.of_predicate(count, bound.predicate.atoms, bound.classes)
        self.load_shedder = make_load_shedder(
            query, units, self.evictor.result_weights if self.evictor else None
        )
        self.windows = Windows(bound, self.row_state)
        self.sink = make_sink(bound)
        self.failed = FailedCombinations(query.raises)
        self.outer = OuterJoin(bound, self.windows, self.failed) if bound.shapes else None
        self.windows.holder = self.outer
        self.plan: Plan | None = None
        self.probes: list[Probe] = []
        """One per direction of the plan."""
        self._compared_before = 0
        self.dropped = [0] * count
        """Rows dropped for lack of time, per stream."""
        self.unsampled = [0] * count
        """Dropped rows that had no chance of being admitted."""
        self.conserved = [0] * count
        """Rows evicted because no harvest would probe them again, per stream."""
        self.found = 0
        """Results found, built or not."""
        self.skipped = 0
        """Results not built for lack of time."""

    @property
    def call_planner(self) -> CallPlanner | None:
        """Plans whole calls under a deadline; None without one, or if each sub-batch decides."""
        return self.load_shedder.calls if self.load_shedder else None

    @property
    def row_state(self) -> RowState:
        """Columns that policies store per row."""
        return (
            *(self.load_shedder.row_state if self.load_shedder else ()),
            *(self.evictor.row_state if self.evictor else ()),
        )

    @property
    def comparisons(self) -> int:
        """Rows compared so far."""
        outer = self.outer.comparisons if self.outer else 0
        return self._compared_before + sum(p.comparisons for p in self.probes) + outer

    def install(self, plan: Plan) -> None:
        """Follow another plan from now on; the windows build the indexes it needs."""
        self._compared_before += sum(p.comparisons for p in self.probes)
        self.plan, bound = plan, self.bound
        if self.load_shedder is not None:
            self.load_shedder.followed = plan
        self.probes = [
            Probe(d, self.windows, bound.query.aliases, bound.functions, self.failed, self._inside)
            for d in plan.directions
        ]
        hashed: list[dict[tuple[str, ...], int | None]] = [{} for _ in self.windows]
        ranged: list[set[str]] = [set() for _ in self.windows]
        steps = [step for direction in plan.directions for step in direction.steps]
        for step in steps + (self.outer.steps if self.outer else []):
            own = tuple(w.name for w in step.indexed)
            if step.access.path == "hash":
                hashed[step.stream][own] = step.access.buckets
            elif step.access.path == "sorted":
                ranged[step.stream].update(own)
        for window, by_hash, by_range in zip(self.windows, hashed, ranged, strict=True):
            window.index(by_hash, by_range)

    # -- the data flow ------------------------------------------------------------------------------

    def evaluate(
        self, arrivals: Sequence[ArrivingRows], controller: DeadlineController | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Store a sub-batch and yield the results it completes, in the time `controller` allows."""
        now = max(int(a.rows.ts[-1]) for a in arrivals if len(a.rows))
        if self.load_shedder and controller:
            arrivals = self._drop_rows(self.load_shedder, arrivals, now, controller.z)
        # Find the rows that the sub-batch displaces before any of them is probed.
        places = self.windows.places(arrivals)
        if self.evictor:
            times = [a.rows.ts for a in arrivals if len(a.rows)]
            first = min((int(ts[0]) for ts in times), default=now)
            self.evictor.begin_sub_batch(self.windows, sum(map(len, times)), first, now)
        starts = []
        for stream, arrived in enumerate(arrivals):
            start = self.windows.append(stream, arrived, places[stream])
            starts.append(start)
            if start == self.windows[stream].end or self.sink.defers:
                continue
            if self.evictor:
                self.evictor.arrived(self.windows, stream, start)
            if self.outer is not None:
                yield from self._decided(self.outer.arrived(stream, start))
            for partials in in_pieces(self._probe(stream, start)):
                yield from self._results(partials, stream, controller)
        self.sink.end_sub_batch(self.windows, arrivals, starts)
        if self.load_shedder:
            self._evict_unharvested(self.load_shedder, now)
        if self.evictor:
            self.evictor.enforce_limit(self.windows)

    def decide(self, earliest: Sequence[int | None]) -> Iterator[pa.RecordBatch]:
        """Results of an outer join that rows no older than `earliest`, per stream, cannot change."""
        if self.outer is not None:
            yield from self._decided(self.outer.release(earliest))

    def _decided(self, found: Iterator[Decided]) -> Iterator[pa.RecordBatch]:
        for results, certain in found:
            yield from self.sink.add(self.windows, results, None, certain)

    def _probe(self, stream: int, start: int) -> Iterator[PartialMatches]:
        """Results of the rows from position `start` on, inside all windows."""
        if self.outer is not None and not self.outer.probes_inner:
            return
        probe = self.probes[stream]
        if self.load_shedder is None:
            found = probe.run(self.windows, start)
        else:
            self.load_shedder.arrived(self.windows, stream, start)
            found = self.load_shedder.probe(self.windows, probe, start)
        for partials in found:
            contained = self._inside(partials)
            if len(contained):
                yield contained

    def _inside(self, partials: PartialMatches) -> PartialMatches:
        """Only matches of rows that were in their windows together, and that have all join columns."""
        contained = self.windows.contain(partials)
        return contained if self.outer is None else self.outer.whole(contained)

    def _drop_rows(
        self, load_shedder: LoadShedder, arrivals: Sequence[ArrivingRows], now: int, z: float
    ) -> Sequence[ArrivingRows]:
        masks = load_shedder.begin(self.windows, [len(a.rows) for a in arrivals], now, z)
        return arrivals if masks is None else self.admit(arrivals, masks)

    def admit(self, arrivals: Sequence[ArrivingRows], masks: Sequence[Array | None]) -> list[ArrivingRows]:
        """Drop and count the rows outside the masks; a mask of None admits all."""
        for stream, mask in enumerate(masks):
            if mask is not None:
                self.dropped[stream] += int(len(mask) - mask.sum())
                self.lose(stream, arrivals[stream], ~mask)
        return [arrived.admitted(mask) for arrived, mask in zip(arrivals, masks, strict=True)]

    def lose(self, stream: int, arrived: ArrivingRows, dropped: Array | slice) -> None:
        """Some new rows are dropped: an outer join may miss their matches."""
        rows = arrived.rows
        if self.outer is not None and len(ts := rows.ts[dropped]):
            self.outer.lose(stream, ts, {name: column[dropped] for name, column in rows.columns.items()})

    def _evict_unharvested(self, load_shedder: LoadShedder, now: int) -> None:
        """Evict rows that are older than anything the harvest probes."""
        ages = load_shedder.max_useful_ages()
        if ages is None or self.outer is not None:  # an outer join decides on rows of any age
            return
        for stream, (window, age) in enumerate(zip(self.windows, ages, strict=True)):
            if window.span is not None:
                self.conserved[stream] += window.expire(now - self._watermark_delay_us - age)

    def _results(
        self, partials: PartialMatches, arriving: int, controller: DeadlineController | None
    ) -> Iterator[pa.RecordBatch]:
        sample = self.evictor.on_results(self.windows, partials) if self.evictor else None
        if sample is not None:
            partials = partials.where(sample.chosen)
        self.found += len(partials)
        if self.outer is not None:
            yield from self._decided(self.outer.matched(partials))
        if self.call_planner and controller:
            found = len(partials)
            partials = self.call_planner.affordable(self.windows, partials, arriving, controller)
            self.skipped += found - len(partials)
        if len(partials) and (self.outer is None or self.outer.eager):
            yield from self.sink.add(self.windows, partials, sample)
