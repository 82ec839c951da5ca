"""Decayed counts of keys at several half-lives and on several streams, side by side in one sketch.

As in `count_min_sketch.py` a key has one cell in each of three rows, and the expected contribution of other
keys is subtracted. Here a cell holds a count for each pair of stream and half-life (a *feature*), so one
lookup finds all of them. Each feature has a unit that shrinks as older counts decay. A key's predicted rate
is a weighted sum over its features, plus a base that is the same for all keys.
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
    """Adds `amounts` to the features of each key from `first` on."""
    depth, width, features = cells.shape
    flat, narrow = cells.ravel(), amounts.astype(cells.dtype)
    for k in range(len(keys)):
        mixed = mixed_key(keys[k])
        for row in range(depth):
            at = np.uint64((row * width + cell_of(mixed, row, width)) * features + first)
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
    """Multiplies `out` by the predicted rate of each row's key: `base` plus `weights` times its features. The
    factor is 0 if the row is the only one of its key.

    Each stream has `scales` features. The slowest is first and has this `half_life`. Those from `own` on
    belong to the stream that is predicted; those of other streams count at most 1. The counts of the row's
    own stream include the row itself, decayed by its age (in seconds; empty if rows were not counted yet).
    """
    width, features = cells.shape[1], cells.shape[2]
    flat, row = cells.ravel(), np.uint64(width * features)
    # 32-bit floats, like the cells: twice as many fit into a vector register.
    kept, others = np.float32(1.0 + 1.0 / (width - 1)), (totals / (width - 1)).astype(np.float32)
    scaled, lone_units = (weights * units).astype(np.float32), np.zeros(features, np.float32)
    most, decay = np.empty(features, np.float32), -np.log(2.0) / half_life
    for feature in range(features):
        most[feature] = np.inf if own <= feature < own + scales else 1.0 / units[feature]
        lone_units[feature] = units[feature] if feature % scales == 0 else 0.0
    for k in range(len(keys)):
        mixed = mixed_key(keys[k])
        # Unsigned indexes spare numba the check for negative ones.
        a = np.uint64(cell_of(mixed, 0, width) * features)
        b = row + np.uint64(cell_of(mixed, 1, width) * features)
        c = row + row + np.uint64(cell_of(mixed, 2, width) * features)
        found, seen = np.float32(base), np.float32(0.0)
        for feature in range(features):
            t = np.uint64(feature)
            count = count_of(flat[a + t], flat[b + t], flat[c + t], kept, others[t])
            seen += lone_units[t] * count
            found += scaled[t] * (count if count < most[t] else most[t])
        alone = LONE
        if len(ages) and seen < 1.0 + LONE:  # exp is expensive
            alone += np.exp(decay * ages[k])
        out[k] = out[k] * found if seen >= alone else 0.0


@njit(cache=True, nogil=True)
def key_features(cells: Any, totals: Any, units: Any, keys: Any, scales: int, own: int, out: Any) -> None:
    """Writes the features of each key to the beginning of a row of `out`. As in `predicted_rates`, those of
    other streams count at most 1."""
    width, features = cells.shape[1], cells.shape[2]
    kept = 1.0 + 1.0 / (width - 1)
    for k in range(len(keys)):
        mixed = mixed_key(keys[k])
        a, b = cells[0, cell_of(mixed, 0, width)], cells[1, cell_of(mixed, 1, width)]
        c = cells[2, cell_of(mixed, 2, width)]
        for t in range(features):
            count = count_of(a[t], b[t], c[t], kept, totals[t] / (width - 1)) * units[t]
            out[k, t] = count if own <= t < own + scales else min(count, 1.0)


@njit(cache=True, nogil=True)
def feature_totals(cells: Any, totals: Any, units: Any, scales: int, out: Any) -> None:
    """By feature, the sum over all keys of min(1, count); last, the number of recent keys. Estimated from one
    row of the sketch and corrected for keys that share a cell (linear counting)."""
    width, features = cells.shape[1], cells.shape[2]
    out[:] = 0.0
    for cell in range(width):
        seen = 0.0
        for feature in range(features):
            count = cells[0, cell, feature] * units[feature]
            out[feature] += min(count, 1.0)
            if feature % scales == 0:
                seen += count
        if seen >= LONE:
            out[features] += 1.0
    for feature in range(features + 1):
        out[feature] = width * np.log(width / max(width - out[feature], 1.0))
    for feature in range(features):
        out[feature] = min(out[feature], totals[feature] * units[feature])


@njit(cache=True, nogil=True)
def fit_weights_em(met: Any, each: Any, prior: Any, exposure: Any, rounds: int, parts: Any) -> None:
    """Divides the observed arrivals among the features that predicted them and the base, by expectation
    maximisation for a sum of Poisson rates. Starts from the given `parts`, the fraction of each, and updates
    them.

    Arrival r represents `each[r]` arrivals and has the features `met[r]`. The weight of a feature is the
    number of arrivals it predicted, including the prior's, divided by its exposure.
    """
    rows, features = met.shape
    arrivals = each.sum()
    weights, found = np.empty(features + 1), np.empty(features + 1)
    for _ in range(rounds):
        for feature in range(features + 1):
            weights[feature] = (arrivals * parts[feature] + prior[feature]) / exposure[feature]
            found[feature] = 0.0
        # Expectation: each arrival is divided in proportion to what the features predicted for its key.
        for row in range(rows):
            whole = weights[features]
            for feature in range(features):
                whole += weights[feature] * met[row, feature]
            of_one = each[row] / whole
            for feature in range(features):
                found[feature] += of_one * met[row, feature]
            found[features] += of_one
        # Maximisation: the new weights follow from these fractions at the top of the next round.
        for feature in range(features + 1):
            parts[feature] = weights[feature] * found[feature] / arrivals


@njit(cache=True, nogil=True)
def prune_features(met: Any, each: Any, weights: Any, parts: Any, out: Any) -> None:
    """Writes a factor for each weight: 0 for features that add no information, and a common factor for the
    others to compensate. Features are left out one by one while the log-likelihood of the arrivals falls by
    less than the logarithm of their number. That is twice what BIC asks for, because many features are tried,
    and often. The base, the last, always stays."""
    rows, features = met.shape
    out[:] = 1.0
    whole = np.empty(rows)
    for row in range(rows):
        whole[row] = weights[features]
        for feature in range(features):
            whole[row] += weights[feature] * met[row, feature]
    left, usual = 1.0, each.sum() / rows
    allowed = np.log(max(rows, 2))
    while True:
        least, loss = -1, allowed
        for feature in range(features):
            part = parts[feature] / left
            if out[feature] == 0.0 or part >= 1.0:
                continue
            # The loss of log-likelihood: the other weights are scaled up to predict as many arrivals in all,
            # which the first term accounts for.
            lost = rows * np.log1p(-part)
            for row in range(rows):
                explained = weights[feature] * met[row, feature] / whole[row]
                if explained > 0.0:
                    lost -= each[row] / usual * np.log1p(-min(explained, 1.0 - 1e-12))
                if lost > loss:
                    break
            if lost < loss:
                least, loss = feature, lost
        if least < 0:
            break
        out[least] = 0.0
        left -= parts[least]
        for row in range(rows):
            whole[row] -= weights[least] * met[row, least]
    for feature in range(features + 1):
        out[feature] /= max(left, 1e-9)
