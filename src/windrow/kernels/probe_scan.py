"""Finding matches of probing rows by looking at every stored row within the time bounds.

The contract is that of `probe_index`. In a window ordered by time the bounds are places; they are looked for
from those of the probe before, since probes mostly come in order of time.

Rows are compared in blocks. Comparing and counting a block runs many times as fast as picking rows out of it,
so a block is first counted, then its parts, and only a part that has matches is walked through: without
branches, writing every row down where the next match belongs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.probe_index import lower_near

_BLOCK = 256
_PART = 32


@njit(cache=True, inline="always")
def _in_time(ts: Any, first: int, end: int, since: Any, until: Any, ordered: bool, a: int, b: int) -> Any:
    """The positions that may lie within the time bounds: just those, in a window ordered by time; a and b are
    those of the probe before."""
    if not ordered:
        return first, end
    start = lower_near(ts, first, end, since, a)
    return start, max(start, lower_near(ts, first, end, until + 1, b))


@njit(cache=True, nogil=True)
def _any_in_range(values: Any, low: Any, high: Any) -> Any:
    """Counted in an accumulator of the data's own width, over a slice of its own, so that it vectorises."""
    count = np.int64(0)
    for k in range(len(values)):
        count += np.int64((values[k] >= low) & (values[k] <= high))
    return count > 0


@njit(cache=True, nogil=True)
def probe_scan(
    state: Any,
    low: Any,
    high: Any,
    oldest: Any,
    latest: Any,
    values: Any,
    ts: Any,
    first: int,
    end: int,
    ordered: bool,
    out_probe: Any,
    out_row: Any,
) -> Any:
    """Nested loops: rows whose value lies in a range."""
    room = len(out_row) - _PART
    found: Any = 0
    compared = 0
    resume = state[1]
    a, b = first, end
    for i in range(state[0], len(low)):
        least, most = low[i], high[i]
        since, until = oldest[i], latest[i]
        a, b = _in_time(ts, first, end, since, until, ordered, a, b)
        begin = a
        if resume < 0:
            compared += b - a
        else:
            begin = resume
            resume = -1
        for block in range(begin, b, _BLOCK):
            stop = min(block + _BLOCK, b)
            if not _any_in_range(values[block:stop], least, most):
                continue
            for part in range(block, stop, _PART):
                part_end = min(part + _PART, stop)
                if not _any_in_range(values[part:part_end], least, most):
                    continue
                if found > room:
                    state[0] = i
                    state[1] = part
                    return True, found, compared
                for p in range(part, part_end):
                    out_probe[found] = i
                    out_row[found] = p
                    hit = (values[p] >= least) & (values[p] <= most)
                    if not ordered:
                        hit &= (since <= ts[p]) & (ts[p] <= until)
                    found += np.int64(hit)
    return False, found, compared


@njit(cache=True, nogil=True)
def probe_all(
    state: Any,
    oldest: Any,
    latest: Any,
    ts: Any,
    first: int,
    end: int,
    ordered: bool,
    out_probe: Any,
    out_row: Any,
) -> Any:
    """Every row within the time bounds: for predicates that no index understands."""
    room = len(out_row)
    found = 0
    compared = 0
    resume = state[1]
    a, b = first, end
    for i in range(state[0], len(oldest)):
        since, until = oldest[i], latest[i]
        a, b = _in_time(ts, first, end, since, until, ordered, a, b)
        begin = a
        if resume < 0:
            compared += b - a
        else:
            begin = resume
            resume = -1
        for p in range(begin, b):
            if ordered or since <= ts[p] <= until:
                if found == room:
                    state[0] = i
                    state[1] = p
                    return True, found, compared
                out_probe[found] = i
                out_row[found] = p
                found += 1
    return False, found, compared
