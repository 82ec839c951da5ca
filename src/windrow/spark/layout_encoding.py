"""A layout as it is stored, and back. Columns are stored by their text and type, and found in the query."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa

from windrow.model.execution import SkewedKeys
from windrow.model.predicate import JoinColumn
from windrow.planning.bound_query import BoundQuery
from windrow.spark.grid import GridDimension, GridPlacement
from windrow.spark.partitioning import PartitionLayout, allowed_cuts
from windrow.state.layout import StoredDimension, StoredLayout, StoredPlacement, StoredSkew

HASHING = 2
"""Version of the mapping from values to partitions. State is bound to it: raise it when a value may move."""


def stored_layout(layout: PartitionLayout) -> StoredLayout:
    """The layout as data."""
    return StoredLayout(layout.partitions, tuple(map(_stored, layout.dimensions)), HASHING)


def _stored(cut: GridDimension) -> StoredDimension:
    placements = tuple(StoredPlacement(p.how, _name(p.column), p.reach) for p in cut.placements)
    skewed = None
    if cut.skewed is not None:
        column = next(place.column for place in cut.placements if place.column is not None)
        values = _encoded(cut.skewed.values, column.type)
        skewed = StoredSkew(str(list(cut.skewed.values)), cut.skewed.splits, values)
    return StoredDimension(**vars(cut) | {"placements": placements, "skewed": skewed})


def read_layout(bound: BoundQuery, stored: StoredLayout) -> PartitionLayout | None:
    """Inverse of `stored_layout`; None if this version of Windrow, or this query, places rows otherwise."""
    known = {
        (cut.kind, stream, _name(place.column)): place.column
        for cut in allowed_cuts(bound)
        for stream, place in enumerate(cut.placements)
    }
    dimensions = []
    for cut in stored.dimensions:
        columns = [(cut.kind, stream, place.column) for stream, place in enumerate(cut.placements)]
        unreadable = cut.skewed is not None and cut.skewed.encoded is None
        if unreadable or any(name[2] is not None and name not in known for name in columns):
            return None
        placed = zip(cut.placements, columns, strict=True)
        placements = tuple(GridPlacement(p.how, known.get(name), p.reach) for p, name in placed)
        skewed = cut.skewed and SkewedKeys(_decoded(cut.skewed.encoded or ""), cut.skewed.splits)
        dimensions.append(GridDimension(**vars(cut) | {"placements": placements, "skewed": skewed}))
    layout = PartitionLayout(bound.query.aliases, stored.partitions, tuple(dimensions))
    return layout if stored.hashing == HASHING else None


def _name(column: JoinColumn | None) -> str | None:
    return None if column is None else f"{column} as {column.type}"


def _encoded(values: tuple[Any, ...], kind: pa.DataType) -> str:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"values": pa.array(values, kind)})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return base64.b64encode(sink.getvalue()).decode()


def _decoded(text: str) -> tuple[Any, ...]:
    return tuple(pa.ipc.open_stream(base64.b64decode(text)).read_next_batch().column(0).to_pylist())
