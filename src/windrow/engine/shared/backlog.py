"""The backlog of a query group under a deadline: what runs now, and what is deferred to the next call.

Rows are stored as they arrive. Finding their results is cut into units, one sub-batch on one tier each, which
are served in the schedule's order while there is time; the rest stays queued. Each tier serves sub-batches in
arrival order, and an output gets the results of a call once the whole call has passed its tier. Each query
therefore sees its results in the same order as if it ran alone.

The deadline is converted into work (rows scanned, compared and found) at the speed of earlier calls. What a
call does then depends only on its rows and on the state it starts from, so a repeated call does the same work
and leaves the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from windrow.engine.completeness import NEVER
from windrow.engine.join import Join
from windrow.engine.row_windows import OUT, RANK, SEQ
from windrow.engine.rows import ArrivingRows
from windrow.engine.shared.query_router import ArrivalCounts, QueryRouter
from windrow.engine.shared.results import ResultBatch, joined, ordered
from windrow.engine.shared.schedule import Schedule
from windrow.engine.shared.slice_probe import SliceBounds, SliceProbe
from windrow.engine.windows import Windows

Array = np.ndarray
_ENDLESS = 1 << 61
_FEW = 1024
_MEMORY = 0.5
"""Weight of the earlier speed when a call updates it."""


@dataclass(eq=False)
class DeferredSubBatch:
    """Rows that were stored together."""

    start: list[int]
    end: list[int]
    """Row numbers per stream, as `WindowStore.number` returns them."""
    oldest: int
    first: int | None = None
    """First place of its rows in the order of all streams, in a join with row windows."""
    done: int = 0
    """Number of tiers it has passed."""

    @property
    def rows(self) -> int:
        return sum(self.end) - sum(self.start)


@dataclass(eq=False)
class PendingCall:
    """The rows of one call and the results found for them."""

    arrived: float
    sub_batches: list[DeferredSubBatch] = field(default_factory=list)
    results: list[ResultBatch] = field(default_factory=list)
    """Results that not all outputs have received."""
    delivered: int = 0
    """Number of outputs that have received their results."""
    arrivals: dict[int, list[tuple[Array, Array | None]]] = field(default_factory=dict)
    """Per stream with a row window: `seq` and keys of all rows, stored or not, in order."""

    @property
    def done(self) -> int:
        """Number of tiers that all its sub-batches have passed."""
        return min(q.done for q in self.sub_batches)

    @property
    def rows(self) -> int:
        return sum(q.rows for q in self.sub_batches)


@dataclass(frozen=True)
class Delivery:
    """Results for the outputs `first` to before `end`."""

    batch: ResultBatch
    first: int
    end: int


class BacklogScheduler:
    """Queues sub-batches and serves them by tier.

    Parameters
    ----------
    schedule
        Ranks the tiers.
    seconds
        Time limit of a call.
    most
        Maximum rows in the backlog; beyond it the deadline is exceeded. None for as many as the windows
        hold besides.
    """

    def __init__(self, schedule: Schedule, seconds: float, most: int | None = None) -> None:
        self.schedule = schedule
        self.seconds = seconds
        self.max_rows = most
        self.speed: float | None = None
        """Recent work per second."""
        self.calls: list[PendingCall] = []
        self.found = 0
        """Results so far."""
        self._call = PendingCall(0.0)
        self._began = 0.0
        self._probes: list[SliceProbe] = []

    # -- the data flow ------------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Begin a call at this time; the rows it stores are queued."""
        self._began = now
        self._call = PendingCall(now)

    def defer(self, windows: Windows, arrivals: Sequence[ArrivingRows], starts: Sequence[int]) -> None:
        """Queue the rows of a sub-batch."""
        call, stored = self._call, list(zip(windows, starts, strict=True))
        numbers = [window.number(at) for window, at in stored]
        ends = [window.number(window.end) for window, _ in stored]
        times = [int(w.ts[at : w.end].min()) for w, at in stored if at < w.end]
        seqs = [int(a.seq[0]) for a in arrivals if a.seq is not None and len(a.seq)]
        for stream, arrived in enumerate(arrivals):
            if windows.row_windows[stream] is not None and arrived.seq is not None:
                call.arrivals.setdefault(stream, []).append((arrived.seq, arrived.keys))
        if times or call.arrivals:
            # Rows that are not stored still displace others, so their sub-batch is queued too.
            oldest, first = min(times, default=NEVER), min(seqs, default=None)
            call.sub_batches.append(DeferredSubBatch(numbers, ends, oldest, first))
            if len(call.sub_batches) == 1:
                self.calls.append(call)
            self.retain_rows(windows)

    def run(self, join: Join, router: QueryRouter, clock: Callable[[], float], everything: bool) -> None:
        """Serve units in the schedule's order until the deadline's work is done, or `everything`."""
        everything = everything or self.speed is None or self._mostly_displaced(join.windows)
        used = self._spend(join, router, np.inf if everything else self.seconds * (self.speed or 0.0))
        self._learn(used, clock() - self._began)

    def drain(self, join: Join, router: QueryRouter) -> None:
        """Serve everything between two calls. Keeps the speed: a call must depend only on the state."""
        self._spend(join, router, np.inf)

    def _spend(self, join: Join, router: QueryRouter, budget: float) -> float:
        """Serve units until this much work is done; return the work done."""
        windows, top = join.windows, len(router.tiers)
        ranks = self.schedule(router.tiers.slices)
        self._probes = [SliceProbe(probe) for probe in join.probes]
        self._recall(windows, router)
        used = 0.0
        while (unit := self._next(ranks, top, budget == np.inf)) is not None:
            if used >= budget and self._fits(windows, top):
                break
            call, sub_batch, to = unit
            before = self._work
            self._run_unit(windows, router, call, sub_batch, to)
            used += sub_batch.rows + self._work - before
        self.retain_rows(windows)
        return used

    def deliveries(self, outputs: int) -> list[Delivery]:
        """Results due to outputs now. Calls that every output has received are removed."""
        found = []
        for call in self.calls:
            done = call.done
            if done > call.delivered and call.results:
                call.results = ordered(call.results)
                if len(call.results) > 1 and done < outputs:
                    call.results = [joined(call.results)]
                found += [Delivery(piece, call.delivered, done) for piece in call.results]
            call.delivered = done
        self.calls = [call for call in self.calls if call.delivered < outputs]
        return found

    def retain_rows(self, windows: Windows) -> None:
        """Keep rows in the windows that deferred rows still have to probe."""
        waiting = [q for call in self.calls for q in call.sub_batches]
        windows.pending_from = min((q.oldest for q in waiting), default=None)
        windows.pending_seq = min((q.first for q in waiting if q.first is not None), default=None)

    def rows_left(self, output: int) -> int:
        """Rows whose results an output has not received yet."""
        return sum(call.rows for call in self.calls if call.delivered <= output)

    # -- inside -------------------------------------------------------------------------------------

    @property
    def _work(self) -> int:
        return self.found + sum(probe.work for probe in self._probes)

    def _next(
        self, ranks: Array, top: int, endless: bool
    ) -> tuple[PendingCall, DeferredSubBatch, int] | None:
        """The next unit, and the tier it may climb to before another unit comes first: slices served together
        are cheaper. With ample time it climbs as far as it can."""
        heads: dict[int, tuple[PendingCall, DeferredSubBatch]] = {}
        behind: set[int] = set()
        for call in self.calls:
            for sub_batch in call.sub_batches:
                if sub_batch.done in heads:
                    behind.add(sub_batch.done)
                elif sub_batch.done < top:
                    heads[sub_batch.done] = (call, sub_batch)
        if not heads:
            return None
        rung = min(heads, key=lambda r: (ranks[r], r))
        others = [int(ranks[r]) for r in heads if r != rung or r in behind]
        to = rung + 1
        while to < top and to not in heads and all(ranks[to] < rank for rank in others):
            if not endless and ranks[to] > ranks[to - 1]:
                break
            to += 1
        return (*heads[rung], to)

    def _run_unit(
        self, windows: Windows, router: QueryRouter, call: PendingCall, sub_batch: DeferredSubBatch, to: int
    ) -> None:
        rungs = router.tiers.tier_sizes
        inner = None if sub_batch.done == 0 else rungs[sub_batch.done - 1]
        found: list[dict[int, Array]] = []
        for stream, probe in enumerate(self._probes):
            first, end = _positions(windows, sub_batch, stream)
            if first[stream] >= end[stream]:
                continue
            extent = (first, end)
            reach = SliceBounds(
                None if inner is None else _spans(windows, inner),
                _spans(windows, rungs[to - 1]),
                *extent,
                None if inner is None else _floors(windows, router, probe, inner, *extent),
                _floors(windows, router, probe, rungs[to - 1], *extent),
            )
            for partials in probe.run(windows, reach):
                contained = windows.contain(partials)
                if len(contained):
                    found.append(dict(contained.rows))
        router.now = call.arrived
        pieces = router.route(windows, found)
        self.found += sum(map(len, pieces))
        call.results += pieces
        sub_batch.done = to

    def _recall(self, windows: Windows, router: QueryRouter) -> None:
        """Count the rows that arrived at row windows in all unfinished calls."""
        for stream, counted in enumerate(windows.row_windows):
            if counted is None:
                continue
            parts = [part for call in self.calls for part in call.arrivals.get(stream, ())]
            seq = np.concatenate([np.empty(0, np.int64), *(s for s, _ in parts)])
            keyed = [k for _, k in parts if k is not None]
            keys = np.concatenate([np.empty(0, np.int64), *keyed]) if counted.keys is not None else None
            router.arrival_counts[stream] = ArrivalCounts.of(counted, seq, keys)

    def _mostly_displaced(self, windows: Windows) -> bool:
        """Whether a window per key holds mostly displaced rows, which stay until the backlog is empty."""
        newest = [
            int(s[-1]) for call in self.calls for given in call.arrivals.values() for s, _ in given if len(s)
        ]
        for window, counted in zip(windows, windows.row_windows, strict=True):
            if counted is not None and counted.keys is not None and newest and len(window) > _FEW:
                out = window.column(OUT)[window.first : window.end]
                if 2 * int((out <= max(newest)).sum()) > len(window):
                    return True
        return False

    def _fits(self, windows: Windows, tiers: int) -> bool:
        left = sum(call.rows for call in self.calls if call.done < tiers)
        most = sum(map(len, windows)) - left if self.max_rows is None else self.max_rows
        return left <= most

    def _learn(self, work: float, seconds: float) -> None:
        if work > 0 and seconds > 0:
            now = work / seconds
            self.speed = now if self.speed is None else _MEMORY * self.speed + (1 - _MEMORY) * now


