"""Which partition meets which rows, so that every result is found in exactly one of them.

Partitions form a grid of one or two dimensions. A dimension is cut by the value of an equality, by cells of a
band, or by the content of one stream's rows. A stream that has this value, cell or content takes one place on
the dimension, or a few near a cell border; any other stream is copied to all places. On each dimension at
least one stream takes exactly one place, and all rows it can match are there too. The rows of a result
therefore meet in exactly one partition.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from windrow.errors import Option, QueryError, unknown
from windrow.expr.casts import cast
from windrow.expr.types import common_type, is_moment, is_text
from windrow.model.execution import SkewedKeys
from windrow.model.predicate import Band, Equality, JoinColumn, Predicate
from windrow.model.query import Query
from windrow.planning.bound_query import BoundQuery
from windrow.spark.grid import EVERYWHERE, GridDimension, GridPlacement, by_content, by_key
from windrow.spark.outer_layout import outer_cuts

KINDS = ("key", "range", "grid", "single")
CELL = 4.0
"""Width of a cell, in reaches. A row within reach of a border is copied, which makes half a copy per row."""


@dataclass(frozen=True)
class PartitionLayout:
    """The grid of partitions; prints itself."""

    aliases: tuple[str, ...]
    partitions: int
    dimensions: tuple[GridDimension, ...]
    why: str = ""

    def copies(self, stream: int) -> float:
        """Expected copies of a row."""
        return math.prod(cut.copies(stream) for cut in self.dimensions)

    def most_copies(self, stream: int) -> float:
        """Expected copies of a row, or more where values are spread."""
        splits = (cut.skewed.splits for cut in self.dimensions if cut.skewed)
        return self.copies(stream) * math.prod(splits)

    @property
    def load(self) -> float:
        """Rows per partition for one row of each stream."""
        used = math.prod(cut.parts for cut in self.dimensions)
        return sum(self.copies(s) for s in range(len(self.aliases))) / used

    @property
    def replicates(self) -> bool:
        return any(
            place.how in ("near", "everywhere") or cut.skewed
            for cut in self.dimensions
            for place in cut.placements
        )

    def __str__(self) -> str:
        if not self.dimensions:
            return f"1 partition{f' ({self.why})' if self.why else ''}"
        lines = [
            f"{self.partitions} partitions, " + " x ".join(f"{c.parts} by {c.by}" for c in self.dimensions)
        ]
        for stream, alias in enumerate(self.aliases):
            copies = self.copies(stream)
            lines.append(f"  {alias}: " + ("each row once" if copies == 1 else f"about {copies:.3g} copies"))
        lines += [
            f"  spread over {c.skewed.splits}: {', '.join(map(repr, c.skewed.values))}"
            for c in self.dimensions
            if c.skewed
        ]
        return "\n".join(lines)


def choose_layout(
    bound: BoundQuery, partitions: int, wanted: str | None = None, skewed_keys: SkewedKeys | None = None
) -> PartitionLayout:
    """The layout with the fewest rows per partition, assuming that all streams are equally fast.

    Parameters
    ----------
    wanted
        "key", "range", "range(width of a cell)", "grid" or "single"; None leaves the choice open.
    """
    query = bound.query
    kind, width = _parse(wanted)
    counted = [a for a, s in query.streams.items() if s.window.kind == "rows"]
    if counted and kind not in (None, "single"):
        raise QueryError(
            f"the window of '{counted[0]}' counts rows of the whole stream, which takes one "
            "partition; leave partitioning out, or count 'rows per key'",
            Option("partitioning"),
        )
    if partitions == 1 or kind == "single" or counted:
        if skewed_keys:
            raise QueryError("there is only one partition", Option("skewed_keys"))
        why = f"the window of '{counted[0]}' counts rows of the whole stream" if counted else ""
        return PartitionLayout(query.aliases, 1, (), why)
    if query.kind.shapes:
        if skewed_keys:
            raise QueryError("only inner joins spread a key; leave it out", Option("skewed_keys"))
        if not outer_cuts(bound) and kind is None:
            why = "rows of both sides are kept, and no equality of both says which partition they meet in"
            return PartitionLayout(query.aliases, 1, (), why)
    cuts = [c for c in allowed_cuts(bound, width) if kind is None or c.kind == kind]
    layouts = [PartitionLayout(query.aliases, partitions, chosen) for chosen in _grids(cuts, partitions)]
    if not layouts:
        raise QueryError(
            f"the predicate gives nothing to partition by {kind or 'key, range or grid'}; "
            "use partitioning='single'",
            Option("partitioning"),
        )
    best = min(layouts, key=lambda layout: (round(layout.load, 9), len(layout.dimensions)))
    return _with_skewed(best, query, skewed_keys) if skewed_keys else best


def allowed_cuts(bound: BoundQuery, width: float | None = None) -> list[GridDimension]:
    """The dimensions that the query allows."""
    query = bound.query
    if query.kind.shapes:
        return outer_cuts(bound)
    return [
        *(by_key(query, members) for members in bound.classes),
        *_by_range(query, bound.predicate, width),
        *(by_content(query, s) for s in range(len(query.streams)) if _divisible(query, s)),
    ]


def _parse(wanted: str | None) -> tuple[str | None, float | None]:
    if wanted is None or wanted == "auto":
        return None, None
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(\s*([-+.\deE]+)\s*\))?\s*", wanted)
    if match is None or match[1] not in KINDS:
        raise QueryError(unknown("partitioning", str(wanted), KINDS), Option("partitioning"))
    if match[2] is None:
        return match[1], None
    try:
        width = float(match[2])
    except ValueError:
        width = math.nan
    if match[1] != "range" or not (0 < width < math.inf):
        raise QueryError(f"expected 'range(width of a cell above 0)', got {wanted!r}", Option("partitioning"))
    return "range", width


def _grids(cuts: Sequence[GridDimension], partitions: int) -> Iterator[tuple[GridDimension, ...]]:
    """Every way to use one or two of the cuts."""
    for k, cut in enumerate(cuts):
        yield (replace(cut, parts=partitions),)
        for other in cuts[k + 1 :]:
            for ways in range(2, partitions // 2 + 1):
                yield (replace(cut, parts=ways), replace(other, parts=partitions // ways))


def _divisible(query: Query, stream: int) -> bool:
    """Whether rows of one key may be split up: not in a row window."""
    return list(query.streams.values())[stream].window.is_time


def _by_range(query: Query, predicate: Predicate, width: float | None) -> list[GridDimension]:
    """Cells of an anchor column. Another column's reach is the sum of the band widths between the two."""
    links: dict[JoinColumn, list[tuple[JoinColumn, float]]] = {}
    for atom in predicate.atoms:
        if atom.columns[0].kind == "hash" or not isinstance(atom, Band | Equality):
            continue
        epsilon = max(float(atom.epsilon), 0.0) if isinstance(atom, Band) else 0.0
        if math.isfinite(epsilon):
            # An equality beside a band places rows by the same numbers as the band does.
            left, right = (replace(w, kind="float") if w.kind == "ordered" else w for w in atom.columns)
            links.setdefault(left, []).append((right, epsilon))
            links.setdefault(right, []).append((left, epsilon))
    banded = {w for atom in predicate.atoms if isinstance(atom, Band) for w in atom.columns if w in links}
    shortest: dict[frozenset[int], tuple[float, GridDimension]] = {}
    for anchor in (column for column in links if column in banded):
        nearest: dict[int, GridPlacement] = {}
        for column, reach in _distances(anchor, links):
            if _divisible(query, column.stream):
                how: Literal["cell", "near"] = "cell" if column == anchor else "near"
                nearest.setdefault(column.stream, GridPlacement(how, column, reach))
        if anchor.stream not in nearest or len(nearest) < 2:
            continue
        reach = max(place.reach for place in nearest.values())
        places = tuple(nearest.get(s, EVERYWHERE) for s in range(len(query.streams)))
        cut = GridDimension(1, "range", f"range of {anchor}", places, width or CELL * reach or 1.0)
        # The anchor in the middle of a chain has the shortest reach, and so the smallest cells.
        known = shortest.get(frozenset(nearest))
        if known is None or reach < known[0]:
            shortest[frozenset(nearest)] = (reach, cut)
    return [cut for _, cut in shortest.values()]


