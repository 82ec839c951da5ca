"""Keys that come again: counts at several half-lives and on several streams, side by side in one sketch.

As in `sketch.py` a key has one cell in each of four rows, and what others add on average is taken off; here
a cell holds a count for every *trace*, a stream and a half-life, so that one look finds all of a key's.
Counts are in units of their own that grow as what was counted fades. A key's expected rate is a sum over its
traces, each with a weight, and a base that all keys have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.sketch import _cell, _mix

LONE = 0.25
"""Other rows of a key, lately on any stream, below which a row counts as the only one."""


@njit(cache=True, nogil=True)
def add(cells: Any, keys: Any, first: int, amounts: Any) -> None:
    """Counts each key once in the traces from `first` on, by as much as `amounts` say."""
    depth, width, traces = cells.shape
    flat, scales = cells.ravel(), len(amounts)
    for k in range(len(keys)):
        mixed = _mix(keys[k])
        for row in range(depth):
            at = np.uint64((row * width + _cell(mixed, row, width)) * traces + first)
            for m in range(scales):
                flat[at + np.uint64(m)] += amounts[m]


@njit(cache=True, inline="always")
def _count(cells: Any, at: Any, trace: int, total: float, others: float) -> float:
    """Of a key with these cells; `others` is one over the number of cells that others fall into."""
    a, b = cells[0, at[0], trace], cells[1, at[1], trace]
    c, d = cells[2, at[2], trace], cells[3, at[3], trace]
    low, high = min(min(a, b), min(c, d)), max(max(a, b), max(c, d))
    middle = 0.5 * (a + b + c + d - low - high)
    middle -= (total - middle) * others
    return max(0.0, min(low, middle))


@njit(cache=True, nogil=True)
def rate(
    cells: Any,
    totals: Any,
    units: Any,
    keys: Any,
    weights: Any,
    base: float,
    scales: int,
    own: int,
    ages: Any,
    half_life: float,
    times: float,
    out: Any,
) -> None:
    """Multiplies `out` by `times` the rate at which each row's key is expected to come: `base` and `weights`
    times its traces; by 0 if the row is the only one of its key.

    There are `scales` traces a stream, the slowest first, with this half-life. Those from `own` on are of the
    stream that is foretold, those of others count 1 at most. The row's own stream counts the row itself: as
    much as is left of it at its age (seconds; none: it was not counted yet).
    """
    width, traces = cells.shape[1], cells.shape[2]
    others, fade = 1.0 / (width - 1), -np.log(2.0) / half_life
    flat, row = cells.ravel(), np.uint64(width * traces)
    # What tells something, and what tells whether a row is the only one.
    told, scale, most, counts = np.empty(traces, np.uint64), np.empty(traces), np.empty(traces), 0
    for trace in range(traces):
        if weights[trace] != 0.0 or trace % scales == 0:
            told[counts], scale[counts] = trace, weights[trace]
            most[counts] = np.inf if own <= trace < own + scales else 1.0
            counts += 1
    for k in range(len(keys)):
        mixed = _mix(keys[k])
        # Unsigned: numba need not look whether an index is negative.
        a = np.uint64(_cell(mixed, 0, width) * traces)
        b = row + np.uint64(_cell(mixed, 1, width) * traces)
        c = row + row + np.uint64(_cell(mixed, 2, width) * traces)
        d = row + row + row + np.uint64(_cell(mixed, 3, width) * traces)
        found, seen = base, 0.0
        for n in range(counts):
            trace = told[n]
            p, q, r, s = flat[a + trace], flat[b + trace], flat[c + trace], flat[d + trace]
            low, high = min(min(p, q), min(r, s)), max(max(p, q), max(r, s))
            middle = 0.5 * (p + q + r + s - low - high)
            middle -= (totals[trace] - middle) * others
            count = max(0.0, min(low, middle)) * units[trace]
            seen += count if trace % np.uint64(scales) == 0 else 0.0
            found += scale[n] * min(count, most[n])
        if len(ages) and seen < 1.0 + LONE:  # exp takes long
            seen -= np.exp(fade * ages[k])
        out[k] = out[k] * times * found if seen >= LONE else 0.0


@njit(cache=True, nogil=True)
def look(cells: Any, totals: Any, units: Any, keys: Any, scales: int, own: int, out: Any) -> None:
    """The traces of each key, as the beginning of a row of `out`; as in `rate`, those of other streams than
    the keys' own count 1 at most."""
    width, traces = cells.shape[1], cells.shape[2]
    others = 1.0 / (width - 1)
    at = np.empty(4, np.int64)
    for k in range(len(keys)):
        mixed = _mix(keys[k])
        for row in range(4):
            at[row] = _cell(mixed, row, width)
        for trace in range(traces):
            count = _count(cells, at, trace, totals[trace], others) * units[trace]
            if count > 1.0 and not own <= trace < own + scales:
                count = 1.0
            out[k, trace] = count


