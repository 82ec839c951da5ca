"""Finding matches of probing rows in a window: by hash chain, in a sorted run, by scanning.

All probes share one contract. Probe `i` looks for stored positions `p` with
    first <= p,  newest[i] - span <= ts[p] <= latest[i],
and a match on the key or on the range [low[i], high[i]]. Found pairs go to `out_probe`, `out_row`. When
these are full the kernel stops before the probe that did not fit, so that every probe's matches come
whole; it returns (next probe, pairs written, rows compared) and is called again from there. A return
that neither advanced nor wrote means one probe alone has more matches than the buffers hold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_BLOCK = 1024


@njit(cache=True, inline="always")
def bucket_of(key: Any, buckets: Any) -> Any:
    """Any number of buckets, without a division: the high half of a mixed key, scaled."""
    mixed = np.uint64(key)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * _MULTIPLIER
    return np.int64(((mixed >> np.uint64(32)) * np.uint64(buckets)) >> np.uint64(32))


@njit(cache=True)
def link(head: Any, back: Any, keys: Any, start: int, end: int) -> None:
    """Puts rows start..end into their chains. Invariant: a chain runs from newer to older positions."""
    buckets = len(head)
    for p in range(start, end):
        b = bucket_of(keys[p], buckets)
        back[p] = head[b]
        head[b] = p


@njit(cache=True)
def shift_chains(head: Any, back: Any, shift: int, rows: int) -> None:
    """After rows moved `shift` positions to the front; links to rows that are gone become -1."""
    for b in range(len(head)):
        head[b] = max(head[b] - shift, -1)
    for p in range(rows):
        back[p] = max(back[p] - shift, -1)


@njit(cache=True)
def probe_hash(
    start: int,
    probe_keys: Any,
    newest: Any,
    latest: Any,
    head: Any,
    back: Any,
    keys: Any,
    ts: Any,
    first: int,
    span: int,
    out_probe: Any,
    out_row: Any,
) -> Any:
    buckets = len(head)
    room = len(out_row)
    found = 0
    compared = 0
    for i in range(start, len(probe_keys)):
        key = probe_keys[i]
        oldest = newest[i] - span
        until = latest[i]
        before = found
        p = head[bucket_of(key, buckets)]
        while p >= first:
            compared += 1
            if keys[p] == key and oldest <= ts[p] <= until:
                if found == room:
                    return i, before, compared
                out_probe[found] = i
                out_row[found] = p
                found += 1
            p = back[p]
    return len(probe_keys), found, compared


@njit(cache=True)
def _lower(ts: Any, lo: int, hi: int, value: Any) -> int:
    """First position in lo..hi whose entry is >= value."""
    while lo < hi:
        mid = (lo + hi) >> 1
        if ts[mid] < value:
            lo = mid + 1
        else:
            hi = mid
    return lo


@njit(cache=True)
def _upper(ts: Any, lo: int, hi: int, value: Any) -> int:
    """First position in lo..hi whose entry is > value."""
    while lo < hi:
        mid = (lo + hi) >> 1
        if ts[mid] <= value:
            lo = mid + 1
        else:
            hi = mid
    return lo


@njit(cache=True)
def probe_sorted(
    start: int,
    low: Any,
    high: Any,
    newest: Any,
    latest: Any,
    run_keys: Any,
    run_rows: Any,
    offset: int,
    ts: Any,
    first: int,
    span: int,
    out_probe: Any,
    out_row: Any,
) -> Any:
    """One sorted run: `run_keys` ascending, `run_rows` their positions less `offset`."""
    room = len(out_row)
    found = 0
    compared = 0
    size = len(run_keys)
    for i in range(start, len(low)):
        oldest = newest[i] - span
        until = latest[i]
        before = found
        k = _lower(run_keys, 0, size, low[i])
        limit = high[i]
        while k < size and run_keys[k] <= limit:
            compared += 1
            p = offset + run_rows[k]
            if p >= first and oldest <= ts[p] <= until:
                if found == room:
                    return i, before, compared
                out_probe[found] = i
                out_row[found] = p
                found += 1
            k += 1
    return len(low), found, compared


@njit(cache=True)
def _count_in_range(values: Any, start: int, end: int, low: Any, high: Any) -> int:
    """Counted in an accumulator of the data's own width, so that the loop vectorises."""
    count = np.int64(0)
    for p in range(start, end):
        count += np.int64((values[p] >= low) & (values[p] <= high))
    return count


@njit(cache=True)
def probe_scan(
    start: int,
    low: Any,
    high: Any,
    newest: Any,
    latest: Any,
    values: Any,
    ts: Any,
    first: int,
    end: int,
    ordered: bool,
    span: int,
    out_probe: Any,
    out_row: Any,
) -> Any:
    """Nested loops over blocks: a block is first counted, and only walked through if it has matches.

    In a window ordered by time the loop covers just the rows within the time bounds.
    """
    room = len(out_row)
    found = 0
    compared = 0
    for i in range(start, len(low)):
        oldest = newest[i] - span
        until = latest[i]
        a, b = first, end
        if ordered:
            a = _lower(ts, first, end, oldest)
            b = _upper(ts, a, end, until)
        before = found
        compared += b - a
        for block in range(a, b, _BLOCK):
            stop = min(block + _BLOCK, b)
            if _count_in_range(values, block, stop, low[i], high[i]) == 0:
                continue
            for p in range(block, stop):
                if values[p] >= low[i] and values[p] <= high[i] and oldest <= ts[p] <= until:
                    if found == room:
                        return i, before, compared
                    out_probe[found] = i
                    out_row[found] = p
                    found += 1
    return len(low), found, compared


@njit(cache=True)
def probe_all(
    start: int,
    newest: Any,
    latest: Any,
    ts: Any,
    first: int,
    end: int,
    ordered: bool,
    span: int,
    out_probe: Any,
    out_row: Any,
) -> Any:
    """Every row within the time bounds: for predicates that no index understands."""
    room = len(out_row)
    found = 0
    compared = 0
    for i in range(start, len(newest)):
        oldest = newest[i] - span
        until = latest[i]
        a, b = first, end
        if ordered:
            a = _lower(ts, first, end, oldest)
            b = _upper(ts, a, end, until)
        before = found
        compared += b - a
        for p in range(a, b):
            if oldest <= ts[p] <= until:
                if found == room:
                    return i, before, compared
                out_probe[found] = i
                out_row[found] = p
                found += 1
    return len(newest), found, compared
