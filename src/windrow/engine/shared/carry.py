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

from windrow.engine.shared.results import Piece, joined, ordered
from windrow.engine.shared.routed import RoutedJoin
from windrow.engine.shared.schedule import Schedule
from windrow.engine.shared.slices import Reach, SlicedProbe

Array = np.ndarray
_MEMORY = 0.5
"""How much of the speed known before is kept with each call."""


@dataclass(eq=False)
class Quantum:
    """Rows that were stored together."""

    start: list[int]
    end: list[int]
    """Per stream: the rows' numbers, as `Window.number` gives them."""
    oldest: int
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

        def take(starts: list[int]) -> None:
            stored = list(zip(join.windows, starts, strict=True))
            numbers = [window.number(at) for window, at in stored]
            ends = [window.number(window.end) for window, _ in stored]
            times = [int(w.ts[at : w.end].min()) for w, at in stored if at < w.end]
            if times:
                call.quanta.append(Quantum(numbers, ends, min(times)))
                if len(call.quanta) == 1:
                    self.calls.append(call)
                join.oldest = self.oldest

        join.defer = take

    def serve(self, join: RoutedJoin, clock: Callable[[], float], everything: bool) -> None:
        """Serves units in the schedule's order until the deadline's work is done, or everything."""
        budget = np.inf if everything or self.speed is None else self.seconds * self.speed
        top = len(join.ladder)
        ranks = self.schedule(join.ladder.slices)
        self._probes = [SlicedProbe(probe) for probe in join.probes]
        used = 0.0
        while (unit := self._next(ranks, top, budget == np.inf)) is not None:
            if used >= budget and self._fits(join):
                break
            call, quantum, to = unit
            before = join.compared + self.found
            self._serve(join, call, quantum, to)
            used += quantum.rows + join.compared + self.found - before
        join.oldest = self.oldest
        self._learn(used, clock() - self._began)

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

    @property
    def oldest(self) -> int | None:
        """Time of the oldest row that is still to be served."""
        return min((q.oldest for call in self.calls for q in call.quanta), default=None)

    def left(self, output: int) -> int:
        """Rows whose results an output does not have yet."""
        return sum(call.rows for call in self.calls if call.released <= output)

    # -- inside -------------------------------------------------------------------------------------

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
            reach = Reach(inner, rungs[to - 1], first, end)
            found += [dict(partials.rows) for partials in probe.run(join.windows, reach)]
        join.now = call.arrived
        pieces = join.route(found)
        self.found += sum(map(len, pieces))
        call.held += pieces
        quantum.done = to

    def _fits(self, join: RoutedJoin) -> bool:
        left = sum(call.rows for call in self.calls if call.done < len(join.ladder))
        most = sum(map(len, join.windows)) - left if self.most is None else self.most
        return left <= most

    def _learn(self, work: float, seconds: float) -> None:
        if work > 0 and seconds > 0:
            now = work / seconds
            self.speed = now if self.speed is None else _MEMORY * self.speed + (1 - _MEMORY) * now


def _positions(join: RoutedJoin, quantum: Quantum, stream: int) -> tuple[Sequence[int], Sequence[int]]:
    """Where each stream is searched for rows of `stream`: its own new rows; of others what had come when it
    took its turn, which is after the streams before it."""
    first, end = [], []
    for other, window in enumerate(join.windows):
        start, stop = window.position(quantum.start[other]), window.position(quantum.end[other])
        first.append(start if other == stream else window.first)
        end.append(stop if other <= stream else start)
    return first, end
