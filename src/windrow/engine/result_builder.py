"""Builds result rows from positions: one struct column per stream; hashed matches are verified by value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from windrow.engine.conditions import same_values
from windrow.engine.partial_matches import PartialMatches
from windrow.engine.rows import ArrivingRows
from windrow.engine.windows import Windows
from windrow.errors import Option, QueryError
from windrow.eviction.ranking import Selection
from windrow.expr.parse import references
from windrow.model.join_kind import CERTAIN
from windrow.model.query import Query
from windrow.planning.bound_query import BoundQuery

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
        self, windows: Windows, found: PartialMatches, sample: Selection | None, certain: Array | None = None
    ) -> Iterator[pa.RecordBatch]:
        columns = [windows.structs(s, found.rows[s], kind) for s, kind in self._types.items()]
        if self._reports_certainty:
            columns.append(pa.array(np.ones(len(found), bool) if certain is None else certain))
        if sample is not None:
            columns += [pa.array(sample.weight), pa.array(sample.cluster)]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        # What an outer join has decided is verified already.
        for members in self._hashed if certain is None else ():
            needed = {key for column in members for key in references(column.node)}
            values = {(alias, name): batch.column(alias).field(name) for alias, name in needed}
            same = same_values(members, values, batch.num_rows, self._functions)
            batch = batch if same.all() else batch.filter(pa.array(same))
        yield batch

    def end_sub_batch(
        self, windows: Windows, arrivals: Sequence[ArrivingRows], starts: Sequence[int]
    ) -> None:
        """Nothing to do: no result is held back."""
