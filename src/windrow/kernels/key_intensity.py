"""Decayed counts of keys at several half-lives and on several streams, side by side in one sketch.

As in `count_min_sketch.py` a key has one cell in each of three rows, and the expected contribution of other
keys is subtracted. Here a cell holds a count for every *trace*, that is, every pair of stream and half-life,
so one lookup finds all of them. Each trace has a unit that shrinks as older counts decay. A key's predicted
rate is a weighted sum over its traces, plus a base that is the same for all keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from windrow.kernels.count_min_sketch import cell_of, count_of, mixed_key

LONE = 0.25
"""With fewer other recent rows of its key on any stream, a row counts as the only one."""


@njit(cache=True, nogil=True)
def count_keys(cells: Any, keys: Any, first: int, amounts: Any) -> None:
    """Adds `amounts` to the traces of each key from `first` on."""
    depth, width, traces = cells.shape
    flat, narrow = cells.ravel(), amounts.astype(cells.dtype)
    for k in range(len(keys)):
        mixed = mixed_key(keys[k])
        for row in range(depth):
            at = np.uint64((row * width + cell_of(mixed, row, width)) * traces + first)
            for m in range(len(narrow)):
                flat[at + np.uint64(m)] += narrow[m]


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def predicted_rates(
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
    out: Any,
) -> None:
    """Multiplies `out` by the predicted rate of each row's key: `base` plus `weights` times its traces; by 0
    if the row is the only one of its key.

    There are `scales` traces per stream, the slowest first, whose half-life is `half_life`. Those from `own`
    on belong to the stream that is predicted; those of other streams count at most 1. The counts of the row's
    own stream include the row itself, decayed by its age (in seconds; empty if rows were not counted yet).
    """
    width, traces = cells.shape[1], cells.shape[2]
    flat, row = cells.ravel(), np.uint64(width * traces)
    # 32-bit floats, like the cells: twice as many fit into a vector register.
    kept, others = np.float32(1.0 + 1.0 / (width - 1)), (totals / (width - 1)).astype(np.float32)
    scaled, lone_units = (weights * units).astype(np.float32), np.zeros(traces, np.float32)
    most, fade = np.empty(traces, np.float32), -np.log(2.0) / half_life
    for trace in range(traces):
        most[trace] = np.inf if own <= trace < own + scales else 1.0 / units[trace]
        lone_units[trace] = units[trace] if trace % scales == 0 else 0.0
    for k in range(len(keys)):
        mixed = mixed_key(keys[k])
        # Unsigned indexes spare numba the check for negative ones.
        a = np.uint64(cell_of(mixed, 0, width) * traces)
        b = row + np.uint64(cell_of(mixed, 1, width) * traces)
        c = row + row + np.uint64(cell_of(mixed, 2, width) * traces)
        found, seen = np.float32(base), np.float32(0.0)
        for trace in range(traces):
            t = np.uint64(trace)
            count = count_of(flat[a + t], flat[b + t], flat[c + t], kept, others[t])
            seen += lone_units[t] * count
            found += scaled[t] * (count if count < most[t] else most[t])
        alone = LONE
        if len(ages) and seen < 1.0 + LONE:  # exp is expensive
            alone += np.exp(fade * ages[k])
        out[k] = out[k] * found if seen >= alone else 0.0


@njit(cache=True, nogil=True)
def key_features(cells: Any, totals: Any, units: Any, keys: Any, scales: int, own: int, out: Any) -> None:
    """Writes the traces of each key to the beginning of a row of `out`. As in `predicted_rates`, those of
    other streams count at most 1."""
    width, traces = cells.shape[1], cells.shape[2]
    kept = 1.0 + 1.0 / (width - 1)
    for k in range(len(keys)):
        mixed = mixed_key(keys[k])
        a, b = cells[0, cell_of(mixed, 0, width)], cells[1, cell_of(mixed, 1, width)]
        c = cells[2, cell_of(mixed, 2, width)]
        for t in range(traces):
            count = count_of(a[t], b[t], c[t], kept, totals[t] / (width - 1)) * units[t]
            out[k, t] = count if own <= t < own + scales else min(count, 1.0)


@njit(cache=True, nogil=True)
def feature_totals(cells: Any, totals: Any, units: Any, scales: int, out: Any) -> None:
    """By trace, the sum over all keys of min(1, count); last, the number of recent keys. Estimated from one
    row of the sketch and corrected for keys that share a cell (linear counting)."""
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
def fit_weights_em(met: Any, each: Any, prior: Any, exposure: Any, rounds: int, parts: Any) -> None:
    """Divides the observed arrivals among the traces that predicted them and the base, by expectation
    maximisation for a sum of Poisson rates. Starts from the given `parts`, the fraction of each, and updates
    them.

    Arrival r represents `each[r]` arrivals and has the traces `met[r]`. The weight of a trace is the arrivals
    it predicted, including the prior's, divided by its exposure.
    """
    rows, traces = met.shape
    arrivals = each.sum()
    weights, found = np.empty(traces + 1), np.empty(traces + 1)
    for _ in range(rounds):
        for trace in range(traces + 1):
            weights[trace] = (arrivals * parts[trace] + prior[trace]) / exposure[trace]
            found[trace] = 0.0
        # Expectation: each arrival is divided in proportion to what the traces predicted for its key.
        for row in range(rows):
            whole = weights[traces]
            for trace in range(traces):
                whole += weights[trace] * met[row, trace]
            of_one = each[row] / whole
            for trace in range(traces):
                found[trace] += of_one * met[row, trace]
            found[traces] += of_one
        # Maximisation: the new weights follow from these fractions at the top of the next round.
        for trace in range(traces + 1):
            parts[trace] = weights[trace] * found[trace] / arrivals


@njit(cache=True, nogil=True)
def prune_features(met: Any, each: Any, weights: Any, parts: Any, out: Any) -> None:
    """Writes a factor for each weight: 0 for traces that add no information, and a common factor for the
    others to compensate. Traces are left out one by one, as long as the log-likelihood of the arrivals falls
    by less than the logarithm of their number. That is twice what BIC asks for, because many traces are
    tried, and often. The base, the last, always stays."""
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
            # The loss of log-likelihood: the other weights are scaled up to predict as many arrivals in all,
            # which the first term accounts for.
            lost = rows * np.log1p(-part)
            for row in range(rows):
                explained = weights[trace] * met[row, trace] / whole[row]
                if explained > 0.0:
                    lost -= each[row] / usual * np.log1p(-min(explained, 1.0 - 1e-12))
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