@njit(cache=True, nogil=True)
def sums(cells: Any, totals: Any, units: Any, scales: int, out: Any) -> None:
    """Over all keys, of counts of 1 at most, by trace, and last the number of keys that came lately: from one
    row of the sketch, with what is hidden where keys share a cell (linear counting)."""
    width, traces = cells.shape[1], cells.shape[2]
    out[:] = 0.0
    for cell in range(width):
        seen = 0.0
        for trace in range(traces):
            count = cells[0, cell, trace] * units[trace]
            out[trace] += min(count, 1.0)
            if trace % scales == 0:
                seen += count
        if seen >= LONE:
            out[traces] += 1.0
    for trace in range(traces + 1):
        out[trace] = width * np.log(width / max(width - out[trace], 1.0))
    for trace in range(traces):
        out[trace] = min(out[trace], totals[trace] * units[trace])


@njit(cache=True, nogil=True)
def share(met: Any, each: Any, prior: Any, stood: Any, rounds: int, parts: Any) -> None:
    """Shares out the arrivals that met these traces among what foretold them, the traces and last the base:
    expectation maximisation for a sum of Poisson rates, from the parts of before.

    Arrivals stand for `each` of them. A rate is, for each of the `parts` of all of them, what it foretold
    with the prior's over what `stood`.
    """
    rows, traces = met.shape
    came = each.sum()
    weights, found = np.empty(traces + 1), np.empty(traces + 1)
    for _ in range(rounds):
        for trace in range(traces + 1):
            weights[trace] = (came * parts[trace] + prior[trace]) / stood[trace]
            found[trace] = 0.0
        for row in range(rows):
            whole = weights[traces]
            for trace in range(traces):
                whole += weights[trace] * met[row, trace]
            for trace in range(traces):
                found[trace] += each[row] * weights[trace] * met[row, trace] / whole
            found[traces] += each[row] * weights[traces] / whole
        for trace in range(traces + 1):
            parts[trace] = found[trace] / came


@njit(cache=True, nogil=True)
def needed(met: Any, each: Any, weights: Any, parts: Any, out: Any) -> None:
    """By how much each weight is to be multiplied so that traces which tell nothing are left out: one after
    the other, as long as the logarithm of the arrivals' likelihood, with the others in its place, falls by
    less than that of their number: twice what BIC asks for, since many are tried and often. The base, the
    last, stays."""
    rows, traces = met.shape
    out[:] = 1.0
    whole = np.empty(rows)
    for row in range(rows):
        whole[row] = weights[traces]
        for trace in range(traces):
            whole[row] += weights[trace] * met[row, trace]
    left, usual = 1.0, each.sum() / rows
    allowed = np.log(max(rows, 2))
    while True:
        least, loss = -1, allowed
        for trace in range(traces):
            part = parts[trace] / left
            if out[trace] == 0.0 or part >= 1.0:
                continue
            lost = rows * np.log1p(-part)
            for row in range(rows):
                told = weights[trace] * met[row, trace] / whole[row]
                if told > 0.0:
                    lost -= each[row] / usual * np.log1p(-min(told, 1.0 - 1e-12))
                if lost > loss:
                    break
            if lost < loss:
                least, loss = trace, lost
        if least < 0:
            break
        out[least] = 0.0
        left -= parts[least]
        for row in range(rows):
            whole[row] -= weights[least] * met[row, least]
    for trace in range(traces + 1):
        out[trace] /= max(left, 1e-9)
