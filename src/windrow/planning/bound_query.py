"""A query bound to the columns of its streams: what the predicate compares, filters and leaves over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from windrow.errors import Option, QueryError
from windrow.expr.evaluate import can_fail
from windrow.expr.split_predicate import split_predicate
from windrow.model.predicate import Class, JoinColumn, Predicate
from windrow.model.query import Function, Query
from windrow.planning.levels import ShapePlan, plan_shape, valued_when_missing


@dataclass(frozen=True)
class BoundQuery:
    query: Query
    schemas: tuple[pa.Schema, ...]
    predicate: Predicate
    functions: Mapping[str, Function]
    shapes: tuple[ShapePlan, ...] = ()
    """How results that may lack rows are decided; none for inner joins."""

    @classmethod
    def of(cls, query: Query, schemas: Sequence[pa.Schema]) -> BoundQuery:
        """Refuses a query that does not fit the columns, or that joins no more than some of the streams."""
        functions = query.calls
        named = dict(zip(query.aliases, schemas, strict=True))
        predicate = split_predicate(query.on, named, functions, query.nan_rule)
        predicate = predicate.with_residuals(valued_when_missing(query, predicate, schemas, functions))
        _check_time_zones(query, schemas)
        _check_connected(query, predicate)
        _check_paths(query, predicate)
        shapes = tuple(plan_shape(query, predicate, shape) for shape in query.kind.shapes)
        return cls(query, tuple(schemas), predicate, functions, shapes)

    @property
    def classes(self) -> tuple[Class, ...]:
        """Join columns that must be equal in any result."""
        return self.predicate.classes

    @cached_property
    def join_columns(self) -> tuple[tuple[JoinColumn, ...], ...]:
        """Per stream, what the predicate compares as numbers."""
        return tuple(tuple(self.predicate.columns_of(s)) for s in range(len(self.schemas)))

    @cached_property
    def sets(self) -> tuple[tuple[JoinColumn, ...], ...]:
        """Per stream, the lists that the predicate compares as sets."""
        return tuple(tuple(self.predicate.sets_of(s)) for s in range(len(self.schemas)))

    @property
    def may_fail(self) -> bool:
        """Whether an operation of the predicate can fail for some rows."""
        parts = [column.node for own in (*self.join_columns, *self.sets) for column in own]
        parts += [f.node for f in self.predicate.filters] + [r.node for r in self.predicate.residuals]
        return any(can_fail(node) for node in parts)

    @property
    def hashed(self) -> list[Class]:
        """Join columns that are equal if their hashes are, most likely: results must be verified."""
        return [members for members in self.classes if members[0].kind == "hash"]

    @property
    def named_schemas(self) -> dict[str, pa.Schema]:
        """Schemas of the streams by alias."""
        return dict(zip(self.query.aliases, self.schemas, strict=True))

    @property
    def result_schemas(self) -> dict[str, pa.Schema]:
        """Schemas of the streams that results have a column of."""
        return {alias: self.named_schemas[alias] for alias in self.query.kind.result_aliases}

    @cached_property
    def _shared_keys(self) -> list[Class]:
        """Join keys that several streams have."""
        return [members for members in self.classes if len({w.stream for w in members}) > 1]

    @property
    def key_streams(self) -> list[list[int]]:
        """Per shared join key, its streams."""
        return [sorted({w.stream for w in members}) for members in self._shared_keys]

    @property
    def key_names(self) -> list[dict[int, str]]:
        """Per stream: number of a shared join key to the name of a join column. A stream may have several
        columns of a key; in a result they are equal, so the first is enough."""
        return [
            # Backwards, so that of several columns of a key the first stays.
            {k: w.name for k, members in enumerate(self._shared_keys) for w in members[::-1] if w in own}
            for own in self.join_columns
        ]

    def key_columns(self, stream: int) -> list[JoinColumn]:
        """A stream's join key."""
        return [w for members in self.classes for w in members if w.stream == stream]

    def equal_columns(self, stream: int) -> list[tuple[JoinColumn, JoinColumn]]:
        """Pairs of a stream's own join columns that must be equal in any row of a result."""
        pairs = []
        for members in self.classes:
            own = [w for w in members if w.stream == stream]
            pairs += [(own[0], other) for other in own[1:]]
        return pairs


def _check_time_zones(query: Query, schemas: Sequence[pa.Schema]) -> None:
    zoned = {
        alias: schema.field(stream.time).type.tz is not None
        for (alias, stream), schema in zip(query.streams.items(), schemas, strict=True)
    }
    if len(set(zoned.values())) > 1:
        with_zone = [a for a, z in zoned.items() if z]
        without = [a for a, z in zoned.items() if not z]
        raise QueryError(
            f"time columns of {with_zone} have a time zone, those of {without} have none; "
            "bring all to UTC with a zone, or all to plain timestamps"
        )


def _check_connected(query: Query, predicate: Predicate) -> None:
    """Refuses a predicate that does not connect all streams, unless the query allows a cross product."""
    connected = predicate.linked(0)
    apart = [alias for k, alias in enumerate(query.aliases) if k not in connected]
    if apart and not query.allow_cross_join:
        raise QueryError(
            f"no condition links {apart} with '{query.aliases[0]}', so the result is a cross product; "
            "add a condition, or allow it with allow_cross_join=True",
            Option("on"),
        )


def _check_paths(query: Query, predicate: Predicate) -> None:
    """Refuses a hash path or a row window per key without an equality, and an inverted path without sets."""
    for stream, (alias, described) in enumerate(query.streams.items()):
        path = described.path
        if path is not None and path.path == "inverted" and not predicate.sets_of(stream):
            raise QueryError(
                f"an inverted path needs a condition such as jaccard({alias}.tags, ...) >= "
                f"0.5 or overlap({alias}.tags, ...) >= 2 between this stream and another; "
                "use 'hash', 'sorted' or 'scan'",
                Option(stream=alias),
            )
        if any(w.stream == stream for members in predicate.classes for w in members):
            continue
        if path is not None and path.path == "hash":
            raise QueryError(
                "a hash path needs an equality on this stream; use 'sorted' or 'scan'", Option(stream=alias)
            )
        if described.window.kind == "rows per key":
            raise QueryError(
                f"'{described.window}' needs an equality on this stream to give the key; "
                f"use '{described.window.size} rows'",
                Option(stream=alias),
            )
