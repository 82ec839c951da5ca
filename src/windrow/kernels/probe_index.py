"""Finds matches of probing rows in a window, by hash chains or in a sorted run.

All probes, also those of `probe_scan`, share one contract. Probe `i` finds the stored positions `p` with
    first <= p,  oldest[i] <= ts[p] <= latest[i],
and a match on the key or on the range [low[i], high[i]]. It writes pairs to `out_probe` and `out_row`. When
these are full the kernel records its place in `state` and stops, and the next call continues there. It
returns (whether there is more, pairs written, rows compared). `fresh_state` makes the first `state`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.hashing import GOLDEN

LANES = 16
"""Chains followed at the same time. Every link of a chain waits for memory; with several chains the waits
overlap."""


def fresh_state() -> np.ndarray:
    """[next probe, position within it or -1, then per lane: probe or -1, position]."""
    state = np.full(2 + 2 * LANES, -1, np.int64)
    state[0] = 0
    return state


@njit(cache=True, inline="always")
def bucket_of(key: Any, buckets: Any) -> Any:
    """The bucket of a key, for any number of buckets, without a division: the scaled high half of a mixed
    key."""
    mixed = np.uint64(key)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * GOLDEN
    return np.int64(((mixed >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def link(head: Any, back: Any, keys: Any, start: int, end: int) -> None:
    """Adds rows start..end to their chains. Invariant: a chain runs from newer to older positions, each row
    `back[p]` positions after the next, and ends below the first live row. Distances stay the same when the
    rows move."""
    buckets = len(head)
    for p in range(start, end):
        b = bucket_of(keys[p], buckets)
        back[p] = p - head[b]
        head[b] = p


@njit(cache=True, nogil=True)
def relink(head: Any, keys: Any, start: int, end: int) -> None:
    """Adds rows start..end, whose distances are known, to the heads of their chains."""
    buckets = len(head)
    for p in range(start, end):
        head[bucket_of(keys[p], buckets)] = p


@njit(cache=True, nogil=True)
def shift_heads(head: Any, shift: int) -> None:
    """Adapts the heads after rows moved `shift` positions to the front. Heads of removed rows become -1."""
    for b in range(len(head)):
        head[b] = max(head[b] - shift, -1)


@njit(cache=True, nogil=True)
def heads_before(head: Any, back: Any, first: int, end: int, out: Any) -> None:
    """The heads as they were when `end` was the end of the window: each as its distance from `end`, 0 for
    chains without a live row. `out` is allocated outside: numpy asks the system for large pages."""
    for b in range(len(head)):
        p = np.int64(head[b])
        while p >= end and p >= first:
            p -= back[p]
        out[b] = end - p if p >= first else 0


@njit(cache=True, nogil=True)
def heads_from(distances: Any, end: int, out: Any) -> None:
    """The inverse of `heads_before`."""
    for b in range(len(distances)):
        out[b] = end - distances[b] if distances[b] else -1


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
    end: int,
    by_time: Any,
    out_probe: Any,
    out_row: Any,
) -> Any:
    """Follows LANES chains in turn, one link at a time. Pairs of one probe come in the order of its chain.
    Chains may begin with rows from position `end` on, which are not part of the window yet.

    `by_time` leaves a chain at the first row that is too old. It is for windows ordered by time, and pays
    only if the bounds are much narrower than the window: it reads the time of every row of a chain. With None
    it is not read, and the loop has no test for it: numba compiles that case separately.

    Invariant: lane_at[lane] is the next unread position of the chain of probe lane_probe[lane], and probes
    from `following` on have not begun.
    """
    buckets = len(head)
    count = len(probe_keys)
    room = len(out_row) - LANES  # a turn finds at most one pair per lane
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
            if by_time is not None and first <= p < end and ts[p] < oldest[i]:
                p = -1
            if p >= first:
                if p < end:
                    compared += 1
                    if keys[p] == probe_keys[i] and oldest[i] <= ts[p] <= latest[i]:
                        out_probe[found] = i
                        out_row[found] = p
                        found += 1
                lane_at[lane] = p - back[p]
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
    """First position in lo..hi whose entry is >= value. Steps double from the guess: cheap if it is near."""
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
    """Probes one sorted run: `run_keys` ascend, `run_rows` are their positions less `offset`.

    `order` lists the probes by ascending `low`. Invariant: no run key before `begin` is in the range of this
    or any later probe.
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
