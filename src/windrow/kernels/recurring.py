"""Keys that come again: counts at several half-lives and on several streams, side by side in one sketch.

As in `sketch.py` a key has one cell in each of four rows, and what others add on average is taken off; here a
cell holds a count for every *trace*, a stream and a half-life, so that a key's traces are found with one look.
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
    depth, width = cells.shape[0], cells.shape[1]
    for k in range(len(keys)):
        mixed = _mix(keys[k])
        for row in range(depth):
            cell = _cell(mixed, row, width)
            for m in range(len(amounts)):
                cells[row, cell, first + m] += amounts[m]


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
    ages: Any,
    half_life: float,
    times: float,
    out: Any,
) -> None:
    """Multiplies `out` by `times` the rate at which each row's key is expected to come: `base` and `weights`
    times its traces; by 0 if the row is the only one of its key.

    There are `scales` traces a stream, the slowest first, with this half-life. That of the row's own stream
    counts the row itself: as much as is left of it at its age (seconds; none: it was not counted yet).
    """
    width, traces = cells.shape[1], cells.shape[2]
    others = 1.0 / (width - 1)
    at = np.empty(4, np.int64)
    fade = -np.log(2.0) / half_life
    for k in range(len(keys)):
        mixed = _mix(keys[k])
        for row in range(4):
            at[row] = _cell(mixed, row, width)
        found, seen = base, 0.0
        for trace in range(traces):
            count = _count(cells, at, trace, totals[trace], others) * units[trace]
            found += weights[trace] * count
            if trace % scales == 0:
                seen += count
        if len(ages):
            seen -= np.exp(fade * ages[k])
        out[k] = out[k] * times * found if seen >= LONE else 0.0


@njit(cache=True, nogil=True)
def learn(
    cells: Any, totals: Any, units: Any, keys: Any, weights: Any, base: float, scales: int, each: float, out: Any
) -> float:
    """Shares out each of these arrivals among what foretold it, the traces and last the base, in proportion
    to what each foretold (the E-step for a sum of Poisson rates); returns how many keys the rows stand for,
    each row being a part of its key's."""
    width, traces = cells.shape[1], cells.shape[2]
    others = 1.0 / (width - 1)
    at = np.empty(4, np.int64)
    part = np.empty(traces)
    distinct = 0.0
    for k in range(len(keys)):
        mixed = _mix(keys[k])
        for row in range(4):
            at[row] = _cell(mixed, row, width)
        whole, seen = base, 1.0
        for trace in range(traces):
            count = _count(cells, at, trace, totals[trace], others) * units[trace]
            part[trace] = weights[trace] * count
            whole += part[trace]
            if trace % scales == 0:
                seen += count
        distinct += each / seen
        for trace in range(traces):
            out[trace] += each * part[trace] / whole
        out[traces] += each * base / whole
    return distinct
