"""Shared's experiments: its streams, its windows, and a server on the virtual clock.

Two streams of equal rate are joined on a key of 500 values, so that a row matches 0.002 of the other stream
(s. 5). What each row costs on each rung of the ladder is counted on the rows themselves: links of the hash
chain that are followed, or rows that are scanned, and results that are made. The engine's own schedules rank
the rungs; `lab/queue_kernels.py` says when each unit ends. So response times follow from the counts, not from
the machine.

A result belongs to its newest row. Under LWO it is handed on when it is made (taken as spread evenly over its
unit); under SWF when its row has passed the query's window; under Greedy when it is made, but not before all
earlier rows have passed the query's window. That is how the paper describes the three (s. 3.1 to 3.3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.engine.shared.schedule import SCHEDULES
from windrow.errors import WindrowError
from windrow_lab.queue_kernels import matches_by_rung, serve

Array = np.ndarray
MIXES: dict[str, tuple[float, ...]] = {
    "Uniform": (1, 100, 200, 300, 400, 500, 600),
    "Mostly-Small": (1, 5, 15, 30, 60, 300, 600),
    "Mostly-Large": (1, 60, 300, 420, 510, 570, 600),
    "Small-Large": (1, 5, 15, 300, 510, 570, 600),
}
"""Table 1, in seconds."""
VALUES = 500
"""Distinct values of the key, the inverse of the selectivity (s. 5: 0.002)."""


@dataclass(frozen=True)
class ServerCosts:
    """What work takes, in seconds.

    Parameters
    ----------
    look
        Following a link, or comparing with a row.
    make
        Making a result and handing it on.
    begin
        Taking a unit up.
    """

    look: float
    make: float
    begin: float = 0.0


@dataclass(frozen=True, eq=False)
class ArrivalTrace:
    """Rows of both streams in order of time; those before `first` only fill the windows."""

    times: Array
    streams: Array
    keys: Array
    first: int

    @property
    def arrived(self) -> Array:
        return self.times[self.first :]


def poisson(rate: float, rows: int, longest: float, seed: int) -> ArrivalTrace:
    """Both streams at this rate, exponential gaps; `rows` rows after windows of `longest` have filled."""
    random = np.random.default_rng(seed)
    drawn = int(2 * rate * longest * 1.1) + rows + 100
    times = np.cumsum(random.exponential(0.5 / rate, drawn))
    first = int(np.searchsorted(times, longest))
    return _trace(times[: first + rows], random.integers(0, 2, first + rows), first, random)


def bursts(rate: float, size: float, rows: int, longest: float, seed: int) -> ArrivalTrace:
    """Pareto on-off streams (s. 5.2): bursts of `size` rows on average at one moment, exponential gaps
    between them, the overall rate as without bursts. A size of 1 is Poisson."""
    random = np.random.default_rng(seed)
    filling = int(2 * rate * longest * 1.02)
    wanted = filling + rows
    parts = []
    for stream in range(2):
        count = int(wanted / size) + 8
        # Pareto with b = 1 and E = alpha / (alpha - 1), rounded to whole rows without bias.
        drawn = np.ones(count) if size == 1 else (1 - random.random(count)) ** -(1 - 1 / size)
        whole = (
            np.floor(drawn + random.random(count)).astype(np.int64) if size > 1 else drawn.astype(np.int64)
        )
        begins = np.cumsum(random.exponential(size / rate, count))
        parts.append((np.repeat(begins, whole), stream))
    times = np.concatenate([t for t, _ in parts])
    streams = np.concatenate([np.full(len(t), s) for t, s in parts])
    end = min(t[-1] for t, _ in parts)
    order = np.argsort(times, kind="stable")
    order = order[times[order] <= end]
    first = int(np.searchsorted(times[order], longest))
    return _trace(times[order][: first + rows], streams[order][: first + rows], first, random)


def _trace(times: Array, streams: Array, first: int, random: np.random.Generator) -> ArrivalTrace:
    if first >= len(times):
        raise WindrowError(f"trace: {len(times)} rows do not fill the windows")
    return ArrivalTrace(times, streams, random.integers(0, VALUES, len(times)), first)


@dataclass(frozen=True, eq=False)
class CountedMatches:
    """Per row and rung."""

    found: Array
    looked: Array


def count(trace: ArrivalTrace, windows: tuple[float, ...], nested: bool) -> CountedMatches:
    """Results and looks of every measured row on every rung."""
    rungs = np.array(windows, float)
    shape = (len(trace.arrived), len(rungs))
    found, seen = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    head = np.full((2, VALUES), -1)
    back = np.empty(len(trace.times), np.int64)
    matches_by_rung(trace.keys, trace.times, trace.streams, rungs, trace.first, head, back, found, seen)
    if not nested:
        return CountedMatches(found, seen)
    scanned = np.zeros(shape, np.int64)
    for stream in range(2):
        mine = np.flatnonzero(trace.streams[trace.first :] == stream)
        others = trace.times[trace.streams != stream]
        now = trace.arrived[mine]
        before = np.searchsorted(others, now, side="left")
        reach = before[:, None] - np.searchsorted(others, now[:, None] - rungs, side="left")
        scanned[mine] = np.diff(np.maximum(reach, 0), axis=1, prepend=0)
    return CountedMatches(found, scanned)


@dataclass(frozen=True, eq=False)
class ServedQueries:
    """Response times under one schedule, per window."""

    mean: Array
    most: Array
    waiting: int
    """Most rows in the queues at any moment."""
    held: int
    """Most results that waited for others to be handed on before them."""

    @property
    def average(self) -> float:
        """Over all windows, each weighing the same."""
        return float(self.mean.mean())


def response(
    trace: ArrivalTrace, counted: CountedMatches, windows: tuple[float, ...], schedule: str, m: ServerCosts
) -> ServedQueries:
    """What each query sees of the trace."""
    ranks = SCHEDULES[schedule](np.diff(np.array(windows, float), prepend=0.0))
    work = m.begin + m.look * counted.looked + m.make * counted.found
    ended = np.empty(work.shape)
    waiting = serve(trace.arrived, work, ranks.astype(np.int64), ended)
    found, arrived = counted.found, trace.arrived[:, None]
    # The n results of a unit are found one by one: on average after (n + 1) / 2n of it.
    share = (found + 1) / (2 * np.maximum(found, 1))
    made = ended - work * (1 - share)
    means, most = [], []
    for query in range(len(windows)):
        n, mean, last = (part[:, : query + 1] for part in (found, made, ended))
        if schedule == "swf":
            mean = last = np.broadcast_to(ended[:, query : query + 1], n.shape)
        elif schedule == "greedy":
            before = np.concatenate([[-np.inf], ended[:-1, query]])[:, None]
            mean, last = np.maximum(mean, before), np.maximum(last, before)
        some = n > 0
        means.append(float((n * (mean - arrived)).sum() / max(1, n.sum())))
        most.append(float((last - arrived)[some].max(initial=0.0)))
    return ServedQueries(np.array(means), np.array(most), waiting, _most_held(ended, last, found))


def _most_held(made: Array, handed: Array, results: Array) -> int:
    """The most results that were made and not handed on to the largest window at one moment."""
    times = np.concatenate([made.ravel(), handed.ravel()])
    change = np.concatenate([results.ravel(), -results.ravel()])
    order = np.lexsort((change, times))
    return int(np.cumsum(change[order]).max(initial=0))


def calibrated(trace: ArrivalTrace, counted: CountedMatches, load: float, making: float = 0.4) -> ServerCosts:
    """A machine that is busy for this part of the time, `making` of it with making results (s. 3.4)."""
    seconds = load * float(trace.arrived[-1] - trace.arrived[0])
    return ServerCosts(
        look=(1 - making) * seconds / float(counted.looked.sum()),
        make=making * seconds / float(counted.found.sum()),
    )
