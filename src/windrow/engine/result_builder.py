"""Builds result rows from positions: one struct column per stream; hashed matches are verified by value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.engine.outer.missing_rows import structs
from windrow.engine.partial_matches import PartialMatches
from windrow.engine.rows import ArrivingRows
from windrow.errors import Option, QueryError
from windrow.eviction.ranking import Selection
from windrow.expr.join_columns import column_values
from windrow.expr.parse import references
from windrow.expr.values import as_mask
from windrow.model.join_kind import CERTAIN
from windrow.model.predicate import Class, JoinColumn
from windrow.model.query import Query
from windrow.planning.bound_query import BoundQuery
from windrow.window.window_store import WindowStore

Array = np.ndarray
WEIGHT, CLUSTER = "weight", "cluster"
"""Extra result columns of a sample."""


def result_schema(query: Query, schemas: Mapping[str, pa.Schema]) -> pa.Schema:
    """Columns of the results, from the streams' schemas by alias."""
    fields = [pa.field(alias, pa.struct(list(schemas[alias]))) for alias in query.kind.result_aliases]
    if query.kind.reports_certainty:
        fields.append(pa.field(CERTAIN, pa.bool_()))
    if query.memory_limit is not None and query.memory_policy.samples:
        fields += [pa.field(WEIGHT, pa.float64()), pa.field(CLUSTER, pa.int64())]
    return pa.schema(fields)


class ResultBuilder:
    """Sink of a single query: builds its result rows."""

    defers = False

    def __init__(self, bound: BoundQuery) -> None:
        self._functions, self._hashed = bound.functions, bound.hashed
        aliases = bound.query.aliases
        self.schema = result_schema(bound.query, bound.named_schemas)
        for name in {WEIGHT, CLUSTER} & {*aliases}:
            if self.schema.names.count(name) > 1:
                raise QueryError(
                    f"results of a sample have a column '{name}'; rename the stream", Option("streams")
                )
        self._types = {aliases.index(a): self.schema.field(a).type for a in bound.query.kind.result_aliases}
        self._reports_certainty = bound.query.kind.reports_certainty

    def add(
        self,
        windows: Sequence[WindowStore],
        found: PartialMatches,
        sample: Selection | None,
        certain: Array | None = None,
    ) -> Iterator[pa.RecordBatch]:
        columns = [structs(windows[s], found.rows[s], kind) for s, kind in self._types.items()]
        if self._reports_certainty:
            columns.append(pa.array(np.ones(len(found), bool) if certain is None else certain))
        if sample is not None:
            columns += [pa.array(sample.weight), pa.array(sample.cluster)]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        for members in self._hashed if certain is None else ():
            batch = self._verified(batch, members)
        yield batch

    def end_sub_batch(
        self, windows: Sequence[WindowStore], arrivals: Sequence[ArrivingRows], starts: Sequence[int]
    ) -> None:
        """Nothing to do: no result is held back."""

    def _verified(self, batch: pa.RecordBatch, members: Class) -> pa.RecordBatch:
        """Rows whose values are equal, not only their hashes."""
        values = [self._value(batch, column) for column in members]
        same = np.ones(batch.num_rows, bool)
        for other in values[1:]:
            same &= as_mask(pc.equal(values[0], other))
        return batch if same.all() else batch.filter(pa.array(same))

    def _value(self, batch: pa.RecordBatch, column: JoinColumn) -> pa.Array:
        struct = batch.column(column.stream)
        columns = {key: struct.field(key[1]) for key in references(column.node)}
        return column_values(column, columns, batch.num_rows, self._functions)
