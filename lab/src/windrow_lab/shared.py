"""Shared's experiments: its streams, its windows, and the operator on a virtual clock.

Two streams of equal rate are joined on a key of 500 values, so that a row matches 0.002 of the other stream
(s. 5). `SharedOperator.releases` searches, schedules and releases; the clock goes on with the rows that were
looked at and the results that were found. So response times follow from counted work, not from the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
import pyarrow as pa

import windrow as wr
from windrow.errors import WindrowError
from windrow.model.query_metrics import SearchProgress

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
SCHEDULES = ("lwo", "swf", "greedy")
ROWS_PER_FILL = 4_000


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

    def rows(self, start: int, end: int) -> dict[str, pa.Table]:
        """Rows of both streams, as the operator takes them."""
        found = {}
        for stream, alias in enumerate("ab"):
            own = start + np.flatnonzero(self.streams[start:end] == stream)
            times = pa.array(np.rint(1e6 * self.times[own]).astype(np.int64), pa.timestamp("us"))
            found[alias] = pa.table({"ts": times, "k": self.keys[own]})
        return found

    def at_once(self) -> Iterator[tuple[float, int, dict[str, pa.Table]]]:
        """Arrival, number and data of the rows of a stream that come at one moment, after the windows have
        filled."""
        rows = self.rows(self.first, len(self.times))
        at = dict.fromkeys("ab", 0)
        moments = zip(self.arrived.tolist(), self.streams[self.first :].tolist(), strict=True)
        for (time, stream), same in groupby(moments):
            alias, count = "ab"[stream], len(list(same))
            yield time, count, {alias: rows[alias].slice(at[alias], count)}
            at[alias] += count


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


@dataclass(frozen=True)
class ServerCosts:
    """What work takes, in seconds.

    Parameters
    ----------
    look
        Looking at a row: following a link of a hash chain, or comparing.
    make
        Making a result and handing it on.
    """

    look: float
    make: float


class ServerClock:
    """A clock that goes on with the work of an operator, and with waiting."""

    def __init__(self, costs: ServerCosts) -> None:
        self.costs = costs
        self.operator: wr.SharedOperator | None = None
        self._waited = 0.0

    def __call__(self) -> float:
        return self._waited if self.operator is None else self.after(self.operator.progress)

    def after(self, done: SearchProgress) -> float:
        """The time when so much has been done."""
        return self._waited + self.costs.look * done.rows_probed + self.costs.make * done.found

    def wait_until(self, time: float) -> None:
        self._waited += max(0.0, time - self())


@dataclass(frozen=True, eq=False)
class ServedQueries:
    """Response times under one schedule, per window."""

    mean: Array
    most: Array
    waiting: int
    """Most rows of a stream at any moment that had arrived and were not finished."""
    held: int
    """Most results that some query could not have yet."""
    usually_held: float
    """The same on average over time."""
    done: SearchProgress

    @property
    def average(self) -> float:
        """Over all windows, each weighing the same."""
        return float(self.mean.mean())


@dataclass(frozen=True, eq=False)
class SharedWorkload:
    """Queries of these windows over a trace, just after the windows have filled."""

    windows: tuple[float, ...]
    trace: ArrivalTrace
    scans: bool
    filled: bytes
    """Snapshot of the operator."""

    @classmethod
    def of(cls, windows: tuple[float, ...], trace: ArrivalTrace, scans: bool = False) -> SharedWorkload:
        """Fill the windows for one query; the others begin after that."""
        op = wr.SharedOperator(_filling(windows, scans), clock=lambda: 0.0)
        for start in range(0, trace.first, ROWS_PER_FILL):
            op.process(trace.rows(start, min(trace.first, start + ROWS_PER_FILL)))
        for number, window in enumerate(windows):
            op.add(f"q{number}", _query(window, scans))
        return cls(windows, trace, scans, op.snapshot())

    def costs(self, load: float, making: float = 0.4) -> ServerCosts:
        """A machine that is busy for this part of the time, `making` of it with making results (s. 3.4)."""
        seconds = load * float(self.trace.arrived[-1] - self.trace.arrived[0])
        return ServerCosts(
            (1 - making) * seconds / self._work.rows_probed, making * seconds / self._work.found
        )

    @cached_property
    def _work(self) -> SearchProgress:
        """All the work there is, under any schedule and whenever rows come."""
        op = wr.SharedOperator.restore(_filling(self.windows, self.scans, "every 1 rows"), self.filled, "lwo")
        for _ in op.releases(self.trace.rows(self.trace.first, len(self.trace.times))):
            pass
        return op.progress

    def serve(self, schedule: str, costs: ServerCosts) -> ServedQueries:
        """Hand over rows when they arrive. A unit of work is not interrupted (s. 3.2, steps 1 to 4)."""
        clock = ServerClock(costs)
        queries = _filling(self.windows, self.scans, "every 1 rows")
        op = clock.operator = wr.SharedOperator.restore(queries, self.filled, schedule, clock=clock)
        clock.wait_until(float(self.trace.arrived[0]))
        releases: Iterator[Mapping[str, pa.Table]] = iter(())
        waiting: list[int] = []
        pending = held = 0
        held_seconds = 0.0
        done = op.progress
        for arrived, count, rows in self.trace.at_once():
            while clock.after(done) < arrived:
                pending = done.backlog_rows
                began, before = clock.after(done), done.results_held
                if next(releases, None) is None:
                    clock.wait_until(arrived)
                done = op.progress
                held = max(held, done.results_held)
                held_seconds += before * (clock.after(done) - began)
                if clock.after(done) <= arrived:
                    pending = done.backlog_rows
            releases = op.releases(rows, arrived=arrived)
            done = op.progress
            waiting += range(pending + 1, pending + count + 1)
            pending += count
        for _ in releases:
            held = max(held, op.progress.results_held)
        seen = [op.metrics().queries[f"q{number}"] for number in range(len(self.windows))]
        mean, most = ([getattr(q, f"response_{what}") or 0.0 for q in seen] for what in ("mean", "max"))
        seconds = float(self.trace.arrived[-1] - self.trace.arrived[0])
        usually = held_seconds / seconds if seconds else 0.0
        most_waiting = self._most_waiting(waiting)
        return ServedQueries(np.array(mean), np.array(most), most_waiting, held, usually, op.progress)

    def _most_waiting(self, waiting: Sequence[int]) -> int:
        """Of one stream, from the rows of both that wait at each arrival. These are always the last ones."""
        came = np.cumsum([self.trace.streams[self.trace.first :] == stream for stream in range(2)], axis=1)
        came = np.pad(came, ((0, 0), (1, 0)))
        ends = np.arange(1, len(waiting) + 1)
        return int((came[:, ends] - came[:, ends - waiting]).max())


def _filling(
    windows: tuple[float, ...], scans: bool, evaluate: str | None = None
) -> dict[str, wr.Subscription]:
    return {"filling": _query(max(windows), scans, evaluate)}


def _query(window: float, scans: bool, evaluate: str | None = None) -> wr.Subscription:
    access = "scan" if scans else "hash"
    streams = {alias: wr.Stream("ts", f"{window} s", access=access) for alias in "ab"}
    return wr.Subscription(wr.Query(streams, "a.k = b.k", evaluate=evaluate), select=["1 as found"])
