"""Which rows of an old layout a partition of the new layout takes over.

Where a row goes follows from its values, as for new rows. Where its copies lie in the old layout follows from
its values and from where it was found: its content may have changed since it arrived, if the stream has lost
a column, so it is not computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from windrow.engine.outer.redistribution import REMEDY
from windrow.engine.query_changes import fitted
from windrow.errors import Option, StateError
from windrow.planning.bound_query import BoundQuery
from windrow.spark.files.places import PlaceFinder, Places
from windrow.spark.layout_encoding import HASHING, read_layout
from windrow.state.layout import StoredLayout

Array = np.ndarray


@dataclass(frozen=True)
class LayoutMoves:
    """The rows that one new partition takes over.

    Parameters
    ----------
    partition
        Of the new layout.
    schemas
        Of the streams, now.
    old, new
        Find the partitions of each stream's rows.
    """

    partition: int
    aliases: tuple[str, ...]
    schemas: tuple[pa.Schema, ...]
    old: tuple[PlaceFinder, ...]
    new: tuple[PlaceFinder, ...]
    copied: bool

    @property
    def first(self) -> bool:
        return self.partition == 0

    def rows(self, partition: int, stream: int, rows: pa.RecordBatch, ranks: Array) -> tuple[Array, Array]:
        """See `Moves`."""
        rows = fitted(self.aliases[stream], rows, self.schemas[stream])
        here = _any(self.new[stream].partitions(rows), lambda places: places == self.partition)
        copies = self.old[stream].copies(rows, partition)
        if not _any(copies, lambda places: places == partition).all():
            raise StateError(
                f"partition {partition} holds rows that its layout does not put there, so the rows cannot be "
                f"redistributed; {REMEDY}",
                Option(stream=self.aliases[stream]),
            )
        return here, ~_any(copies, lambda places: ranks[places] < ranks[partition])


def _any(places: Places, test: Callable[[Array], Array]) -> Array:
    """Per row, whether the test holds for one of its places."""
    held = test(places.values)
    if places.starts is None or len(held) == 0:
        return held
    found: Array = np.logical_or.reduceat(held, places.starts[:-1])
    return found


def layout_moves(
    bound: BoundQuery, finders: Sequence[PlaceFinder], before: StoredLayout, partition: int
) -> LayoutMoves:
    """What a partition takes over of a state in the layout `before`. The `finders` are those of the new
    layout."""
    old = read_layout(bound, before)
    if old is None:
        raise StateError(
            f"the state is laid out as {before}, and this version of Windrow, with hashing version "
            f"{HASHING}, does not know where its rows lie; {REMEDY}"
        )
    return LayoutMoves(
        partition,
        bound.query.aliases,
        bound.schemas,
        tuple(replace(finder, dimensions=old.dimensions) for finder in finders),
        tuple(finders),
        old.replicates,
    )
