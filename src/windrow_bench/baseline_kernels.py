"""Bare kernels to compare with: per-row loops that only find index pairs, without payloads or a plan."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.probe_index import bucket_of


@njit(cache=True)
def pairs(stream: Any, ts: Any, key: Any, span: int, buckets: int, out: Any) -> int:
    """Two streams merged in order of time; each row follows the other stream's chain, then joins its own.

    Pairs go round in `out`, as a consumer would use them up.
    """
    head = np.full((2, buckets), -1, np.int32)
    back = np.empty(len(ts), np.int32)
    room = len(out)
    found = 0
    for r in range(len(ts)):
        s = stream[r]
        b = bucket_of(key[r], buckets)
        p = head[1 - s, b]
        oldest = ts[r] - span
        while p >= 0 and ts[p] >= oldest:
            if key[p] == key[r]:
                out[found % room, 0] = r
                out[found % room, 1] = p
                found += 1
            p = back[p]
        back[r] = head[s, b]
        head[s, b] = r
    return found


@njit(cache=True)
def triples(stream: Any, ts: Any, key: Any, span: int, buckets: int, out: Any) -> int:
    """The same for three streams: nested loops over the chains of the two others."""
    head = np.full((3, buckets), -1, np.int32)
    back = np.empty(len(ts), np.int32)
    room = len(out)
    found = 0
    for r in range(len(ts)):
        s = stream[r]
        b = bucket_of(key[r], buckets)
        oldest = ts[r] - span
        p = head[(s + 1) % 3, b]
        while p >= 0 and ts[p] >= oldest:
            if key[p] == key[r]:
                q = head[(s + 2) % 3, b]
                while q >= 0 and ts[q] >= oldest:
                    if key[q] == key[r]:
                        out[found % room, 0] = r
                        out[found % room, 1] = p
                        out[found % room, 2] = q
                        found += 1
                    q = back[q]
            p = back[p]
        back[r] = head[s, b]
        head[s, b] = r
    return found


@njit(cache=True)
def in_band(values: Any, centres: Any, epsilon: float) -> Any:
    """Counts pairs within a band: the fastest a plain nested loop can go."""
    total = np.int64(0)
    for i in range(len(centres)):
        low = centres[i] - epsilon
        high = centres[i] + epsilon
        count = np.int64(0)
        for p in range(len(values)):
            count += np.int64((values[p] >= low) & (values[p] <= high))
        total += count
    return total
