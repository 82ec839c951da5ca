"""Results for queries: found once, held once, turned into a table per query on request.

A *piece* holds results in delivery order, with the columns that any query reads. A query's part of a piece is
a list of positions; its table is built only when it is read. A query that takes every result gets the piece
itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from windrow.engine.shared.bound_subscription import BoundExpression, BoundSubscription
from windrow.expr.evaluate import evaluate
from windrow.expr.failures import Failure, restricted, undecided
from windrow.expr.parse import Reference
from windrow.expr.values import as_mask
from windrow.kernels import result_routing
from windrow.model.query import Function

Array = np.ndarray
_WORTH_A_PIECE = 65_536


@dataclass(eq=False)
class ResultBatch:
    """Results of some rows, in order."""

    columns: dict[Reference, pa.Array]
    newest: Array
    positions: Array
    """Per stream and result, the row's place among all rows of its stream."""
    ranks: Array
    """Per stream and result, the rank of the smallest window size that holds it."""
    arrived: float
    """Arrival time of its newest rows, on the operator's clock."""
    functions: Mapping[str, Function] = field(default_factory=dict)
    missing: Mapping[str, Array] = field(default_factory=dict)
    """Per alias, mask of the results that lack a row of it, where results of an outer join may."""
    _computed: dict[str, pa.Array] = field(default_factory=dict)
    _failures: dict[str, list[Failure]] = field(default_factory=dict)
    _structs: pa.RecordBatch | None = None

    def __len__(self) -> int:
        return len(self.newest)

    def value(self, expression: BoundExpression) -> pa.Array:
        """Value of the expression for every result; computed once."""
        if expression.sql not in self._computed:
            failures = self._failures.setdefault(expression.sql, [])
            self._computed[expression.sql] = evaluate(
                expression.node, self.columns, len(self), self.functions, failures
            )
        return self._computed[expression.sql]

    def prepare(self, bound: BoundSubscription) -> None:
        """Compute a query's select list now, so that errors surface here."""
        for expression in (bound.columns or {}).values():
            self.value(expression)

    def passes(self, bound: BoundSubscription) -> Array | None:
        """Mask of the results that pass all filters of a query; None for all."""
        masks = [self._mask(f) for f in bound.filters]
        return np.logical_and.reduce(masks) if masks else None

    def _mask(self, expression: BoundExpression) -> Array:
        return as_mask(self.value(expression))

    def failures(self, bound: BoundSubscription, held: Array) -> list[Failure]:
        """Failures of a query's expressions on the results that its windows hold."""
        filters = [(self._mask(f), self._failures[f.sql]) for f in bound.filters]
        selected: list[Failure] = []
        for expression in (bound.columns or {}).values():
            if expression.can_fail:
                self.value(expression)
                selected += self._failures[expression.sql]
        found = undecided(filters, selected)
        if not found:
            return found
        inside = np.zeros(len(self), bool)
        inside[held] = True
        return restricted(found, inside)

    def where(self, chosen: Array) -> ResultBatch:
        """Only these results, in the order of `chosen`."""
        positions = pa.array(chosen)
        return ResultBatch(
            {key: column.take(positions) for key, column in self.columns.items()},
            self.newest[chosen],
            np.ascontiguousarray(self.positions[:, chosen]),
            np.ascontiguousarray(self.ranks[:, chosen]),
            self.arrived,
            self.functions,
            {alias: mask[chosen] for alias, mask in self.missing.items()},
        )

    def batch(
        self, bound: BoundSubscription, schemas: Mapping[str, pa.Schema], chosen: Array
    ) -> pa.RecordBatch:
        """A query's results."""
        whole = self._whole(bound, schemas)
        return whole if len(chosen) == len(self) else whole.take(pa.array(chosen))

    def _whole(self, bound: BoundSubscription, schemas: Mapping[str, pa.Schema]) -> pa.RecordBatch:
        """All results, with the columns of a query."""
        # Queries without a select list share one batch of structs, which is built once.
        if bound.columns is not None:
            arrays = [self.value(e) for e in bound.columns.values()]
            return pa.RecordBatch.from_arrays(arrays, schema=bound.schema(schemas))
        if self._structs is None:
            structs = [self._struct(alias, schema) for alias, schema in schemas.items()]
            self._structs = pa.RecordBatch.from_arrays(structs, schema=bound.schema(schemas))
        return self._structs

    def _struct(self, alias: str, schema: pa.Schema) -> pa.StructArray:
        missing = self.missing.get(alias)
        mask = None if missing is None else pa.array(missing)
        if not schema.names:
            return pa.array([{}] * len(self), pa.struct([]), mask=missing)
        columns = [self.columns[alias, name] for name in schema.names]
        return pa.StructArray.from_arrays(columns, fields=list(schema), mask=mask)


def joined(pieces: Sequence[ResultBatch]) -> ResultBatch:
    """Concatenate pieces of one call."""
    if len(pieces) == 1:
        return pieces[0]
    return replace(
        pieces[0],
        columns={k: pa.concat_arrays([p.columns[k] for p in pieces]) for k in pieces[0].columns},
        newest=np.concatenate([p.newest for p in pieces]),
        positions=np.concatenate([p.positions for p in pieces], axis=1),
        ranks=np.concatenate([p.ranks for p in pieces], axis=1),
        missing={
            alias: np.concatenate([p.missing.get(alias, np.zeros(len(p), bool)) for p in pieces])
            for alias in {alias for p in pieces for alias in p.missing}
        },
        _computed={},
        _failures={},
        _structs=None,
    )


