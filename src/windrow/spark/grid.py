"""A dimension of the grid of partitions, and the places of each stream's rows on it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from windrow.model.execution import SkewedKeys
from windrow.model.predicate import JoinColumn
from windrow.model.query import Query
from windrow.state.layout import How, Kind


@dataclass(frozen=True)
class GridPlacement:
    """How a stream's rows are placed on a dimension."""

    how: How
    column: JoinColumn | None = None
    reach: float = 0.0
    """For "near": maximum distance from the anchor's join column in a result."""


EVERYWHERE = GridPlacement("everywhere")
ROUNDING = 1e-15
"""Relative error of cells in double precision, by which reaches are widened."""


@dataclass(frozen=True)
class Strips:
    """How a stream's rows of a spread value lie on the small grid of that value.

    The content of a row chooses one of `count` strips. The copies of a row in strip s lie at the places
    s * step + k * copy_step, for every k below `copies`.
    """

    count: int
    step: int
    copies: int
    copy_step: int


@dataclass(frozen=True)
class GridDimension:
    """One dimension of the grid."""

    parts: int
    kind: Kind
    by: str
    placements: tuple[GridPlacement, ...]
    """Per stream."""
    width: float = 0.0
    """Width of a cell, for ranges."""
    skewed: SkewedKeys | None = None
    split: tuple[int, ...] = ()
    """Streams that divide the rows of a skewed value; the other streams copy them."""
    native: bool = False
    """Whether Spark hashes the values themselves instead of their encoded numbers."""

    def strips(self, stream: int) -> Strips:
        """The first divided stream takes rows of the value's grid, the second takes columns. So each pair of
        their rows meets in one place."""
        assert self.skewed is not None
        rows = math.isqrt(self.skewed.splits) if len(self.split) > 1 else self.skewed.splits
        columns = self.skewed.splits // rows
        if stream not in self.split:
            return Strips(1, 0, rows * columns, 1)
        upright = stream == self.split[0]
        return Strips(rows, columns, columns, 1) if upright else Strips(columns, 1, rows, columns)

    def copies(self, stream: int) -> float:
        place = self.placements[stream]
        if place.how == "near":
            return min(self.parts, 1 + 2 * place.reach / self.width)
        return self.parts if place.how == "everywhere" else 1.0


def by_key(query: Query, columns: Iterable[JoinColumn]) -> GridDimension:
    """Place rows by the first of these columns of their stream. Streams without one are copied to all
    places."""
    first: dict[int, JoinColumn] = {}
    for column in columns:
        first.setdefault(column.stream, column)
    places = tuple(
        GridPlacement("value", first[s]) if s in first else EVERYWHERE for s in range(len(query.streams))
    )
    return GridDimension(1, "key", "key " + " = ".join(str(w) for w in first.values()), places)


def by_content(query: Query, stream: int) -> GridDimension:
    """Place rows of one stream by all their values. The other streams are copied to all places."""
    places = tuple(GridPlacement("content") if s == stream else EVERYWHERE for s in range(len(query.streams)))
    return GridDimension(1, "grid", f"rows of {query.aliases[stream]}", places)
