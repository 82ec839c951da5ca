"""Routes results to queries: which windows hold a result, and the order of delivery."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.probe_index import lower

_DIGIT = 11
_BUCKETS = 1 << _DIGIT
_MOST_MOVES = 4096


@njit(cache=True, nogil=True)
def count_before(keys: Any, until: Any, before: Any, seqs: Any, starts: Any, out: Any) -> None:
    """Number of rows of each result's key that arrived before `until`: those `before` this sub-batch, and
    those in it, whose `seqs` ascend within the key's range starts[key] .. starts[key + 1]."""
    for r in range(len(out)):
        begin, end = starts[keys[r]], starts[keys[r] + 1]
        out[r] = before[keys[r]] + lower(seqs, begin, end, until[r]) - begin


@njit(cache=True, nogil=True)
def rank_among(distances: Any, sizes: Any, out: Any) -> None:
    """The index of the first of the ascending `sizes` that is not less than each distance, or len(sizes)."""
    for r in range(len(distances)):
        out[r] = lower(sizes, 0, len(sizes), distances[r])


@njit(cache=True, nogil=True)
def _takes(ranks: Any, wanted: Any, r: int, o: int) -> bool:
    """Whether output `o` takes result `r`: its rank is at most the output's on every stream."""
    s = 0
    while s < wanted.shape[1] and ranks[s, r] <= wanted[o, s]:
        s += 1
    return bool(s == wanted.shape[1])


@njit(cache=True, nogil=True)
def taken(ranks: Any, wanted: Any) -> Any:
    """The results that each output takes, in order, one output after the other; and where each output's end.
    `ranks[s, r]` are those of results, `wanted[o, s]` of outputs."""
    outputs, results = len(wanted), ranks.shape[1]
    ends = np.zeros(outputs, np.int64)
    for o in range(outputs):
        for r in range(results):
            ends[o] += _takes(ranks, wanted, r, o)
    ends = np.cumsum(ends)
    found = np.empty(ends[-1], np.int64)
    at = 0
    for o in range(outputs):
        for r in range(results):
            if _takes(ranks, wanted, r, o):
                found[at] = r
                at += 1
    return found, ends


@njit(cache=True, nogil=True)
def taken_by_nested(ranks: Any, wanted: Any) -> Any:
    """As `taken`, for nested outputs: a result goes to the first that takes it and to all after it."""
    outputs, streams = wanted.shape
    first = np.empty(ranks.shape[1], np.int64)
    counts = np.zeros(outputs + 1, np.int64)
    for r in range(len(first)):
        level = 0
        for s in range(streams):
            while level < outputs and ranks[s, r] > wanted[level, s]:
                level += 1
        first[r] = level
        counts[level] += 1
    ends = np.cumsum(np.cumsum(counts)[:outputs])
    found = np.empty(ends[-1], np.int64)
    at = np.empty(outputs, np.int64)
    at[0], at[1:] = 0, ends[:-1]
    for r in range(len(first)):
        for o in range(first[r], outputs):
            found[at[o]] = r
            at[o] += 1
    return found, ends


@njit(cache=True, nogil=True)
def in_order(newest: Any, places: Any) -> bool:
    """Whether results are already in the order of `order_of`."""
    streams = places.shape[0]
    for r in range(1, len(newest)):
        if newest[r] > newest[r - 1]:
            continue
        if newest[r] < newest[r - 1]:
            return False
        for s in range(streams):
            if places[s, r] != places[s, r - 1]:
                if places[s, r] > places[s, r - 1]:
                    return False
                break
    return True


@njit(cache=True, nogil=True)
def _pass(keys: Any, least: Any, shift: Any, order: Any, spare: Any) -> bool:
    """One stable pass of a radix sort over a digit of keys - least; False, with nothing done, if all digits
    are equal."""
    counts = np.zeros(_BUCKETS + 1, np.int64)
    for r in range(len(order)):
        counts[((keys[order[r]] - least) >> shift) & (_BUCKETS - 1)] += 1
    total = 0
    for b in range(_BUCKETS):
        if counts[b] == len(order):
            return False
        here = counts[b]
        counts[b] = total
        total += here
    for r in range(len(order)):
        b = ((keys[order[r]] - least) >> shift) & (_BUCKETS - 1)
        spare[counts[b]] = order[r]
        counts[b] += 1
    return True


@njit(cache=True, nogil=True)
def _sort(keys: Any, order: Any, spare: Any) -> Any:
    least, most = keys.min(), keys.max()
    shift = 0
    while shift < 63 and (most - least) >> shift > 0:
        if _pass(keys, least, shift, order, spare):
            order, spare = spare, order
        shift += _DIGIT
    return order, spare


@njit(cache=True, nogil=True)
def _later(places: Any, left: int, right: int) -> bool:
    """Whether the result `left` comes after `right`, both of one time."""
    for s in range(places.shape[0]):
        if places[s, left] != places[s, right]:
            return bool(places[s, left] < places[s, right])
    return False


@njit(cache=True, nogil=True)
def _settle_ties(newest: Any, places: Any, order: Any) -> bool:
    """Sorts results of equal time by insertion; False if that takes too long. `order` is then still a
    permutation sorted by time, so the caller can sort it in another way."""
    count = len(order)
    start = 0
    while start < count:
        end = start + 1
        while end < count and newest[order[end]] == newest[order[start]]:
            end += 1
        moves = 0
        for k in range(start + 1, end):
            held = order[k]
            j = k
            while j > start and _later(places, order[j - 1], held):
                order[j] = order[j - 1]
                j -= 1
                moves += 1
            order[j] = held
            if moves > _MOST_MOVES:
                return False
        start = end
    return True


@njit(cache=True, nogil=True)
def order_of(newest: Any, places: Any) -> Any:
    """The order of delivery: by newest time, and at equal times by descending place of the row of the first
    stream, then of the second, and so on. `places[s, r]` is the place of the row of stream s among all rows
    of its stream.

    Sorts by time with a radix sort and settles ties by insertion. If many results have equal times, sorts by
    all keys from the least significant up; the radix sort is stable.
    """
    order = np.arange(len(newest))
    spare = np.empty(len(newest), np.int64)
    if len(newest) == 0:
        return order
    order, spare = _sort(newest, order, spare)
    if _settle_ties(newest, places, order):
        return order
    for k in range(places.shape[0]):
        order, spare = _sort(-places[places.shape[0] - 1 - k], order, spare)
    order, spare = _sort(newest, order, spare)
    return order