def _distances(
    anchor: JoinColumn, links: Mapping[JoinColumn, Iterable[tuple[JoinColumn, float]]]
) -> Iterator[tuple[JoinColumn, float]]:
    """Join columns within reach of the anchor, nearest first."""
    seen: set[JoinColumn] = set()
    queue = [(0.0, 0, anchor)]
    pushed = 0
    while queue:
        reach, _, column = heapq.heappop(queue)
        if column in seen:
            continue
        seen.add(column)
        yield column, reach
        for other, epsilon in links[column]:
            pushed += 1
            heapq.heappush(queue, (reach + epsilon, pushed, other))


def _with_skewed(layout: PartitionLayout, query: Query, skewed: SkewedKeys) -> PartitionLayout:
    """Give rows of a skewed value a grid of their own inside the key's dimension."""
    keyed = [cut for cut in layout.dimensions if cut.kind == "key"]
    if not keyed:
        raise QueryError(f"rows are not partitioned by a key: {layout}", Option("skewed_keys"))
    cut = keyed[0]
    if skewed.splits > cut.parts:
        raise QueryError(
            f"{skewed.splits} splits are more than the {cut.parts} partitions of the key",
            Option("skewed_keys"),
        )
    split = [s for s, place in enumerate(cut.placements) if place.how == "value" and _divisible(query, s)][:2]
    if not split:
        raise QueryError(
            "all windows count rows per key, and rows of one key must stay together", Option("skewed_keys")
        )
    column = next(place.column for place in cut.placements if place.column is not None)
    fitted = SkewedKeys(tuple(_fitted(value, column) for value in skewed.values), skewed.splits)
    divided = replace(cut, skewed=fitted, split=tuple(split))
    return replace(layout, dimensions=tuple(divided if c is cut else c for c in layout.dimensions))


def _fitted(value: Any, column: JoinColumn) -> Any:
    """A value that the user named, cast to the key's type."""
    try:
        given = pa.scalar(value)
        found = cast(given, column.type)
        # Text may denote a date or a time, as in a condition; anything else must be of the key's kind.
        from_text = is_text(given.type) and is_moment(column.type)
        meets = from_text or common_type(given.type, column.type) is not None
        if meets and found.is_valid and (from_text or cast(found, given.type).as_py() == value):
            return found.as_py()
    except (pa.ArrowException, OverflowError, QueryError):
        pass  # reported below in the user's terms
    raise QueryError(
        f"the key {column} is {column.type}, and {value!r} is no such value", Option("skewed_keys")
    )
