"""Finding matches of probing rows in a window: by hash chain, in a sorted run, by scanning.

All probes share one contract. Probe `i` looks for stored positions `p` with
    first <= p,  oldest[i] <= ts[p] <= latest[i],
and a match on the key or on the range [low[i], high[i]]. Found pairs go to `out_probe`, `out_row`. When these
are full the kernel stops and notes in `state` exactly where, so that the next call goes on from there. It
returns (whether there is more, pairs written, rows compared). A fresh `state` comes from `fresh_state`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_BLOCK = 1024
LANES = 16
"""Chains followed at the same time. Following a chain means waiting for memory at every link; with many
chains under way the waits overlap."""


def fresh_state() -> np.ndarray:
    """[next probe, position within it or -1, then per lane: probe or -1, position]."""
    state = np.full(2 + 2 * LANES, -1, np.int64)
    state[0] = 0
    return state


@njit(cache=True, inline="always")
def bucket_of(key: Any, buckets: Any) -> Any:
    """Any number of buckets, without a division: the high half of a mixed key, scaled."""
    mixed = np.uint64(key)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * _MULTIPLIER
    return np.int64(((mixed >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def link(head: Any, back: Any, keys: Any, start: int, end: int) -> None:
    """Puts rows start..end into their chains. Invariant: a chain runs from newer to older positions."""
    buckets = len(head)
    for p in range(start, end):
        b = bucket_of(keys[p], buckets)
        back[p] = head[b]
        head[b] = p


@njit(cache=True, nogil=True)
def shift_chains(head: Any, back: Any, shift: int, rows: int) -> None:
    """After rows moved `shift` positions to the front; links to rows that are gone become -1."""
    for b in range(len(head)):
        head[b] = max(head[b] - shift, -1)
    for p in range(rows):
        back[p] = max(back[p] - shift, -1)


@njit(cache=True, nogil=True)
def probe_hash(
    state: Any,
    probe_keys: Any,
    oldest: Any,
    latest: Any,
    head: Any,
    back: Any,
    keys: Any,
    ts: Any,
    first: int,
    out_probe: Any,
    out_row: Any,
) -> Any:
    """Several chains in turn, one link each. Pairs of one probe come in the order of its chain."""
    buckets = len(head)
    count = len(probe_keys)
    room = len(out_row) - LANES
    found = 0
    compared = 0
    following = state[0]
    lane_probe = state[2 : 2 + LANES]
    lane_at = state[2 + LANES :]
    active = 0
    for lane in range(LANES):
        if lane_probe[lane] >= 0:
            active += 1
        elif following < count:
            lane_probe[lane] = following
            lane_at[lane] = head[bucket_of(probe_keys[following], buckets)]
            following += 1
            active += 1
    while active > 0 and found <= room:
        for lane in range(LANES):
            i = lane_probe[lane]
            if i < 0:
                continue
            p = lane_at[lane]
            if p >= first:
                compared += 1
                if keys[p] == probe_keys[i] and oldest[i] <= ts[p] <= latest[i]:
                    out_probe[found] = i
                    out_row[found] = p
                    found += 1
                lane_at[lane] = back[p]
            elif following < count:
                lane_probe[lane] = following
                lane_at[lane] = head[bucket_of(probe_keys[following], buckets)]
                following += 1
            else:
                lane_probe[lane] = -1
                active -= 1
    state[0] = following
    return active > 0, found, compared


@njit(cache=True)
def lower(values: Any, lo: int, hi: int, value: Any) -> int:
    """First position in lo..hi whose entry is >= value."""
    while lo < hi:
        mid = (lo + hi) >> 1
        if values[mid] < value:
            lo = mid + 1
        else:
            hi = mid
    return lo


@njit(cache=True)
def upper(values: Any, lo: int, hi: int, value: Any) -> int:
    """First position in lo..hi whose entry is > value."""
    while lo < hi:
        mid = (lo + hi) >> 1
        if values[mid] <= value:
            lo = mid + 1
        else:
            hi = mid
    return lo


@njit(cache=True)
def gallop(values: Any, start: int, value: Any) -> int:
    """First position from `start` on whose entry is >= value, in steps that double: cheap if it is near."""
    size = len(values)
    if start >= size or values[start] >= value:
        return start
    lo, step = start, 1
    while lo + step < size and values[lo + step] < value:
        lo += step
        step <<= 1
    return lower(values, lo + 1, min(lo + step, size), value)


@njit(cache=True, nogil=True)
def probe_sorted(
    state: Any,
    order: Any,
    low: Any,
    high: Any,
    oldest: Any,
    latest: Any,
    run_keys: Any,
    run_rows: Any,
    offset: int,
    ts: Any,
    first: int,
    out_probe: Any,
    out_row: Any,
) -> Any:
    """One sorted run: `run_keys` ascending, `run_rows` their positions less `offset`.

    `order` names the probes by ascending `low`, so that each begins in the run where the last one began.
    """
    room = len(out_row)
    found = 0
    compared = 0
    size = len(run_keys)
    k = state[1]
    begin = max(state[2], 0)
    for j in range(state[0], len(order)):
        i = order[j]
        if k < 0:
            begin = gallop(run_keys, begin, low[i])
            k = begin
        since = oldest[i]
        until = latest[i]
        limit = high[i]
        while k < size and run_keys[k] <= limit:
            p = offset + run_rows[k]
            if p >= first and since <= ts[p] <= until:
                if found == room:
                    state[0] = j
                    state[1] = k
                    state[2] = begin
                    return True, found, compared
                out_probe[found] = i
                out_row[found] = p
                found += 1
            compared += 1
            k += 1
        k = -1
    return False, found, compared


@njit(cache=True, nogil=True)
def _count_in_range(values: Any, low: Any, high: Any) -> Any:
    """Counted in an accumulator of the data's own width, over a slice of its own, so that it vectorises."""
    count = np.int64(0)
    for k in range(len(values)):
        count += np.int64((values[k] >= low) & (values[k] <= high))
    return count


@njit(cache=True, inline="always")
def _in_time(ts: Any, first: int, end: int, since: Any, until: Any, ordered: bool) -> Any:
    """The positions that may lie within the time bounds: just those, in a window ordered by time."""
    if not ordered:
        return first, end
    start = lower(ts, first, end, since)
    return start, upper(ts, start, end, until)


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
    """Nested loops over blocks: a block is first counted, and only walked through if it has matches."""
    room = len(out_row)
    found = 0
    compared = 0
    resume = state[1]
    for i in range(state[0], len(low)):
        since = oldest[i]
        until = latest[i]
        a, b = _in_time(ts, first, end, since, until, ordered)
        if resume < 0:
            compared += b - a
        else:
            a = resume
            resume = -1
        for block in range(a, b, _BLOCK):
            stop = min(block + _BLOCK, b)
            if _count_in_range(values[block:stop], low[i], high[i]) == 0:
                continue
            for p in range(block, stop):
                if values[p] >= low[i] and values[p] <= high[i] and since <= ts[p] <= until:
                    if found == room:
                        state[0] = i
                        state[1] = p
                        return True, found, compared
                    out_probe[found] = i
                    out_row[found] = p
                    found += 1
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
    for i in range(state[0], len(oldest)):
        since = oldest[i]
        until = latest[i]
        a, b = _in_time(ts, first, end, since, until, ordered)
        if resume < 0:
            compared += b - a
        else:
            a = resume
            resume = -1
        for p in range(a, b):
            if since <= ts[p] <= until:
                if found == room:
                    state[0] = i
                    state[1] = p
                    return True, found, compared
                out_probe[found] = i
                out_row[found] = p
                found += 1
    return False, found, compared
