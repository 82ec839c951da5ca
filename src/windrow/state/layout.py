"""Which partition each row lies in, as data: the layout that a run records.

Two layouts are equal if all rows lie in the same partitions. Formats 6 to 9 have layouts in words, which are
translated here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from windrow.model.stateful import Stateful, decode, encode

How = Literal["value", "cell", "near", "content", "everywhere"]
Kind = Literal["key", "range", "grid"]


@dataclass(frozen=True)
class StoredPlacement(Stateful):
    """How a stream's rows are placed on a dimension; see `GridPlacement` in `spark/grid.py`."""

    how: How
    column: str | None = None
    """Its text and type: "a.id as int64"."""
    reach: float = 0.0


@dataclass(frozen=True)
class StoredSkew(Stateful):
    """Key values that are spread over several places."""

    values: str
    """For a reader."""
    splits: int
    encoded: str | None = field(default=None, compare=False)
    """The values in their type. Earlier versions lack it."""

    def __str__(self) -> str:
        return f"values {self.values} over {self.splits} partitions"


@dataclass(frozen=True)
class StoredDimension(Stateful):
    """A dimension of the grid of partitions; see `GridDimension` in `spark/grid.py`."""

    parts: int
    kind: Kind
    by: str
    placements: tuple[StoredPlacement, ...] = ()
    width: float = 0.0
    skewed: StoredSkew | None = None
    split: tuple[int, ...] = ()
    native: bool = False

    @property
    def may_copy(self) -> bool:
        """Whether rows may have several places."""
        return self.skewed is not None or any(p.how in ("near", "everywhere") for p in self.placements)

    def __str__(self) -> str:
        return f"{self.parts} by {self.by}" + (f" in cells of {self.width}" if self.width else "")


@dataclass(frozen=True)
class StoredLayout(Stateful):
    partitions: int
    dimensions: tuple[StoredDimension, ...] = ()
    hashing: int = 0
    """The version of the mapping from values to places; see `spark/layout_encoding.py`."""

    @property
    def may_copy(self) -> bool:
        """Whether rows may lie in several partitions."""
        return any(cut.may_copy for cut in self.dimensions)

    def to_json(self) -> Any:
        return encode(self, [])

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> StoredLayout:
        if "options" in saved:
            return cls.from_words(saved["partitions"], saved["options"])
        found = decode(saved, ())
        if not isinstance(found, StoredLayout):
            raise ValueError(f"expected a layout, got {saved}")
        return found

    @classmethod
    def from_words(cls, partitions: int, words: Mapping[str, str]) -> StoredLayout:
        """The layout that formats 6 to 9 describe, by option. Up to format 8 options have other names."""
        words = {_RENAMED.get(name, name): text for name, text in words.items()}
        version, _, ways = words["hashing"].partition(": ")
        dimensions: list[StoredDimension] = []
        if words["partitioning"] not in ("single", "one"):
            cuts = re.split(r" x (?=\d+ by )", words["partitioning"])
            routing = re.split(rf" x (?=\w+ {_BY})", words["routing"])
            dimensions += map(_dimension, cuts, routing, ways.split(", "))
        if skewed := re.fullmatch(r"values (.*) over (\d+) partitions", words["skewed_keys"]):
            skew = StoredSkew(skewed[1], int(skewed[2]), words.get("skewed values"))
            dimensions = [replace(cut, skewed=skew) if cut.split else cut for cut in dimensions]
        return cls(partitions, tuple(dimensions), int(version.split()[1]))

    def difference(self, other: StoredLayout) -> str:
        """What an `other` layout changes, in words."""
        if self.partitions != other.partitions:
            return f"{self.partitions} partitions, now {other.partitions}"
        pairs = zip(self._words().items(), other._words().values(), strict=True)
        changed = (f"{name} {was}, now {now}" for (name, was), now in pairs if was != now)
        return next(changed, "other types of keys")

    def __str__(self) -> str:
        return ", ".join(f"{name} {text}" for name, text in self._words().items())

    def _words(self) -> dict[str, str]:
        skewed = " and ".join(str(cut.skewed) for cut in self.dimensions if cut.skewed)
        ways = ", ".join("by Spark" if cut.native else "by Windrow" for cut in self.dimensions)
        return {
            "partitioning": " x ".join(map(str, self.dimensions)) or "single",
            "skewed_keys": skewed or "none",
            "hashing": f"version {self.hashing}{': ' if ways else ''}{ways}",
        }


_RENAMED = {"spread": "skewed_keys", "spread values": "skewed values"}
_BY = r"by (?:value of|cell of|near of|content|everywhere)\b"


def _dimension(cut: str, routing: str, way: str) -> StoredDimension:
    """A dimension in words: its size, the places of each stream and the streams that are divided, and who
    computes the places."""
    size = re.fullmatch(r"(\d+) by (.*?)(?: in cells of (\S+))?", cut)
    places, split = dict[str, StoredPlacement](), list[int]()
    for text in re.split(rf", (?=\w+ (?:{_BY}|divided(?:,|$)))", routing):
        place = re.fullmatch(r"(\w+) (?:divided|by (\w+)(?: of (.+?)(?: within (\S+))?)?)", text)
        if place is None or size is None:
            raise ValueError(f"the layout {cut!r}, {routing!r} cannot be read")
        if place[2] is None:
            split.append(list(places).index(place[1]))
        else:
            places[place[1]] = StoredPlacement(cast(How, place[2]), place[3], float(place[4] or 0))
    assert size is not None
    kind: Kind = "grid" if size[2].startswith("rows") else "range" if size[2].startswith("range") else "key"
    placed, width, native = tuple(places.values()), float(size[3] or 0), way == "by Spark"
    return StoredDimension(int(size[1]), kind, size[2], placed, width, None, tuple(split), native)
