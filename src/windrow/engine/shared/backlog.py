"""The backlog of a query group: what is searched now, and what is deferred.

Rows are stored as they arrive. Finding their results is cut into units, one sub-batch on one tier each, which
are served in the schedule's order, while there is time or the caller asks; the rest stays queued. Each tier
serves sub-batches in arrival order. `release.py` says when an output gets what is found.

The deadline is converted into work (rows scanned, compared and found) at the speed of earlier calls. What a
call does then depends only on its rows and on the state it starts from, so a repeated call does the same work
and leaves the same state.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from windrow.engine.join import Join
from windrow.engine.probe import Probe
from windrow.engine.row_windows import NEVER, OUT, RANK, SEQ
from windrow.engine.rows import ArrivingRows
from windrow.engine.shared.query_router import ArrivalCounts, QueryRouter
from windrow.engine.shared.release import DeferredSubBatch, Delivery, PendingRows
from windrow.engine.shared.schedule import Schedule
from windrow.engine.shared.slices import Slice, Tier
from windrow.engine.windows import Windows

Array = np.ndarray
_ENDLESS = 1 << 61
_FEW = 1024
_LEAST_SECONDS = 1e-6
"""Above 0, so that each call serves a unit even if reading its rows takes all the time."""
_MEMORY = 0.5
"""Weight of the earlier speed when a call updates it."""


class BacklogScheduler:
    """Queues sub-batches and serves them by tier. With more than `max_rows` rows in the backlog a call takes
    longer than its deadline; None for as many as the windows hold besides."""

    def __init__(self, schedule: Schedule, max_rows: int | None = None) -> None:
        self.schedule = schedule
        self.max_rows = max_rows
        self.speed: float | None = None
        """Recent work per second."""
        self.calls: list[PendingRows] = []
        self.found = 0
        """Results so far."""
        self.rows_probed = 0
        """Rows found by an index and rows scanned so far."""
        self.rows = 0
        """Rows that have not passed all tiers."""
        self.held = 0
        """Results that not all outputs have received."""
        self._call = PendingRows(0.0)
        self._began = 0.0
        self._outputs = 0
        self._by_unit = False
        self._probes: list[Probe] = []
        self._ranks: list[int] = []
        self._queue: list[tuple[PendingRows, DeferredSubBatch]] = []
        """All sub-batches in arrival order; a later one has not passed more tiers than an earlier one."""

    # -- the data flow ------------------------------------------------------------------------------

    def begin(self, now: float, outputs: int, by_unit: bool = False) -> None:
        """Begin a call; its rows arrived at this time and are queued. Their results are released by call or,
        if it is `by_unit`, by sub-batch."""
        self._began, self._outputs, self._by_unit = now, outputs, by_unit
        self._call = PendingRows(now)

    def defer(self, windows: Windows, arrivals: Sequence[ArrivingRows], starts: Sequence[int]) -> None:
        """Queue the rows of a sub-batch."""
        if self._by_unit:
            self._call = PendingRows(self._began)
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
            sub_batch = DeferredSubBatch(numbers, ends, oldest, first)
            call.sub_batches.append(sub_batch)
            if len(call.sub_batches) == 1:
                call.early = self._by_unit and self.schedule.early and sub_batch.rows == 1
                if call.early:
                    call.delivered = self.calls[-1].done if self.calls else self._outputs
                self.calls.append(call)
            self.rows += sub_batch.rows
            if windows.pending_from is None or oldest < windows.pending_from:
                windows.pending_from = oldest
            if windows.pending_seq is None:
                windows.pending_seq = first

    def run(
        self,
        join: Join,
        router: QueryRouter,
        clock: Callable[[], float],
        everything: bool,
        seconds: float,
    ) -> None:
        """Serve units in the schedule's order until the work of `seconds` is done, or `everything`."""
        everything = everything or self.speed is None or self._mostly_displaced(join.windows)
        work = np.inf if everything else max(seconds, _LEAST_SECONDS) * (self.speed or 0.0)
        used = self._spend(join, router, work)
        self._learn(used, clock() - self._began)

    def drain(self, join: Join, router: QueryRouter) -> None:
        """Serve everything between two calls. Keeps the speed: a call must depend only on the state."""
        self._spend(join, router, np.inf)

    def releases(
        self, join: Join, router: QueryRouter, clock: Callable[[], float]
    ) -> Iterator[list[Delivery]]:
        """Serve unit by unit; yield what may be released after each."""
        ranks, top = self._prepare(join, router), len(router.tiers)
        # Another call serves its own order, perhaps with other tiers.
        while ranks is self._ranks and (unit := self._next(ranks, top)) is not None:
            number, to = unit
            call, sub_batch = self._queue[number]
            began = clock()
            self._run_unit(join.windows, router, call, sub_batch, to)
            ahead = self._queue[number - 1][1].done if number else top
            due = self._release(call, ahead, top, (began, clock()))
            if number + 1 < len(self._queue) and (follower := self._queue[number + 1][0]).early:
                due += self._release(follower, to, top)
            while self.calls and self.calls[0].done == top:
                del self.calls[0]
            yield due

    def _spend(self, join: Join, router: QueryRouter, budget: float) -> float:
        """Serve units until this much work is done; return the work done."""
        windows, top = join.windows, len(router.tiers)
        ranks = self._prepare(join, router)
        used = 0.0
        while (unit := self._next(ranks, top, endless=budget == np.inf)) is not None:
            # Past the deadline, go on only while too many rows wait.
            if used >= budget and self._fits(windows, top):
                break
            number, to = unit
            call, sub_batch = self._queue[number]
            before = self.found + self.rows_probed
            self._run_unit(windows, router, call, sub_batch, to)
            used += sub_batch.rows + self.found + self.rows_probed - before
        self.retain_rows(windows)
        return used

    def deliveries(self, outputs: int) -> list[Delivery]:
        """Results due to outputs now. Calls that every output has received are removed."""
        found, ahead = [], outputs
        for call in self.calls:
            found += self._release(call, ahead, outputs)
            ahead = call.done
        self.calls = [call for call in self.calls if call.done < outputs]
        return found

    def resume(self, call: PendingRows, tiers: int) -> None:
        """Queue rows of a stored state again, in order."""
        self.calls.append(call)
        self.rows += sum(q.rows for q in call.sub_batches if q.done < tiers)
        self.held += call.held

    def retain_rows(self, windows: Windows) -> None:
        """Keep rows in the windows that deferred rows still have to probe."""
        waiting = [q for call in self.calls for q in call.sub_batches]
        windows.pending_from = min((q.oldest for q in waiting), default=None)
        windows.pending_seq = min((q.first for q in waiting if q.first is not None), default=None)

    def rows_left(self, output: int) -> int:
        """Rows whose results an output has not received yet."""
        return sum(call.rows for call in self.calls if call.done <= output)

    # -- inside -------------------------------------------------------------------------------------

    def _prepare(self, join: Join, router: QueryRouter) -> list[int]:
        """Make ready to serve what is queued; return the rank of each tier."""
        self._probes = join.probes
        self._queue = [(call, sub_batch) for call in self.calls for sub_batch in call.sub_batches]
        self._recall(join.windows, router)
        self._ranks = self.schedule.rank(router.tiers.slices).tolist()
        return self._ranks

    def _next(self, ranks: Sequence[int], top: int, endless: bool = False) -> tuple[int, int] | None:
        """The next unit: a number in the queue, and the tier it may climb to before another unit comes first.
        Slices served together are cheaper. With ample time it climbs as far as it can; otherwise no further
        than it would if a row arrived meanwhile."""
        queue, at, tier = self._queue, 0, top
        heads: dict[int, int] = {}
        behind: set[int] = set()
        # Later sub-batches have passed no more tiers, so the first below each tier is found by halving.
        while (at := bisect_left(queue, 1 - tier, at, key=lambda entry: -entry[1].done)) < len(queue):
            tier = queue[at][1].done
            heads[tier] = at
            if at + 1 < len(queue) and queue[at + 1][1].done == tier:
                behind.add(tier)
        if not heads:
            return None
        tier = min(heads, key=lambda r: (ranks[r], r))
        others = [ranks[r] for r in heads if r != tier or r in behind]
        to = tier + 1
        while to < top and to not in heads and all(ranks[to] < rank for rank in others):
            if not endless and ranks[to] > ranks[0]:
                break
            to += 1
        return heads[tier], to

    def _run_unit(
        self, windows: Windows, router: QueryRouter, call: PendingRows, sub_batch: DeferredSubBatch, to: int
    ) -> None:
        sizes, below = router.tiers.tier_sizes, sub_batch.done
        found: list[Mapping[int, Array]] = []
        for stream, probe in enumerate(self._probes):
            if sub_batch.start[stream] == sub_batch.end[stream]:
                continue
            first, end = _positions(windows, sub_batch, stream)
            tiers = [_tier(windows, router, probe, sizes[k - 1], first, end) for k in (below, to) if k]
            scope = Slice(tiers[0] if below else None, tiers[-1], first, end)
            order = probe.direction.order[0]
            partials = probe.extend(scope.start(order, windows[order]), scope)
            found += [each.kept().rows for each in map(windows.contain, partials) if len(each)]
            self.rows_probed += scope.work
        router.now = call.arrived
        pieces = router.route(windows, found)
        results = sum(map(len, pieces))
        self.found += results
        self.held += results
        call.results += pieces
        call.new += len(pieces)
        sub_batch.done = to
        if to == len(router.tiers):
            self.rows -= sub_batch.rows

    def _release(
        self, call: PendingRows, ahead: int, outputs: int, unit: tuple[float, float] | None = None
    ) -> list[Delivery]:
        before = call.held
        due = call.release(ahead, outputs, unit)
        self.held += call.held - before
        return due

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


def _tier(
    windows: Windows,
    router: QueryRouter,
    probe: Probe,
    sizes: Array,
    first: Sequence[int],
    end: Sequence[int],
) -> Tier:
    """The windows of these sizes, as rows at these positions see them."""
    counted, floors = [c is not None for c in windows.row_windows], dict[int, Array]()
    if not any(counted):
        return Tier(sizes, floors)
    spans, arriving = np.where(counted, _ENDLESS, sizes), probe.direction.arriving
    if probe.direction.order[0] != arriving:
        return Tier(spans, floors)
    seq = windows[arriving].column(SEQ)[first[arriving] : end[arriving]]
    for stream, row_window in enumerate(windows.row_windows):
        counts, window = router.arrival_counts[stream], windows[stream]
        if stream == arriving or row_window is None or row_window.keys is not None or counts is None:
            continue
        # Only rows stored by then, so a tier's floor does not depend on when it is computed.
        held = slice(window.first, max(window.first, end[stream]))
        place = np.searchsorted(window.column(RANK)[held], counts.count(seq) - sizes[stream], side="left")
        floors[stream] = np.append(window.ts[held], NEVER)[place]
    return Tier(spans, floors)
