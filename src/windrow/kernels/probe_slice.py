"""Probes a hash index inside a slice: the part of a window between two tiers."""

from __future__ import annotations

from typing import Any

from numba import njit

from windrow.kernels.probe_index import bucket_of


@njit(cache=True, nogil=True)
def probe_hash_slice(
    state: Any,
    probe_keys: Any,
    low: Any,
    high: Any,
    head: Any,
    back: Any,
    keys: Any,
    ts: Any,
    first: int,
    end: int,
    ordered: bool,
    out_probe: Any,
    out_row: Any,
) -> Any:
    """As `probe_index.probe_hash`, for positions p in first..end with low[i] <= ts[p] <= high[i].

    Chains run from newer to older rows. In a window ordered by time the probe leaves a chain at the first row
    that is older than the slice.
    """
    buckets = len(head)
    room = len(out_row)
    found = 0
    compared = 0
    p = state[1]
    for i in range(state[0], len(probe_keys)):
        if p < 0:
            p = head[bucket_of(probe_keys[i], buckets)]
        while p >= first:
            if ordered and p < end and ts[p] < low[i]:
                break
            compared += 1
            if p < end and keys[p] == probe_keys[i] and low[i] <= ts[p] <= high[i]:
                if found == room:
                    state[0] = i
                    state[1] = p
                    return True, found, compared
                out_probe[found] = i
                out_row[found] = p
                found += 1
            p -= back[p]
        p = -1
    return False, found, compared
