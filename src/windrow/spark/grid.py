"""A dimension of the grid of partitions, and where each stream's rows stand on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from windrow.model.execution import SkewedKeys
from windrow.model.predicate import JoinColumn
from windrow.model.query import Query


@dataclass(frozen=True)
class GridPlacement:
    """Where a stream's rows stand on a dimension."""

    how: Literal["value", "cell", "near", "content", "everywhere"]
    column: JoinColumn | None = None
    reach: float = 0.0
    """Of "near": how far from the anchor's word this one can be in a result."""

    def __str__(self) -> str:
        if self.column is None:
            return self.how
        within = f" within {self.reach}" if self.how == "near" else ""
        return f"{self.how} of {self.column} as {self.column.type}{within}"


EVERYWHERE = GridPlacement("everywhere")


@dataclass(frozen=True)
class GridDimension:
    """One dimension of the grid."""

    parts: int
    kind: Literal["key", "range", "grid"]
    by: str
    placements: tuple[GridPlacement, ...]
    """Per stream."""
    width: float = 0.0
    """Of a cell, where cut by range."""
    skewed: SkewedKeys | None = None
    split: tuple[int, ...] = ()
    """Streams whose rows of a spread value are divided; the others' are copied."""

    def copies(self, stream: int) -> float:
        place = self.placements[stream]
        if place.how == "near":
            return min(self.parts, 1 + 2 * place.reach / self.width)
        return self.parts if place.how == "everywhere" else 1.0


def by_key(query: Query, columns: Iterable[JoinColumn]) -> GridDimension:
    """Rows by the first of these columns of their stream; streams without one are copied everywhere."""
    first: dict[int, JoinColumn] = {}
    for column in columns:
        first.setdefault(column.stream, column)
    places = tuple(
        GridPlacement("value", first[s]) if s in first else EVERYWHERE for s in range(len(query.streams))
    )
    return GridDimension(1, "key", "key " + " = ".join(str(w) for w in first.values()), places)


def by_content(query: Query, stream: int) -> GridDimension:
    """Rows of one stream by all their values; the others are copied everywhere."""
    places = tuple(GridPlacement("content") if s == stream else EVERYWHERE for s in range(len(query.streams)))
    return GridDimension(1, "grid", f"rows of {query.aliases[stream]}", places)
