"""Steps of outer, semi, anti and as-of joins: how the core is found, and each level after it.

At a level just its own conditions hold. So, unlike in an inner join, equalities are not carried over from one
level to the next: `b.k = c.k` says nothing where `b` has no row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from windrow.errors import DataError, Option, QueryError
from windrow.expr.join_columns import column_values
from windrow.expr.parse import references
from windrow.model.access import Access
from windrow.model.join_kind import JoinShape, Level
from windrow.model.plan import BoundEquality, Direction, Step, bound_column, own_column
from windrow.model.predicate import Atom, Class, Equality, JoinColumn, Predicate, Residual
from windrow.model.query import Function, Query
from windrow.planning.steps import step_of, steps_of


@dataclass(frozen=True)
class LevelStep:
    """One level: what the index looks up, and what else must hold."""

    level: Level
    step: Step
    """Without residuals: they are evaluated on combinations that may lack rows."""
    residuals: tuple[Residual, ...]
    own: tuple[JoinColumn, ...]
    """Join columns of the level's stream, each of which must have a value."""
    bound: tuple[JoinColumn, ...]
    """Join columns of streams before it, each of which must have a value."""
    equalities: tuple[BoundEquality, ...]
    hashed: tuple[Equality, ...]
    """Equalities of hashes, to be verified on the values."""


@dataclass(frozen=True)
class ShapePlan:
    """How the combinations of one shape are found and decided."""

    shape: JoinShape
    core: Predicate
    """The conditions on the core alone."""
    directions: tuple[Direction, ...]
    """Per stream of the core, how its new rows find combinations. None where the core is one stream."""
    levels: tuple[LevelStep, ...]

    @property
    def classes(self) -> tuple[Class, ...]:
        """Join columns of the core that are equal in each of its combinations."""
        return self.core.classes

    @property
    def steps(self) -> list[Step]:
        found = [step for direction in self.directions for step in direction.steps]
        return found + [level.step for level in self.levels]


def plan_shape(query: Query, predicate: Predicate, shape: JoinShape) -> ShapePlan:
    paths = [s.path for s in query.streams.values()]
    core = _conditions_of(predicate, shape, -1)
    _check_visible(query, predicate, shape)
    if not query.allow_cross_join:
        _check_linked(query, predicate, shape)
    directions: list[Direction] = []
    if len(shape.core) > 1:
        for stream in shape.core:
            order = _order(stream, shape.core, core)
            directions.append(Direction(stream, order, steps_of(order, core, paths)))
    levels = [
        _level_step(level, _conditions_of(predicate, shape, k), paths[level.stream])
        for k, level in enumerate(shape.levels)
    ]
    return ShapePlan(shape, core, tuple(directions), tuple(levels))


def valued_when_missing(
    query: Query, predicate: Predicate, schemas: Sequence[pa.Schema], functions: Mapping[str, Function]
) -> list[Atom]:
    """Atoms that may hold although a stream of an earlier level has no row, as `coalesce(b.k, 0) = c.k` may.
    No index can look up such a row, so they must be evaluated on the combinations."""
    found = []
    for atom in predicate.atoms:
        for shape in query.kind.shapes:
            own = shape.level_of(atom.streams)
            before = {x.stream for x in shape.levels[: max(own, 0)] if x.role == "optional"}
            if any(_has_value(c, schemas[c.stream], functions) for c in atom.columns if c.stream in before):
                found.append(atom)
                break
    return found


def _has_value(column: JoinColumn, schema: pa.Schema, functions: Mapping[str, Function]) -> bool:
    """Whether a join column has a value where its stream has no row."""
    nulls = {key: pa.nulls(1, schema.field(key[1]).type) for key in references(column.node)}
    try:
        return bool(column_values(column, nulls, 1, functions)[0].is_valid)
    except DataError:
        return False  # a function of the user that takes no nulls is not called for missing rows


def _conditions_of(predicate: Predicate, shape: JoinShape, level: int) -> Predicate:
    """The conditions that belong to a level."""
    return replace(
        predicate,
        filters=tuple(f for f in predicate.filters if shape.level_of([f.stream]) == level),
        atoms=tuple(a for a in predicate.atoms if shape.level_of(a.streams) == level),
        residuals=tuple(r for r in predicate.residuals if shape.level_of(r.streams) == level),
    )


def _level_step(level: Level, own: Predicate, path: Access | None) -> LevelStep:
    stream = level.stream
    equalities = [a for a in own.atoms if isinstance(a, Equality)]
    matches = [BoundEquality(own_column(a, stream), bound_column(a, stream)) for a in equalities]
    # An index looks up each column once; further equalities of a column are checked.
    first = {match.own: match for match in reversed(matches)}
    leading = [m for m in matches if first[m.own] is m]
    ranges = [a for a in own.atoms if not isinstance(a, Equality)]
    step = step_of(stream, matches, ranges, own.residuals, path, leading)
    alike = [r.similarity for r in own.residuals if r.similarity is not None]
    columns = [c for pair in (*own.atoms, *alike) for c in pair.columns]
    return LevelStep(
        level,
        replace(step, residuals=()),
        step.residuals,
        tuple(dict.fromkeys(c for c in columns if c.stream == stream)),
        tuple(dict.fromkeys(c for c in columns if c.stream != stream)),
        tuple(matches),
        tuple(e for e in equalities if e.left.kind == "hash"),
    )


def _order(first: int, core: Sequence[int], conditions: Predicate) -> tuple[int, ...]:
    """All of the core, each stream linked with those before it as far as that is possible."""
    order = [first]
    while len(order) < len(core):
        left = [s for s in core if s not in order]
        linked = [s for s in left if any(s in link and link <= {*order, s} for link in conditions.links)]
        order.append((linked or left)[0])
    return tuple(order)


def _check_visible(query: Query, predicate: Predicate, shape: JoinShape) -> None:
    """Refuses a condition of one level on a stream that an earlier one only tests for rows."""
    hidden = {level.stream: level for level in shape.levels if level.role in ("exists", "absent")}
    for condition in (*predicate.atoms, *predicate.residuals):
        of = shape.level_of(condition.streams)
        for stream in condition.streams & set(hidden):
            if shape.levels[of].stream != stream:
                raise QueryError(
                    f"{condition} refers to '{query.aliases[stream]}', which is '{hidden[stream].role}' and "
                    f"has no row to compare '{query.aliases[shape.levels[of].stream]}' with; compare it with "
                    "a required stream, or make the other 'optional'",
                    Option("on"),
                )


def _check_linked(query: Query, predicate: Predicate, shape: JoinShape) -> None:
    """Refuses a core, or a level, that no condition of its own links with the streams before it."""
    reached = _conditions_of(predicate, shape, -1).linked(shape.core[0])
    for stream in shape.core:
        if stream not in reached:
            raise QueryError(
                f"no condition on required streams alone links '{query.aliases[stream]}' with "
                f"'{query.aliases[shape.core[0]]}', so the combinations that others may lack are a cross "
                "product; add a condition, or allow it with allow_cross_join=True",
                Option("on"),
            )
    for k, level in enumerate(shape.levels):
        if not _conditions_of(predicate, shape, k).links:
            alias = query.aliases[level.stream]
            raise QueryError(
                f"no condition links '{alias}' with the streams before it, so every row of it matches; "
                "add a condition, or allow the cross product with allow_cross_join=True",
                Option("on"),
            )
