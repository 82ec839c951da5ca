"""From positions to result rows: one struct column per stream, hashed matches verified on the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.engine.outer.missing_rows import structs
from windrow.engine.partial_matches import PartialMatches
from windrow.engine.probe import as_mask
from windrow.errors import QueryError
from windrow.eviction.ranking import Selection
from windrow.expr.join_columns import column_values
from windrow.expr.parse import references
from windrow.model.join_kind import CERTAIN
from windrow.model.predicate import JoinColumn
from windrow.model.query import Function
from windrow.planning.equivalence import Class
from windrow.window.window_store import WindowStore

WEIGHT, CLUSTER = "weight", "cluster"
"""Columns of a sample's results."""


class ResultBuilder:
    def __init__(
        self,
        aliases: tuple[str, ...],
        schemas: Sequence[pa.Schema],
        classes: Sequence[Class],
        functions: Mapping[str, Function],
        samples: bool = False,
        hidden: frozenset[int] = frozenset(),
        tells_certainty: bool = False,
    ) -> None:
        self._aliases = aliases
        self._functions = functions
        self.hashed = [members for members in classes if members[0].kind == "hash"]
        """Classes of words whose matches must be verified."""
        self._types = [pa.struct(list(schema)) for schema in schemas]
        self._visible = [stream for stream in range(len(aliases)) if stream not in hidden]
        fields = [pa.field(aliases[s], self._types[s]) for s in self._visible]
        self._tells_certainty = tells_certainty
        if tells_certainty:
            fields.append(pa.field(CERTAIN, pa.bool_()))
        if samples:
            for name, kind in ((WEIGHT, pa.float64()), (CLUSTER, pa.int64())):
                if name in aliases:
                    raise QueryError(
                        f"streams: results of a sample have a column '{name}'; rename the stream"
                    )
                fields.append(pa.field(name, kind))
        self.schema = pa.schema(fields)

    def build(
        self, partials: PartialMatches, windows: Sequence[WindowStore], sample: Selection | None = None
    ) -> pa.RecordBatch:
        columns = [window.gather(partials.rows[stream]) for stream, window in enumerate(windows)]
        structs = [
            pa.StructArray.from_arrays(arrays, fields=list(kind))
            if arrays
            else pa.array([{}] * len(partials), kind)
            for arrays, kind in zip(columns, self._types, strict=True)
        ]
        weights = [] if sample is None else [pa.array(sample.weight), pa.array(sample.cluster)]
        if self._tells_certainty:
            weights.append(pa.array(np.ones(len(partials), bool)))
        batch = pa.RecordBatch.from_arrays([*structs, *weights], schema=self.schema)
        for members in self.hashed:
            batch = self._verified(batch, members)
        return batch

    def build_decided(
        self, results: PartialMatches, windows: Sequence[WindowStore], certain: np.ndarray | None
    ) -> pa.RecordBatch:
        """Results of an outer join, verified already, which may lack rows."""
        columns = [structs(windows[s], results.rows[s], self._types[s]) for s in self._visible]
        if certain is not None:
            columns.append(pa.array(certain))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _verified(self, batch: pa.RecordBatch, members: Class) -> pa.RecordBatch:
        """Rows whose values are equal, not only their hashes."""
        values = [self._value(batch, word) for word in members]
        same = np.ones(batch.num_rows, bool)
        for other in values[1:]:
            same &= as_mask(pc.equal(values[0], other))
        return batch if same.all() else batch.filter(pa.array(same))

    def _value(self, batch: pa.RecordBatch, word: JoinColumn) -> pa.Array:
        struct = batch.column(word.stream)
        columns = {key: struct.field(key[1]) for key in references(word.node)}
        return column_values(word, columns, batch.num_rows, self._functions)
