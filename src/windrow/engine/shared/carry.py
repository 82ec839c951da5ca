"""Under a deadline: what is served now, and what is carried over to the next call.

Rows are stored as they come; looking for their results is cut into units, a quantum's rows on one rung of the
ladder, and served in the schedule's order while there is time. What is left stays queued. On each rung
the first to come is the first to be served, and an output gets the results of a call once the whole call has
passed its rung: so each query sees its results in the order in which it would see them alone.

How much fits the deadline is counted in work (rows looked at, compared and found), at the speed that earlier
calls had. So what a call does depends on the state it starts from and on its rows alone: whoever repeats it,
after a crash or beside another, does the same and leaves the same behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from windrow.engine.join import Arrivals
from windrow.engine.shared.results import Piece, joined, ordered
from windrow.engine.shared.roster import NEVER
from windrow.engine.shared.routed import Coming, RoutedJoin
from windrow.engine.shared.schedule import Schedule
from windrow.engine.shared.slices import Reach, SlicedProbe

Array = np.ndarray
_ENDLESS = 1 << 61
_FEW = 1024
_MEMORY = 0.5
"""How much of the speed known before is kept with each call."""


@dataclass(eq=False)
class Quantum:
    """Rows that were stored together."""

    start: list[int]
    end: list[int]
    """Per stream: the rows' numbers, as `Window.number` gives them."""
    oldest: int
    first: int = 0
    """Of its rows in the order of all streams, where windows are counted."""
    done: int = 0
    """Rungs it has passed."""

    @property
    def rows(self) -> int:
        return sum(self.end) - sum(self.start)


@dataclass(eq=False)
class Call:
    """The rows of one call and the results found for them."""

    arrived: float
    quanta: list[Quantum] = field(default_factory=list)
    held: list[Piece] = field(default_factory=list)
    """Results that not all outputs have."""
    released: int = 0
    """Outputs that have their results."""
    came: dict[int, list[tuple[Array, Array | None]]] = field(default_factory=dict)
    """Per stream with a counted window: order numbers and keys of all rows, stored or not, in their order."""

    @property
    def done(self) -> int:
        """Rungs that all its quanta have passed."""
        return min(q.done for q in self.quanta)

    @property
    def rows(self) -> int:
        return sum(q.rows for q in self.quanta)


@dataclass(frozen=True)
class Release:
    """Results that the outputs `first` to before `end` get now."""

    piece: Piece
    first: int
    end: int


