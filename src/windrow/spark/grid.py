"""A dimension of the grid of partitions, and where each stream's rows stand on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from windrow.errors import QueryError
from windrow.expr.casts import cast
from windrow.expr.types import common_type, is_moment, is_text
from windrow.model.predicate import JoinColumn


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
class SkewedKeys:
    """Values of the key that have too many rows for one partition, each spread over `ways` of them."""

    values: tuple[Any, ...]
    ways: int

    @classmethod
    def parse(cls, given: Mapping[str, Any] | SkewedKeys | None) -> SkewedKeys | None:
        if given is None or isinstance(given, SkewedKeys):
            return given
        if not isinstance(given, Mapping) or set(given) != {"key", "ways"}:
            raise QueryError(f"spread: expected {{'key': [values], 'ways': number}}, got {given!r}")
        ways, values = given["ways"], given["key"]
        if not isinstance(ways, int) or ways < 2:
            raise QueryError(f"spread: ways must be a number of partitions from 2, got {ways!r}")
        if not isinstance(values, list | tuple | set | frozenset) or not values:
            raise QueryError(f"spread: key must be a list of one or more values, got {values!r}")
        return cls(tuple(values), ways)

    def fitted(self, word: JoinColumn) -> SkewedKeys:
        """With the values as the key has them."""
        return SkewedKeys(tuple(_fitted(value, word) for value in self.values), self.ways)

    def __str__(self) -> str:
        return f"values {list(self.values)} over {self.ways} partitions"


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


def _fitted(value: Any, word: JoinColumn) -> Any:
    """A value that the user named, as the key's type has it."""
    try:
        given = pa.scalar(value)
        found = cast(given, word.type)
        # Text may stand for a date or a time, as in a condition; anything else must be of the key's kind.
        told = is_text(given.type) and is_moment(word.type)
        meets = told or common_type(given.type, word.type) is not None
        if meets and found.is_valid and (told or cast(found, given.type).as_py() == value):
            return found.as_py()
    except (pa.ArrowException, OverflowError, QueryError):
        pass  # told below in the user's terms
    raise QueryError(f"spread: the key {word} is {word.type}, and {value!r} is no such value")
