"""Partitions of outer, semi, anti and as-of joins.

A partition decides that nothing matches a combination, so it must have every row that could match. On each
dimension a row of a core stream has exactly one place. A row of a level's stream has the same place if an
equality of that level ties it to a join column placed there; otherwise it is copied to all places. Ranges are
not used, because rows near a cell border have several places.
"""

from __future__ import annotations

from windrow.model.join_kind import JoinShape
from windrow.model.predicate import Equality, JoinColumn, equality_classes
from windrow.model.query import Query
from windrow.planning.bound_query import BoundQuery
from windrow.spark.grid import GridDimension, by_content, by_key


def outer_cuts(bound: BoundQuery) -> list[GridDimension]:
    """The dimensions that such a join allows."""
    query, first = bound.query, bound.query.kind.shapes[0]
    equalities = [atom for atom in bound.predicate.atoms if isinstance(atom, Equality)]
    cuts = [_by_key(query, first, equalities, group) for group in _core_groups(first, equalities)]
    if len(query.kind.shapes) == 1:
        return [*cuts, *(by_content(query, stream) for stream in first.core)]
    # Unmatched rows of both sides are returned, so none may be copied.
    return [cut for cut in cuts if all(place.how == "value" for place in cut.placements)]


def _core_groups(shape: JoinShape, equalities: list[Equality]) -> list[tuple[JoinColumn, ...]]:
    """Join columns of the core that are equal in each of its combinations."""
    inside = [e for e in equalities if shape.level_of(w.stream for w in e.columns) < 0]
    groups = list(equality_classes(inside))
    known = {column for group in groups for column in group}
    columns = dict.fromkeys(w for e in equalities for w in e.columns if w.stream in shape.core)
    return groups + [(column,) for column in columns if column not in known]


def _by_key(
    query: Query, shape: JoinShape, equalities: list[Equality], group: tuple[JoinColumn, ...]
) -> GridDimension:
    tied = list(group)
    for k, level in enumerate(shape.levels):
        for e in (e for e in equalities if shape.level_of(w.stream for w in e.columns) == k):
            own, other = e.columns if e.left.stream == level.stream else (e.right, e.left)
            if other in tied:
                tied.append(own)
    return by_key(query, tied)
