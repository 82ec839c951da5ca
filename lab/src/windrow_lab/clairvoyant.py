"""The most a memory limit allows: what a policy that knew the future would keep (claim B2).

Two streams, a limit in rows, and the whole trace in advance. An arriving row probes the other window, is
stored, and then rows are dropped until the limit holds; a dropped row never comes back. So a result is
produced exactly if its earlier row is still held when the later one arrives, and every row can be judged
alone: held until its j-th match, it gives its first j results.

That makes the optimum a flow. A place in memory is a unit that moves along the arrivals. On the way it may
pass through a row, entering where the row arrives and leaving where one of its matches arrives, and it
earns the results up to there. A row is entered by one unit at most, since its intervals all begin at one
place. The matrix of a flow is totally unimodular: the linear program has a whole solution, and the simplex
method ends in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csc_array

from windrow.errors import WindrowError

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class ResultTrace:
    """A complete trace of two streams, in order of arrival, with every result of the exact join.

    Parameters
    ----------
    ts
        Event times, ascending.
    stream
        0 or 1 for each row.
    earlier, later
        The results, as positions of rows: `later` arrives while `earlier` is in its window, and matches it.
    step
        When rows are dropped: rows of one step all probe and are stored before the limit is applied, as
        those of one sub-batch are. Ascending; by default each row is a step.
    """

    ts: Array
    stream: Array
    earlier: Array
    later: Array
    step: Array | None = None

    def __post_init__(self) -> None:
        rows = len(self.ts)
        if len(self.stream) != rows or not np.isin(self.stream, (0, 1)).all():
            raise WindrowError(f"arrivals: expected stream 0 or 1 for each of the {rows} rows")
        if self.step is not None and len(self.step) != rows:
            raise WindrowError(f"arrivals: expected a step for each of the {rows} rows, got {len(self.step)}")
        if (np.diff(self.ts) < 0).any() or (np.diff(self.steps) < 0).any():
            raise WindrowError("arrivals: times and steps must ascend; sort the rows by arrival")
        if len(self.earlier) != len(self.later):
            raise WindrowError(f"arrivals: {len(self.earlier)} earlier rows but {len(self.later)} later ones")
        if not len(self.earlier):
            return
        if self.earlier.min() < 0 or self.later.max() >= rows or (self.earlier >= self.later).any():
            raise WindrowError(f"arrivals: a result is two positions, earlier < later, among {rows} rows")
        if (self.stream[self.earlier] == self.stream[self.later]).any():
            raise WindrowError("arrivals: a result has one row of each stream")

    @property
    def steps(self) -> Array:
        return np.arange(len(self.ts)) if self.step is None else self.step

    @classmethod
    def equal_keys(
        cls, ts: Array, stream: Array, key: Array, within: tuple[int, int], step: Array | None = None
    ) -> ResultTrace:
        """A trace joined on equal keys; `within` are the windows of the two streams, in the unit of `ts`."""
        rows = len(ts)
        code = np.unique(key, return_inverse=True)[1].astype(np.int64) * (rows + 1)
        position = np.arange(rows)
        found: list[tuple[Array, Array]] = []
        for own, span in enumerate(within):
            mine, others = np.flatnonzero(stream == own), np.flatnonzero(stream != own)
            others = others[np.argsort(code[others], kind="stable")]
            places = (code + position)[others]
            end = np.searchsorted(ts, ts[mine] + span, side="right")
            first = np.searchsorted(places, code[mine] + mine)
            count = np.searchsorted(places, code[mine] + end) - first
            skipped = np.repeat(first - (np.cumsum(count) - count), count)
            found.append((np.repeat(mine, count), others[np.arange(count.sum()) + skipped]))
        earlier, later = (np.concatenate(side) for side in zip(*found, strict=True))
        return cls(ts, stream, earlier, later, step)


@dataclass(frozen=True, eq=False)
class OfflineOptimum:
    """The optimum under a limit, and a way to reach it."""

    total: float
    """Weight of the results produced: the most that the limit allows."""
    exact: float
    """Weight of all results: what the join gives without a limit."""
    results: int
    """Results produced. Without weights the same number as `total`."""
    until: Array
    """For each row the arrival after whose probe it is dropped; its own position if it is never held."""

    @property
    def recall(self) -> float:
        return self.total / self.exact if self.exact else 1.0

    @property
    def kept(self) -> Array:
        """Which rows are stored long enough to give a result."""
        return self.until > np.arange(len(self.until))

    def __str__(self) -> str:
        return f"at most {self.total:g} of {self.exact:g} ({self.recall:.1%})"


def clairvoyant(
    arrivals: ResultTrace, limit: int | tuple[int, int], weights: Sequence[float] | Array | None = None
) -> OfflineOptimum:
    """The best that any choice of rows to drop can reach.

    Parameters
    ----------
    limit
        Rows held after each step: of both streams together, or of each stream.
    weights
        The value of each result, such as its importance; 1 by default.
    """
    worth = np.ones(len(arrivals.later)) if weights is None else np.asarray(weights, np.float64)
    if worth.shape != arrivals.later.shape or not (worth >= 0).all():
        raise WindrowError(f"clairvoyant: expected {len(arrivals.later)} weights of at least 0")
    shares = [((0,), limit[0]), ((1,), limit[1])] if isinstance(limit, tuple) else [((0, 1), limit)]
    if any(rows < 0 for _, rows in shares):
        raise WindrowError(f"clairvoyant: a limit is at least 0 rows, got {limit}")

    until = np.arange(len(arrivals.ts))
    at_once = arrivals.steps[arrivals.earlier] == arrivals.steps[arrivals.later]
    np.maximum.at(until, arrivals.earlier[at_once], arrivals.later[at_once])
    for streams, rows in shares:
        stored = np.flatnonzero(np.isin(arrivals.stream[arrivals.earlier], streams) & ~at_once)
        if rows and len(stored):
            last = stored[_last_results(arrivals, stored, worth[stored], rows)]
            until[arrivals.earlier[last]] = arrivals.later[last]
    produced = arrivals.later <= until[arrivals.earlier]
    return OfflineOptimum(float(worth[produced].sum()), float(worth.sum()), int(produced.sum()), until)


def _last_results(arrivals: ResultTrace, which: Array, worth: Array, limit: int) -> Array:
    """For each row that is held, the last result it gives, as a position in `which`."""
    earlier, later = arrivals.earlier[which], arrivals.later[which]
    order = np.lexsort((later, earlier))
    row, later, worth = earlier[order], later[order], worth[order]
    # Places change hands only where a row arrives that has something to give: matches between two such
    # steps are one, at the second of them.
    places = np.unique(arrivals.steps[row])
    leave = np.searchsorted(places, arrivals.steps[later])
    last = np.append((row[1:] != row[:-1]) | (leave[1:] != leave[:-1]), True)
    rows, owner = np.unique(row, return_inverse=True)
    gained = np.cumsum(worth)
    before = (gained - worth)[np.searchsorted(row, rows)]
    taken = _flow(
        np.searchsorted(places, arrivals.steps[rows]),
        owner[last],
        leave[last],
        (gained - before[owner])[last],
        limit,
    )
    return order[np.flatnonzero(last)[taken]]


def _flow(enter: Array, owner: Array, leave: Array, gain: Array, limit: int) -> Array:
    """Which intervals the best flow of `limit` units takes.

    Places are 0..n, the last one behind every arrival. Unit flows: along the places (idle), from the place
    `enter[r]` into row r, and out of row `owner[j]` at the place `leave[j]`, which earns `gain[j]`.
    """
    rows, intervals, places = len(enter), len(owner), int(enter[-1]) + 1
    idle = np.arange(places)
    node_of_row = places + 1 + np.arange(rows)
    source = np.concatenate([idle, enter, node_of_row[owner]])
    target = np.concatenate([idle + 1, node_of_row, leave])
    arc = np.arange(len(source))
    incidence = csc_array(
        (np.repeat((-1.0, 1.0), len(arc)), (np.concatenate([source, target]), np.concatenate([arc, arc]))),
        shape=(places + 1 + rows, len(arc)),
    )
    surplus = np.zeros(incidence.shape[0])
    surplus[0], surplus[places] = -limit, limit
    upper = np.concatenate([np.full(places, limit), np.ones(rows + intervals)])
    cost = np.concatenate([np.zeros(places + rows), -gain])
    solved = linprog(
        cost, A_eq=incidence, b_eq=surplus, bounds=np.column_stack([0 * upper, upper]), method="highs-ds"
    )
    if solved.status != 0:
        raise WindrowError(f"clairvoyant: the linear program was not solved: {solved.message}")
    flow = solved.x[places + rows :]
    if np.abs(flow - np.round(flow)).max() > 1e-6:
        raise WindrowError("clairvoyant: the linear program ended between two whole solutions")
    return np.flatnonzero(flow > 0.5)
