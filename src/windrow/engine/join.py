"""One join: windows, a plan, the probes that follow it, and a sink for the results.

Streams take turns in a fixed order: a stream's new rows are appended, then probe all other windows. Each
result among rows of one sub-batch is therefore found exactly once, by the last of its streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import call
from typing import Protocol

import numpy as np
import pyarrow as pa

from windrow.engine.failed_combinations import FailedCombinations
from windrow.engine.index_search import IndexSearch
from windrow.engine.limits.admission_units import Units
from windrow.engine.limits.call_planner import CallPlanner
from windrow.engine.limits.deadline_controller import DeadlineController
from windrow.engine.limits.evictor import Evictor
from windrow.engine.limits.load_shedder import LoadShedder, make_load_shedder
from windrow.engine.limits.spiller import Spiller
from windrow.engine.outer.outer_join import Decided, OuterJoin
from windrow.engine.partial_matches import PIECE, PartialMatches, in_pieces
from windrow.engine.probe import Probe
from windrow.engine.rows import ArrivingRows
from windrow.engine.threads import ONE_THREAD, Threads
from windrow.engine.windows import Windows
from windrow.eviction.ranking import Selection
from windrow.eviction.window_view import RowState
from windrow.model.limits import MemoryLimit
from windrow.model.plan import Plan
from windrow.model.stateful import Stateful
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
Build = Callable[[], Iterator[pa.RecordBatch]]
Found = tuple[int, PartialMatches]
"""An arriving stream, and results of its rows."""


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
        """Take results. Their positions are valid until the sub-batch ends.

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
    threads
        Probe and build results. The sink must allow that if there are several.
    spill_directory
        Where windows spill to, if the query lets them; by default the system's directory for temporary files.
    """

    saved = (
        "evictor",
        "load_shedder",
        "dropped",
        "unsampled",
        "conserved",
        "skipped",
        "outer",
        "failed",
    )

    def __init__(
        self,
        bound: BoundQuery,
        make_sink: Callable[[BoundQuery], ResultSink],
        threads: Threads = ONE_THREAD,
        spill_directory: str | None = None,
    ) -> None:
        self.bound = bound
        self._threads = threads
        query, count = bound.query, len(bound.schemas)
        self._watermark_delay_us = query.watermark_delay_us
        self.evictor: Evictor | None = None
        if query.shed_limit is not None:
            self.evictor = Evictor(query.memory_policy, query.shed_limit, bound)
        self.spiller: Spiller | None = None
        if query.memory_limit is not None and query.disk_limit is not None:
            self.spiller = Spiller(query.memory_limit, spill_directory)
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
        self._searches: list[IndexSearch] = []
        self._of_outer = self.outer.searches if self.outer else []
        self._compared_before = 0
        self._counted_before = 0
        self.dropped = [0] * count
        """Rows dropped for lack of time, per stream."""
        self.unsampled = [0] * count
        """Dropped rows with probability 0 of admission."""
        self.conserved = [0] * count
        """Rows evicted because no harvest would probe them again, per stream."""
        self.skipped = 0
        """Results not built for lack of time."""

    @property
    def call_planner(self) -> CallPlanner | None:
        """Plans whole calls under a deadline; None without one, or if each sub-batch decides."""
        return self.load_shedder.calls if self.load_shedder else None

    @property
    def _taking_part(self) -> LoadShedder | None:
        """The load shedder; None in a call that runs as without a deadline."""
        return None if self.call_planner and self.call_planner.call.plain else self.load_shedder

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
        return self._compared_before + sum(s.comparisons for s in self._searches + self._of_outer)

    @property
    def counted(self) -> int:
        """Rows scanned and pairs found so far by this object: the same in every attempt at a call."""
        return self._counted_before + sum(s.counted for s in self._searches + self._of_outer)

    def adopt(self, now: int, memory: bool, time: bool) -> None:
        """Show the policies of a limit on memory, or on time, rows that were stored before it applied, as if
        they had just arrived, at event time `now`."""
        if self.evictor and memory:
            self._clear(self.evictor.row_state)
            self.evictor.adopt(self.windows, now)
        if self.load_shedder and time:
            self._clear(self.load_shedder.row_state)
            for stream, window in enumerate(self.windows):
                self.load_shedder.arrived(self.windows, stream, window.first)

    def _clear(self, row_state: RowState) -> None:
        """Forget what policies have stored with rows: another policy may have used the same columns."""
        for window in self.windows:
            for name, _ in row_state:
                window.column(name)[window.first : window.end] = 0

    @property
    def memory_limit(self) -> MemoryLimit | None:
        """The limit of what is held in memory."""
        limiting = self.spiller or self.evictor
        return None if limiting is None else limiting.limit

    def memory_demand(self) -> float | None:
        """Memory that complete windows would take, in the limit's unit; None without a limit."""
        if self.evictor:
            return self.evictor.memory_demand(self.windows)
        return float(sum(window.nbytes for window in self.windows)) if self.spiller else None

    def set_memory_limit(self, limit: MemoryLimit, whole: MemoryLimit) -> None:
        """Change the memory limit, of which the query's is `whole`. What may be on disk changes with it."""
        if self.spiller:
            self.spiller.limit = limit
        if self.evictor:
            in_all = self.bound.query.shed_limit
            share = limit.size if in_all is None else limit.size * in_all.size // whole.size
            self.evictor.limit = replace(limit, size=share)

    def install(self, plan: Plan) -> None:
        """Follow another plan from now on; the windows build the indexes it needs."""
        if self.plan is not None and plan.directions == self.plan.directions:
            self.plan = plan  # Only its expectations differ.
            return
        self._compared_before += sum(s.comparisons for s in self._searches)
        self._counted_before += sum(s.counted for s in self._searches)
        self.plan, bound = plan, self.bound
        if self.load_shedder is not None:
            self.load_shedder.follow(plan)
        self.probes = [Probe(d, bound, self.windows, self.failed, self._inside) for d in plan.directions]
        self._searches = [search for probe in self.probes for search in probe.searches]
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
        self.spill()

    # -- the data flow ------------------------------------------------------------------------------

    def evaluate(
        self, arrivals: Sequence[ArrivingRows], controller: DeadlineController | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Store a sub-batch and yield the results it completes, in the time `controller` allows."""
        now = max(int(a.rows.ts[-1]) for a in arrivals if len(a.rows))
        load_shedder = self._taking_part
        if load_shedder and controller:
            kept = load_shedder.begin(self.windows, [len(a.rows) for a in arrivals], now, controller.z)
            arrivals = arrivals if kept is None else self.admit(arrivals, kept)
        # Find the rows that the sub-batch displaces before any of them is probed.
        places = self.windows.places(arrivals)
        if self.evictor:
            times = [a.rows.ts for a in arrivals if len(a.rows)]
            first = min((int(ts[0]) for ts in times), default=now)
            self.evictor.begin_sub_batch(self.windows, sum(map(len, times)), first, now)
        threads = self._threads.suited_to(sum(len(a.rows) for a in arrivals))
        threads.each(self.windows.stage, range(len(arrivals)), arrivals, places)
        starts = []
        few: list[Found] = []
        for stream in range(len(arrivals)):
            start = self.windows[stream].add_staged()
            starts.append(start)
            if start == self.windows[stream].end or self.sink.defers:
                continue
            if self.evictor:
                self.evictor.arrived(self.windows, stream, start)
            if self.outer is not None:
                yield from self._decided(self.outer.arrived(stream, start))
            threads = self._threads.suited_to(self.windows[stream].end - start)
            yield from threads.map(call, self._results(stream, start, threads, controller, few))
        if few and len(results := self._affordable(few, controller)):
            yield from self.sink.add(self.windows, results, None)
        self.sink.end_sub_batch(self.windows, arrivals, starts)
        if load_shedder:
            self._evict_unharvested(load_shedder, now)
        if self.evictor:
            self.evictor.enforce_limit(self.windows)
        self.spill()

    def spill(self) -> None:
        """Move to files what exceeds the memory limit, if the query lets windows spill."""
        if self.spiller:
            self.spiller.enforce_limit(self.windows)

    def decide(self, earliest: Sequence[int | None]) -> Iterator[pa.RecordBatch]:
        """Results of an outer join that rows no older than `earliest`, per stream, cannot change."""
        if self.outer is not None:
            yield from self._decided(self.outer.release(earliest))

    def _decided(self, found: Iterator[Decided]) -> Iterator[pa.RecordBatch]:
        for results, certain in found:
            yield from self.sink.add(self.windows, results, None, certain)

    def _probe(self, stream: int, start: int, threads: Threads) -> Iterator[PartialMatches]:
        """Results of the rows from position `start` on, inside all windows."""
        if self.outer is not None and not self.outer.probes_inner:
            return
        probe, load_shedder = self.probes[stream], self._taking_part

        def found(part: tuple[int, int]) -> Iterator[PartialMatches]:
            if load_shedder is None:
                results = probe.run(start, starting=part)
            else:
                load_shedder.arrived(self.windows, stream, start)
                results = load_shedder.probe(self.windows, probe, start)
            inside = (partials for partials in map(self._inside, results) if len(partials))
            return in_pieces(inside, kept=threads.count > 1)

        yield from threads.map(found, threads.parts(*probe.starting_rows(start)))

    def _inside(self, partials: PartialMatches) -> PartialMatches:
        """Only matches of rows that were in their windows together, and that have all join columns."""
        contained = self.windows.contain(partials)
        return contained if self.outer is None else self.outer.whole(contained)

    def admit(
        self, arrivals: Sequence[ArrivingRows], kept: Sequence[Array | None], sampled: bool = True
    ) -> list[ArrivingRows]:
        """Only the rows at these positions, all if None; the others are dropped for lack of time. `sampled`
        if each of them might have been kept."""
        found = list(arrivals)
        for stream, positions in enumerate(kept):
            if positions is None:
                continue
            dropped = len(arrivals[stream].rows) - len(positions)
            self.dropped[stream] += dropped
            if not sampled:
                self.unsampled[stream] += dropped
            if self.outer is not None:
                lost = np.ones(len(arrivals[stream].rows), bool)
                lost[positions] = False
                self.lose(stream, arrivals[stream], lost)
            found[stream] = arrivals[stream].admitted_at(positions, self.bound.query.counts_rows)
        return found

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
        self,
        arriving: int,
        start: int,
        threads: Threads,
        controller: DeadlineController | None,
        few: list[Found],
    ) -> Iterator[Build]:
        """Functions that build the results of the rows from position `start` on. Policies and outer joins see
        the results in order, before they are built. Where there are few they are added to `few`: those of all
        streams are built together."""
        add = partial(self.sink.add, self.windows)
        eager = self.outer is None or self.outer.eager
        for partials in self._probe(arriving, start, threads):
            sample = self.evictor.on_results(self.windows, partials) if self.evictor else None
            if sample is not None:
                partials = partials.where(sample.chosen)
            if self.outer is not None:
                for results, certain in self.outer.matched(partials):
                    yield partial(add, results, None, certain)
            if sample is None and eager and len(partials) < PIECE:
                few.append((arriving, partials))
                continue
            partials = self._affordable([(arriving, partials)], controller)
            if eager and len(partials):
                yield partial(add, partials, sample)

    def _affordable(self, found: Sequence[Found], controller: DeadlineController | None) -> PartialMatches:
        """The results that there is time to build."""
        results = PartialMatches.joined([partials for _, partials in found])
        if self.call_planner is None or controller is None:
            return results
        finders = [partials.rows[arriving] for arriving, partials in found]
        kept = self.call_planner.affordable(self.windows, results, finders, controller.seconds_left)
        self.skipped += len(results) - len(kept)
        return kept