class Carrier:
    """
    Parameters
    ----------
    schedule
        Ranks the rungs.
    seconds
        What a call may take.
    most
        Rows that may be left behind; past that the deadline gives way. None: as many as the windows hold
        besides.
    """

    def __init__(self, schedule: Schedule, seconds: float, most: int | None = None) -> None:
        self.schedule = schedule
        self.seconds = seconds
        self.most = most
        self.speed: float | None = None
        """Work per second lately."""
        self.calls: list[Call] = []
        self.found = 0
        """Results so far."""
        self._began = 0.0
        self._probes: list[SlicedProbe] = []

    # -- the data flow ------------------------------------------------------------------------------

    def begin(self, join: RoutedJoin) -> None:
        """A call begins: the rows it stores are queued."""
        self._began = join.now
        call = Call(join.now)

        def take(starts: list[int], arrivals: Sequence[Arrivals]) -> None:
            stored = list(zip(join.windows, starts, strict=True))
            numbers = [window.number(at) for window, at in stored]
            ends = [window.number(window.end) for window, _ in stored]
            times = [int(w.ts[at : w.end].min()) for w, at in stored if at < w.end]
            seqs = [int(a.seq[0]) for a in arrivals if a.seq is not None and len(a.seq)]
            for stream, arrived in enumerate(arrivals):
                if join.counted[stream] is not None and arrived.seq is not None:
                    call.came.setdefault(stream, []).append((arrived.seq, arrived.keys))
            if times or call.came:
                # A quantum of rows that are not stored pushes others out, and must be known until it is over.
                call.quanta.append(Quantum(numbers, ends, min(times, default=NEVER), min(seqs, default=0)))
                if len(call.quanta) == 1:
                    self.calls.append(call)
                self.hold(join)

        join.defer = take

    def serve(self, join: RoutedJoin, clock: Callable[[], float], everything: bool) -> None:
        """Serves units in the schedule's order until the deadline's work is done, or everything."""
        everything = everything or self.speed is None or self._crowded(join)
        used = self._spend(join, np.inf if everything else self.seconds * (self.speed or 0.0))
        self._learn(used, clock() - self._began)

    def settle(self, join: RoutedJoin) -> None:
        """Serves everything, between two calls. Nothing is learned of it: the call that follows must do what
        the state says and no more."""
        self._spend(join, np.inf)

    def _spend(self, join: RoutedJoin, budget: float) -> float:
        """Serves units until so much work is done; returns how much was."""
        top = len(join.ladder)
        ranks = self.schedule(join.ladder.slices)
        self._probes = [SlicedProbe(probe) for probe in join.probes]
        self._recall(join)
        used = 0.0
        while (unit := self._next(ranks, top, budget == np.inf)) is not None:
            if used >= budget and self._fits(join):
                break
            call, quantum, to = unit
            before = self._work
            self._serve(join, call, quantum, to)
            used += quantum.rows + self._work - before
        self.hold(join)
        return used

    def release(self, outputs: int) -> list[Release]:
        """What outputs get now; calls that all have are forgotten."""
        found = []
        for call in self.calls:
            done = call.done
            if done > call.released and call.held:
                call.held = ordered(call.held)
                if len(call.held) > 1 and done < outputs:
                    call.held = [joined(call.held)]
                found += [Release(piece, call.released, done) for piece in call.held]
            call.released = done
        self.calls = [call for call in self.calls if call.released < outputs]
        return found

    def hold(self, join: RoutedJoin) -> None:
        """Keeps in the windows what is still to be looked at."""
        waiting = [q for call in self.calls for q in call.quanta]
        join.oldest = min((q.oldest for q in waiting), default=None)
        join.oldest_seq = min((q.first for q in waiting), default=None) if join.query.counts_rows else None

    def left(self, output: int) -> int:
        """Rows whose results an output does not have yet."""
        return sum(call.rows for call in self.calls if call.released <= output)

    # -- inside -------------------------------------------------------------------------------------

    @property
    def _work(self) -> int:
        return self.found + sum(probe.work for probe in self._probes)

    def _next(self, ranks: Array, top: int, endless: bool) -> tuple[Call, Quantum, int] | None:
        """The unit to serve, and the rung to which it may climb before another comes first: slices that
        are served together are cheaper. With time to spare it climbs as far as it can."""
        heads: dict[int, tuple[Call, Quantum]] = {}
        behind: set[int] = set()
        for call in self.calls:
            for quantum in call.quanta:
                if quantum.done in heads:
                    behind.add(quantum.done)
                elif quantum.done < top:
                    heads[quantum.done] = (call, quantum)
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

    def _serve(self, join: RoutedJoin, call: Call, quantum: Quantum, to: int) -> None:
        rungs = join.ladder.rungs
        inner = None if quantum.done == 0 else rungs[quantum.done - 1]
        found: list[dict[int, Array]] = []
        for stream, probe in enumerate(self._probes):
            first, end = _positions(join, quantum, stream)
            if first[stream] >= end[stream]:
                continue
            floors = None if inner is None else self._floors(join, probe, rungs[quantum.done - 1], first, end)
            reach = Reach(
                None if inner is None else _spans(join, inner),
                _spans(join, rungs[to - 1]),
                first,
                end,
                floors,
                self._floors(join, probe, rungs[to - 1], first, end),
            )
            for partials in probe.run(join.windows, reach):
                if join.query.counts_rows:
                    partials = partials.where(join._in_windows(partials))
                if len(partials):
                    found.append(dict(partials.rows))
        join.now = call.arrived
        pieces = join.route(found)
        self.found += sum(map(len, pieces))
        call.held += pieces
        quantum.done = to

    def _recall(self, join: RoutedJoin) -> None:
        """What came to counted windows in all calls that are not over: rows up to any of theirs can be
        counted."""
        for stream, counted in enumerate(join.counted):
            if counted is None:
                continue
            parts = [part for call in self.calls for part in call.came.get(stream, ())]
            seq = np.concatenate([np.empty(0, np.int64), *(s for s, _ in parts)])
            keyed = [k for _, k in parts if k is not None]
            keys = np.concatenate([np.empty(0, np.int64), *keyed]) if counted.keys is not None else None
            join.coming[stream] = Coming.of(counted, seq, keys, fresh=False)

    def _floors(
        self, join: RoutedJoin, probe: SlicedProbe, rung: Array, first: Sequence[int], end: Sequence[int]
    ) -> dict[int, Array]:
        """Per stream that counts all its rows: before which time a window of the rung's size cannot reach,
        for each of the arriving rows."""
        arriving = probe.probe.direction.arriving
        found: dict[int, Array] = {}
        if not join.query.counts_rows or probe.probe.direction.order[0] != arriving:
            return found
        seq = join.windows[arriving].column(len(join.words[arriving]))[first[arriving] : end[arriving]]
        for stream, counted in enumerate(join.counted):
            coming = join.coming[stream]
            if stream == arriving or counted is None or counted.keys is not None or coming is None:
                continue
            window, at = join.windows[stream], len(join.words[stream]) + 2
            # Only rows that had come by then: so a rung's floor is the same whenever it is asked for.
            held = slice(window.first, max(window.first, end[stream]))
            place = np.searchsorted(window.column(at)[held], coming.count(seq) - rung[stream], side="left")
            found[stream] = np.append(window.ts[held], NEVER)[place]
        return found

    def _crowded(self, join: RoutedJoin) -> bool:
        """Whether a window counted per key is mostly rows that were pushed out: they go only when nothing is
        left to be served."""
        newest = [
            int(s[-1]) for call in self.calls for given in call.came.values() for s, _ in given if len(s)
        ]
        for window, counted, words in zip(join.windows, join.counted, join.words, strict=True):
            if counted is not None and counted.keys is not None and newest and len(window) > _FEW:
                out = window.column(len(words) + 1)[window.first : window.end]
                if 2 * int((out <= max(newest)).sum()) > len(window):
                    return True
        return False

    def _fits(self, join: RoutedJoin) -> bool:
        left = sum(call.rows for call in self.calls if call.done < len(join.ladder))
        most = sum(map(len, join.windows)) - left if self.most is None else self.most
        return left <= most

    def _learn(self, work: float, seconds: float) -> None:
        if work > 0 and seconds > 0:
            now = work / seconds
            self.speed = now if self.speed is None else _MEMORY * self.speed + (1 - _MEMORY) * now


def _spans(join: RoutedJoin, rung: Array) -> Array:
    """Window lengths in time; without end where rows are counted."""
    counted = np.array([c is not None for c in join.counted])
    return np.where(counted, _ENDLESS, rung)


def _positions(join: RoutedJoin, quantum: Quantum, stream: int) -> tuple[Sequence[int], Sequence[int]]:
    """Where each stream is searched for rows of `stream`: its own new rows; of others what had come when it
    took its turn, which is after the streams before it."""
    first, end = [], []
    for other, window in enumerate(join.windows):
        start, stop = window.position(quantum.start[other]), window.position(quantum.end[other])
        first.append(start if other == stream else window.first)
        end.append(stop if other <= stream else start)
    return first, end
