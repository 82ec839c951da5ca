"""Cuts a call's rows into sub-batches.

A sub-batch changes cost, never the answer. Small sub-batches keep windows short and results early; large ones
spread the fixed cost of an evaluation over more rows. By default a sub-batch covers an eighth of the shortest
window but at least a few thousand rows. Windows then hold little more than they must, even when a call brings
hours of history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from windrow.engine.rows import ArrivingRows, Rows
from windrow.model.interval import Interval
from windrow.model.limits import MemoryLimit
from windrow.model.query import Query
from windrow.window.window_store import WindowStore

Array = np.ndarray
DEFAULT_SUB_BATCH_ROWS = 8192
SUB_BATCHES_PER_WINDOW = 8
SUB_BATCHES_PER_LIMIT = 3


class SubBatchCutter:
    """Cuts sub-batches of any number of rows, in order of time and, at equal times, of streams."""

    def __init__(self, times: Sequence[Array]) -> None:
        source = np.repeat(np.arange(len(times)), [len(t) for t in times])
        self._source = source[np.argsort(np.concatenate(times), kind="stable")]
        """Stream of each row, with all rows in one order of time."""
        self._counts = np.zeros(len(times), np.int64)
        self._at = 0

    @property
    def left(self) -> int:
        """Rows not cut yet."""
        return len(self._source) - self._at

    def cut(self, rows: int) -> list[int]:
        """End of the next sub-batch in each stream."""
        taken = self._source[self._at : self._at + rows]
        self._counts += np.bincount(taken, minlength=len(self._counts))
        self._at += len(taken)
        return [int(count) for count in self._counts]


def sub_batches(
    query: Query, limit: MemoryLimit | None, windows: Sequence[WindowStore], arrivals: Sequence[ArrivingRows]
) -> Iterator[list[int]]:
    """End of each sub-batch of a call in each stream, under a memory limit or without."""
    pace = query.evaluate_interval
    if pace is None and limit is not None:
        pace = interval_under_limit(limit, windows, [a.rows for a in arrivals])
    if query.counts_rows:
        pace = pace or Interval(rows=default_sub_batch_rows(query))
        if pace.rows:
            # Rows of equal time are ordered too, so cut by `seq`.
            return cut([a.seq for a in arrivals if a.seq is not None], pace, None)
    spans = [s.window.size for s in query.streams.values() if s.window.is_time]
    return cut([a.rows.ts for a in arrivals], pace, min(spans, default=None))


def cut(times: Sequence[Array], interval: Interval | None, shortest: int | None) -> Iterator[list[int]]:
    """End of each sub-batch in each stream. `times` ascend; `shortest` is the shortest window."""
    if sum(map(len, times)) == 0:
        return
    if interval is not None and interval.rows:
        yield from by_rows(times, interval.rows)
    elif interval is not None and interval.time:
        yield from _by_time(times, interval.time, 1)
    elif shortest is not None:
        yield from _by_time(times, max(1, shortest // SUB_BATCHES_PER_WINDOW), DEFAULT_SUB_BATCH_ROWS)
    else:
        yield [len(t) for t in times]


def interval_under_limit(
    limit: MemoryLimit, windows: Sequence[WindowStore], arrived: Sequence[Rows]
) -> Interval:
    """Sub-batch size under a memory limit: small against it, since a sub-batch comes on top."""
    held, rows = sum(map(len, windows)), sum(map(len, arrived))
    if limit.kind == "rows":
        fit = limit.size
    elif held:
        fit = limit.size * held // max(1, sum(w.nbytes for w in windows))
    else:
        size = sum(each.payload.nbytes for each in arrived)
        # Nothing is stored yet: payloads, and 64 bytes for the columns and indexes of a row.
        fit = limit.size * rows // max(1, size + 64 * rows)
    most = max(1, fit // SUB_BATCHES_PER_LIMIT)
    # Equal sizes: a small remainder would cost as much as a whole sub-batch.
    return Interval(rows=max(1, -(-rows // max(1, -(-rows // most)))))


def default_sub_batch_rows(query: Query) -> int:
    """Default size in a join with row windows. Rows displaced within the sub-batch still cost comparisons, so
    it should not be much longer than the shortest row window."""
    sizes = [s.window.size for s in query.streams.values() if s.window.kind == "rows"]
    return min(max(256, min(sizes)), 65_536) if sizes else 16_384


def _by_time(times: Sequence[Array], length: int, least_rows: int) -> Iterator[list[int]]:
    """Cut every `length` of time, but only after at least `least_rows` rows."""
    at = [0] * len(times)
    ends = [len(t) for t in times]
    while at != ends:
        begin = min(int(t[a]) for t, a in zip(times, at, strict=True) if a < len(t))
        until = begin + length
        while True:
            stop = [int(t.searchsorted(until)) for t in times]
            if stop == ends or sum(stop) - sum(at) >= least_rows:
                break
            # Skip time without rows, and grow geometrically where rows are sparse.
            following = min(int(t[s]) for t, s in zip(times, stop, strict=True) if s < len(t))
            until = max(following + 1, begin + 2 * (until - begin))
        yield stop
        at = stop


def by_rows(times: Sequence[Array], rows: int) -> Iterator[list[int]]:
    """Cut every `rows` rows, in order of time and, at equal times, of streams."""
    count = sum(map(len, times))
    if count <= rows:
        if count:
            yield [len(t) for t in times]
        return
    cutter = SubBatchCutter(times)
    while cutter.left:
        yield cutter.cut(rows)