def ordered(pieces: Sequence[ResultBatch], queries: int = 1) -> list[ResultBatch]:
    """Put pieces in order. They already are, unless streams are apart or rows late; then they are merged.
    Small pieces are merged too if many queries take from them: each take has a fixed cost."""
    if len(pieces) < 2:
        return list(pieces)
    ends = [np.array([0, len(p) - 1]) for p in pieces]
    newest = np.concatenate([p.newest[e] for p, e in zip(pieces, ends, strict=True)])
    places = np.concatenate([p.positions[:, e] for p, e in zip(pieces, ends, strict=True)], axis=1)
    if result_routing.in_order(newest, places):
        small = queries > 2 and sum(map(len, pieces)) < _WORTH_A_PIECE * len(pieces)
        return [joined(pieces)] if small else list(pieces)
    whole = joined(pieces)
    return [whole.where(result_routing.order_of(whole.newest, whole.positions))]


@dataclass(frozen=True)
class ResultSelection:
    """The results of a piece that one query gets."""

    batch: ResultBatch
    chosen: Array
    released: Array | None = None
    """When each of them was released, on the operator's clock; None: with all others."""


@dataclass(frozen=True)
class QueryResults:
    """The results of a call that one query gets."""

    bound: BoundSubscription
    schemas: Mapping[str, pa.Schema]
    selections: tuple[ResultSelection, ...]
    ended: float = 0.0
    """When the call or unit ended, on the operator's clock."""

    def batches(self) -> list[pa.RecordBatch]:
        return [p.batch.batch(self.bound, self.schemas, p.chosen) for p in self.selections if len(p.chosen)]

    def release_times(self) -> list[Array]:
        return [
            np.full(len(p.chosen), self.ended) if p.released is None else p.released for p in self.selections
        ]


@dataclass(frozen=True)
class FanOut:
    """Results of several queries with the same select list, each once."""

    table: pa.RecordBatch
    queries: pa.ListArray
    """Per result, the names of the queries that get it."""


def fan_out(results: Mapping[str, Sequence[QueryResults]]) -> Iterator[FanOut]:
    """All results, once per distinct select list of the queries that get them."""
    takers: dict[tuple[int, object], list[tuple[str, QueryResults, ResultSelection]]] = {}
    for name, one in ((name, one) for name, several in results.items() for one in several):
        for part in one.selections:
            if len(part.chosen):
                # Queries that take from one batch have the very same object, and equal select lists make
                # equal columns.
                takers.setdefault((id(part.batch), one.bound.listed), []).append((name, one, part))
    for shared in takers.values():
        _, one, first = shared[0]
        taken, starts, who = _takers([part.chosen for _, _, part in shared], len(first.batch))
        names = pa.array([name for name, _, _ in shared], pa.string()).take(pa.array(who))
        batch = first.batch.batch(one.bound, one.schemas, taken)
        yield FanOut(batch, pa.ListArray.from_arrays(pa.array(starts, pa.int32()), names))


def _takers(chosen: Sequence[Array], results: int) -> tuple[Array, Array, Array]:
    """Results taken by any query, the start of each result's takers in the last array, and the takers."""
    counts = np.zeros(results, np.int64)
    for positions in chosen:
        counts[positions] += 1
    taken = np.flatnonzero(counts)
    # A counting sort by result: `at` is where the next taker of each result is written.
    ends = np.cumsum(counts)
    at = ends - counts
    who = np.empty(int(ends[-1]), np.int32)
    for number, positions in enumerate(chosen):
        who[at[positions]] = number
        at[positions] += 1
    return taken, np.append(0, ends[taken]), who


class ResultsByQuery(Mapping[str, pa.Table]):
    """Query name to its results, in order; a table is built when it is first read."""

    def __init__(self, results: Mapping[str, Sequence[QueryResults]]) -> None:
        self.query_results = dict(results)
        """By name: the results of its query, after those of earlier queries of the name that are not over."""
        self._tables: dict[str, pa.Table] = {}

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._tables:
            *earlier, last = self.query_results[name]
            schema, batches = last.bound.schema(last.schemas), last.batches()
            tables = [pa.Table.from_batches(batches, None if batches else schema)]
            before = [batch for each in earlier for batch in each.batches()]
            tables = [pa.Table.from_batches([batch]) for batch in before] + tables
            self._tables[name] = pa.concat_tables(tables, promote_options="permissive")
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.query_results)

    def __len__(self) -> int:
        return len(self.query_results)

    def release_times(self, name: str) -> Array:
        """When each result of a query was released, in seconds of the operator's clock. After `process` that
        is the end of the call; see `SharedOperator.releases`."""
        times = [part for each in self.query_results[name] for part in each.release_times()]
        return np.concatenate([np.empty(0), *times])

    def __repr__(self) -> str:
        sizes = (f"{name}: {self.release_times(name).size} rows" for name in self)
        return f"Results({', '.join(sizes)})"
