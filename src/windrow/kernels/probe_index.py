"""Finding matches of probing rows in a window: by hash chain, or in a sorted run.

All probes, those of `probe_scan` too, share one contract. Probe `i` looks for stored positions `p` with
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


@njit(cache=True, inline="always")
def lower_near(values: Any, lo: int, hi: int, value: Any, guess: int) -> int:
    """First position in lo..hi whose entry is >= value, in steps that double from a guess: cheap if near."""
    at = min(max(guess, lo), hi)
    step = 1
    if at < hi and values[at] < value:
        while at + step < hi and values[at + step] < value:
            at += step
            step <<= 1
        return lower(values, at + 1, min(at + step, hi), value)
    while at - step >= lo and values[at - step] >= value:
        at -= step
        step <<= 1
    return lower(values, max(at - step, lo), at, value)


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
            begin = lower_near(run_keys, begin, size, low[i], begin)
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
