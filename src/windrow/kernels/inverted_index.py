"""Builds an inverted index of token sets, and finds rows that share enough tokens.

Rows and distinct tokens are numbered from 0. If rows are in order of time, a time interval is a contiguous
range of every posting list.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from windrow.kernels.probe_index import lower, lower_near, upper

_SHORT = 32


class InvertedIndex(NamedTuple):
    """The token sets of some rows, from rows to tokens and from tokens to rows."""

    tokens: Any
    """Distinct, ascending."""
    bounds: Any
    """Row r has the tokens tokens[numbers[bounds[r] : bounds[r + 1]]], ascending."""
    numbers: Any
    starts: Any
    """Token t is in the rows rows[starts[t] : starts[t + 1]], ascending: its posting list."""
    rows: Any


@njit(cache=True, nogil=True)
def invert(bounds: Any, numbers: Any, distinct: int) -> Any:
    """(starts, postings): the posting list of each token."""
    starts = np.zeros(distinct + 1, np.int32)
    for number in numbers:
        starts[number + 1] += 1
    for t in range(distinct):
        starts[t + 1] += starts[t]
    after = starts[:-1].copy()
    postings = np.empty(len(numbers), np.int32)
    # Invariant: after[t] is the place of the next row of token t. Rows ascend, so posting lists do.
    for r in range(len(bounds) - 1):
        for k in range(bounds[r], bounds[r + 1]):
            t = numbers[k]
            postings[after[t]] = r
            after[t] += 1
    return starts, postings


@njit(cache=True, nogil=True)
def merge_tokens(left: Any, right: Any) -> Any:
    """(merged tokens, number of each left token among them, number of each right token), all ascending."""
    merged = np.empty(len(left) + len(right), np.int64)
    of_left = np.empty(len(left), np.int32)
    of_right = np.empty(len(right), np.int32)
    i = j = count = 0
    # Invariant: merged[:count] are the tokens below both left[i] and right[j].
    while i < len(left) or j < len(right):
        if j == len(right) or (i < len(left) and left[i] < right[j]):
            merged[count] = left[i]
            of_left[i] = count
            i += 1
        elif i == len(left) or right[j] < left[i]:
            merged[count] = right[j]
            of_right[j] = count
            j += 1
        else:
            merged[count] = left[i]
            of_left[i] = count
            of_right[j] = count
            i += 1
            j += 1
        count += 1
    return merged[:count].copy(), of_left, of_right


@njit(cache=True, nogil=True)
def copy_sets(which: Any, rows: Any, index: Any, starts: Any, out: Any) -> None:
    """Copies the tokens of rows[k] to out[starts[which[k]]:], for each k."""
    for k in range(len(rows)):
        at = starts[which[k]]
        for n in range(index.bounds[rows[k]], index.bounds[rows[k] + 1]):
            out[at] = index.tokens[index.numbers[n]]
            at += 1


@njit(cache=True, inline="always")
def _enough(shared: Any, left: Any, right: Any, at_least: Any, share: Any, strict: Any) -> Any:
    """Whether two sets of these sizes with `shared` common tokens match; `share` is negative for an
    overlap."""
    if share < 0:
        return shared >= at_least
    part = shared / (left + right - shared)
    return part > share if strict else part >= share


@njit(cache=True)
def _sort_by_length(low: Any, high: Any, count: int) -> None:
    """Sorts the lists low[k]..high[k], shortest first."""
    if count > _SHORT:
        order = np.argsort(high[:count] - low[:count])
        was_low, was_high = low[:count].copy(), high[:count].copy()
        for k in range(count):  # assigning slices takes seconds to compile
            low[k], high[k] = was_low[order[k]], was_high[order[k]]
        return
    for k in range(1, count):
        a, b = low[k], high[k]
        j = k - 1
        while j >= 0 and high[j] - low[j] > b - a:
            low[j + 1], high[j + 1] = low[j], high[j]
            j -= 1
        low[j + 1], high[j + 1] = a, b


@njit(cache=True)
def _lists(wanted: Any, index: Any, a: int, b: int, low: Any, high: Any) -> int:
    """Finds the range of rows a..b in the posting list of each wanted token; returns how many are not
    empty."""
    tokens, starts = index.tokens, index.starts
    count = 0
    at = 0
    for token in wanted:
        at = lower_near(tokens, at, len(tokens), token, at)
        if at == len(tokens):
            break
        if tokens[at] == token:
            begin = lower(index.rows, starts[at], starts[at + 1], a)
            end = lower(index.rows, begin, starts[at + 1], b)
            if begin < end:
                low[count] = begin
                high[count] = end
                count += 1
    return count


@njit(cache=True)
def _count_rest(postings: Any, low: int, high: int, counts: Any, touched: Any, candidates: int) -> int:
    """Counts one more token for the candidates: goes through its posting list or, if that is long, looks up
    each candidate in it. Returns the number of rows compared.
    """
    steps, length = 1, high - low
    while length > 1:
        steps += 1
        length >>= 1
    if high - low <= candidates * steps:
        for k in range(low, high):
            r = postings[k]
            if counts[r] > 0:
                counts[r] += 1
        return high - low
    for c in range(candidates):
        r = touched[c]
        at = lower(postings, low, high, r)
        if at < high and postings[at] == r:
            counts[r] += 1
    return candidates


@njit(cache=True, nogil=True)
def probe_inverted(
    state: Any,
    sets: Any,
    oldest: Any,
    latest: Any,
    index: Any,
    offset: int,
    ts: Any,
    first: int,
    ordered: bool,
    similarity: Any,
    space: Any,
    out_probe: Any,
    out_row: Any,
) -> Any:
    """Rows of one segment, at `offset` in the window, that share enough tokens with each probe. `sets` are
    (starts, sizes, tokens) of the probes; `similarity` is (at_least, share, strict) as in `_enough`; `space`
    is working space, (counts, touched): an entry for each row, and `counts` of zeros.

    If n tokens must be shared, a match has at least one of any choice of all but n - 1 tokens of the probe.
    So candidates come from the posting lists of the rarest tokens, and the n - 1 most frequent tokens are
    counted only for them.

    Invariant: counts[r] > 0 exactly for candidates that are not yet checked, so `counts` ends as zeros.
    """
    probe_starts, probe_sizes, probe_tokens = sets
    (at_least, share, strict), (counts, touched) = similarity, space
    bounds, postings = index.bounds, index.rows
    room = len(out_row)
    found = 0
    compared = 0
    longest = 0
    for size in probe_sizes:
        longest = max(longest, size)
    low = np.empty(longest, np.int64)
    high = np.empty(longest, np.int64)
    rows = len(bounds) - 1
    k = state[1]
    candidates = state[2]
    for i in range(state[0], len(oldest)):
        size = probe_sizes[i]
        if k < 0:
            k = 0
            candidates = 0
            needed = at_least
            if share > 0:
                # The union is at least as large as the probe. Slightly less, because the product is rounded.
                needed = int(max(1.0, np.ceil(share * size * (1.0 - 1e-12))))
            since, until = oldest[i], latest[i]
            a, b = max(first - offset, 0), rows
            if ordered and a < b:
                a = lower(ts, offset + a, offset + b, since) - offset
                b = upper(ts, offset + a, offset + b, until) - offset
            lists = 0
            if a < b and size >= needed:
                wanted = probe_tokens[probe_starts[i] : probe_starts[i] + size]
                lists = _lists(wanted, index, a, b, low, high)
            if lists >= needed:
                if needed > 1:
                    _sort_by_length(low, high, lists)
                rare = lists - needed + 1
                for q in range(rare):
                    compared += high[q] - low[q]
                    for n in range(low[q], high[q]):
                        r = postings[n]
                        if ordered or since <= ts[offset + r] <= until:
                            if counts[r] == 0:
                                touched[candidates] = r
                                candidates += 1
                            counts[r] += 1
                for q in range(rare, lists):
                    compared += _count_rest(postings, low[q], high[q], counts, touched, candidates)
        while k < candidates:
            r = touched[k]
            if _enough(counts[r], size, bounds[r + 1] - bounds[r], at_least, share, strict):
                if found == room:
                    state[0] = i
                    state[1] = k
                    state[2] = candidates
                    return True, found, compared
                out_probe[found] = i
                out_row[found] = offset + r
                found += 1
            counts[r] = 0
            k += 1
        k = -1
    return False, found, compared
