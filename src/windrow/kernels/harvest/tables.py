"""Tables of what a hop costs and finds (GrubJoin s. 4).

A setting is an array `chosen[i, j]`: the number of basic windows, best first, that hop j of direction i
probes. A direction with a 0 at any hop finds nothing, so searches set all its hops to 0: it is off.
Per second

    cost of direction i    rates[i] * (work[0] + fan[0] * (work[1] + fan[1] * (work[2] + ...)))
    its results            rates[i] * fan[0] * fan[1] * ...

with the entries of `chosen`; cost and output of the join are the sums over its directions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

SCAN, SORTED, HASH = 0, 1, 2
FITS = 1 + 1e-12
"""A cost up to this factor above the budget fits: sums differ by rounding."""


class Tables(NamedTuple):
    """What searches for a harvest read."""

    rates: np.ndarray
    """Rows that arrive per second, by direction."""
    counts: np.ndarray
    """Basic windows, by direction and hop."""
    found: np.ndarray
    """By direction, hop and number of basic windows probed: the fraction of the matches found (P), ..."""
    work: np.ndarray
    """... the cost of each partial match that enters, ..."""
    fan: np.ndarray
    """... and the partial matches that leave for each that enters."""


@njit(cache=True)
def rank(scores: Any, counts: Any, ranking: Any) -> None:
    """The basic windows of each hop, best first; equal scores youngest first."""
    m, hops, _ = scores.shape
    for i in range(m):
        for j in range(hops):
            for k in range(counts[i, j]):
                at = k
                while at > 0 and scores[i, j, ranking[i, j, at - 1]] < scores[i, j, k]:
                    ranking[i, j, at] = ranking[i, j, at - 1]
                    at -= 1
                ranking[i, j, at] = k


@njit(cache=True)
def tabulate(
    scores: Any,
    shares: Any,
    rows: Any,
    selectivity: Any,
    driver: Any,
    access: Any,
    lookup: float,
    match: float,
    ranking: Any,
    out: Any,
) -> None:
    """Fills the tables `out` for c = 0 to counts; later entries are never read.

    `shares[i, j, k]` is the fraction of the window's rows in its k-th basic window, `driver` the fraction of
    rows that an index finds. `lookup` and `match` are the costs of one index lookup and of building one
    match.
    """
    m, hops, _ = scores.shape
    for i in range(m):
        for j in range(hops):
            n = out.counts[i, j]
            total = 0.0
            for k in range(n):
                total += scores[i, j, k]
            # Invariant: these are the sums over the c best basic windows.
            looked, yielded, entered = 0.0, 0.0, 0.0
            for c in range(1, n + 1):
                k = ranking[i, j, c - 1]
                here = rows[i, j] * shares[i, j, k]
                looked += here
                # Without scores matches lie evenly, so a basic window yields its share of the rows.
                yielded += scores[i, j, k] / total if total > 0.0 else shares[i, j, k]
                yielded = min(yielded, 1.0) if c < n else 1.0
                matches = yielded * selectivity[i, j] * rows[i, j]
                compared = looked
                if access[i, j] != SCAN:
                    entered += lookup * (np.log2(1.0 + here) if access[i, j] == SORTED else 1.0)
                    compared = min(looked, entered + yielded * driver[i, j] * rows[i, j])
                out.found[i, j, c] = yielded
                out.work[i, j, c] = max(compared + match * matches, out.work[i, j, c - 1])
                out.fan[i, j, c] = matches


@njit(cache=True)
def direction(i: int, tables: Any, chosen: Any) -> Any:
    """Cost and results of a direction per second."""
    cost, partial = 0.0, tables.rates[i]
    for j in range(chosen.shape[1]):
        c = chosen[i, j]
        cost += partial * tables.work[i, j, c]
        partial *= tables.fan[i, j, c]
    return cost, partial


@njit(cache=True)
def total(tables: Any, chosen: Any) -> Any:
    """Cost and results of the join per second."""
    cost, output = 0.0, 0.0
    for i in range(len(tables.rates)):
        c, o = direction(i, tables, chosen)
        cost += c
        output += o
    return cost, output