def _spans(windows: Windows, rung: Array) -> Array:
    """Window lengths in time; unbounded for row windows."""
    counted = np.array([c is not None for c in windows.row_windows])
    return np.where(counted, _ENDLESS, rung)


def _positions(
    windows: Windows, sub_batch: DeferredSubBatch, stream: int
) -> tuple[Sequence[int], Sequence[int]]:
    """Position ranges to search for rows of `stream`: in the stream itself its new rows; in the others, rows
    stored before its turn, which includes new rows of earlier streams only."""
    first, end = [], []
    for other, window in enumerate(windows):
        start, stop = window.position(sub_batch.start[other]), window.position(sub_batch.end[other])
        first.append(start if other == stream else window.first)
        end.append(stop if other <= stream else start)
    return first, end


def _floors(
    windows: Windows,
    router: QueryRouter,
    probe: SliceProbe,
    rung: Array,
    first: Sequence[int],
    end: Sequence[int],
) -> dict[int, Array]:
    """Per row window and arriving row, the time before which a window of the tier cannot reach."""
    arriving = probe.probe.direction.arriving
    found: dict[int, Array] = {}
    if not any(windows.row_windows) or probe.probe.direction.order[0] != arriving:
        return found
    seq = windows[arriving].column(SEQ)[first[arriving] : end[arriving]]
    for stream, counted in enumerate(windows.row_windows):
        coming, window = router.arrival_counts[stream], windows[stream]
        if stream == arriving or counted is None or counted.keys is not None or coming is None:
            continue
        # Only rows stored by then, so a tier's floor does not depend on when it is computed.
        held = slice(window.first, max(window.first, end[stream]))
        place = np.searchsorted(window.column(RANK)[held], coming.count(seq) - rung[stream], side="left")
        found[stream] = np.append(window.ts[held], NEVER)[place]
    return found
