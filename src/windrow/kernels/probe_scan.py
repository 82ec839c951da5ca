"""Finds matches of probing rows by a scan of the stored rows within the time bounds.

The contract is that of `probe_index`. In a window ordered by time the bounds are positions. The search for
them starts at those of the previous probe, because probes mostly come in order of time.

The scan works in blocks. Counting the matches of a block vectorises and is many times as fast as extracting
them. So the scan first counts a block, then its parts, and extracts rows only from parts with matches. The
extraction has no branches: it writes every row to the place of the next match and advances only on a match.
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
    """The positions that may lie within the time bounds: exactly those in a window ordered by time, else all.
    `a` and `b` are the positions of the previous probe."""
    if not ordered:
        return first, end
    start = lower_near(ts, first, end, since, a)
    return start, max(start, lower_near(ts, first, end, until + 1, b))


@njit(cache=True, nogil=True)
def _any_in_range(values: Any, low: Any, high: Any) -> Any:
    """Whether any value is in the range. Counts in 64 bits, the width of the values, so that the loop
    vectorises."""
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
    """Rows whose value lies in a range."""
    room = len(out_row) - _PART  # a part is extracted as a whole, with room for all its rows
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
    """Every row within the time bounds, for predicates that no index supports."""
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
