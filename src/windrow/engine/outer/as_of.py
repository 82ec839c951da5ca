"""As-of: of the rows that match a combination, the nearest in time in the given direction.

Rows of equal time are ordered by their column values in schema order, nulls last, and the first is taken.
Columns without an order, such as lists, come after all others and are compared as text. The choice therefore
depends on the rows alone, not on their arrival.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from windrow.model.join_kind import Match
from windrow.window.window_store import WindowStore

Array = np.ndarray


class NearestRows:
    """The best row found so far for each of `count` combinations."""

    def __init__(self, match: Match, window: WindowStore, newest: Array) -> None:
        self._match = match
        self._window = window
        self._newest = newest
        self.which = np.empty(0, np.int64)
        """Combinations with a row, ascending."""
        self.rows = np.empty(0, np.int64)
        """The row chosen for each."""

    def add(self, which: Array, rows: Array) -> None:
        """Offer row `rows[k]` to combination `which[k]`."""
        which, rows = np.concatenate([self.which, which]), np.concatenate([self.rows, rows])
        distance, inside = self._distances(which, rows)
        which, rows, distance = which[inside], rows[inside], distance[inside]
        order = np.lexsort((distance, which))
        which, rows, distance = which[order], rows[order], distance[order]
        first = np.flatnonzero(np.diff(which, prepend=-1))
        best = np.repeat(distance[first], np.diff(first, append=len(which)))
        near = distance == best
        self.which, self.rows = self._without_ties(which[near], rows[near])

    def _distances(self, which: Array, rows: Array) -> tuple[Array, Array]:
        """Distance of each row from its combination, and mask of the rows in the right direction."""
        after = self._window.ts[rows] - self._newest[which]
        if self._match == "last":
            return -after, after <= 0
        if self._match == "first":
            return after, after > 0
        return 2 * np.abs(after) + (after > 0), np.ones(len(rows), bool)

    def _without_ties(self, which: Array, rows: Array) -> tuple[Array, Array]:
        alone = np.diff(which, prepend=-1) != 0
        if alone.all():
            return which, rows
        order = np.lexsort((value_ranks(self._window, rows), which))
        which, rows = which[order], rows[order]
        first = np.diff(which, prepend=-1) != 0
        return which[first], rows[first]


def value_ranks(window: WindowStore, rows: Array) -> Array:
    """Rank of each row when all are ordered by value."""
    distinct, inverse = np.unique(rows, return_inverse=True)
    names = window.schema.names
    columns = dict(zip(names, window.gather(distinct), strict=True))
    plain = [n for n in names if not _unordered(columns[n].type)]
    keys = {str(k): columns[name] for k, name in enumerate(plain)}
    for k, name in enumerate((n for n in names if n not in plain), len(plain)):
        keys[str(k)] = pa.array([str(value) for value in columns[name].to_pylist()], pa.string())
    order = pc.sort_indices(pa.table(keys), sort_keys=[(key, "ascending") for key in keys]).to_numpy()
    ranks = np.empty(len(distinct), np.int64)
    ranks[order] = np.arange(len(distinct))
    return ranks[inverse]


def _unordered(kind: pa.DataType) -> bool:
    return bool(pt.is_nested(kind) or pt.is_null(kind))
