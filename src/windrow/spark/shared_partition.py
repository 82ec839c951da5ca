"""A join that queries share, in one partition."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type

from windrow.engine.query_changes import fingerprint
from windrow.engine.redistribution import Moves
from windrow.engine.shared.bound_subscription import bind
from windrow.engine.shared.query_names import QueryNames, Sibling
from windrow.engine.shared.redistribution import redistributed_group
from windrow.engine.shared.response_times import ResponseTimes
from windrow.engine.shared.results import FanOut, ResultsByQuery, fan_out
from windrow.engine.shared.shared_join import SharedJoin
from windrow.engine.shared.state import capture_group, restore_group
from windrow.engine.shared.subscribers import Key
from windrow.engine.state import State
from windrow.errors import Option, QueryError, unknown
from windrow.model.limits import Deadline
from windrow.model.query import Query
from windrow.model.query_metrics import BatchQueryMetrics
from windrow.model.sharing import SharingSettings, Subscription
from windrow.spark.metrics import COLUMN
from windrow.spark.partition_join import MAX_REASONS, Batches, PartitionJoin, rows_at_once

QUERY = "query"
"""The column of the result's query. A worker returns each result once, with all its queries, because
transferring a row costs more than copying it in Spark."""


@dataclass(frozen=True)
class JoinOnSpark(Sibling):
    """A sibling join on Spark. Its result columns are fixed, so a new query can select no others."""

    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    names: tuple[str, ...] = ()
    """Its initial queries."""

    def check(self, name: str, subscription: Subscription) -> None:
        super().check(name, subscription)
        assert self.schemas is not None
        schema = bind(name, subscription, self.schemas).schema(self.schemas)
        for column in schema:
            if column.name not in self.columns.names[1:]:
                raise QueryError(
                    f"{unknown('column', column.name, self.columns.names[1:])}; the result's columns were "
                    "fixed when the stream began",
                    Option(query=name),
                )
            fixed = self.columns.field(column.name).type
            if column.type != fixed and from_arrow_type(column.type) != from_arrow_type(fixed):
                raise QueryError(
                    f"column '{column.name}' is {column.type}, in the result {fixed}; rename it with 'as'",
                    Option(query=name),
                )


@dataclass(frozen=True)
class SharedQueries:
    """A join that queries share.

    Parameters
    ----------
    subscriptions
        The initial queries of the stream.
    result_columns
        Columns of the result: the queries' names, then those that any query selects.
    joins, number
        All joins of the same call, and the number of this one.
    """

    subscriptions: dict[str, Subscription]
    result_columns: pa.Schema
    sharing: SharingSettings = field(default_factory=SharingSettings)
    joins: tuple[JoinOnSpark, ...] = ()
    number: int = 0

    @property
    def deadline(self) -> Deadline | None:
        return self.sharing.time_limit

    def start(self, query: Query, schemas: dict[str, pa.Schema]) -> PartitionJoin:
        join = SharedJoin(self.subscriptions, self.sharing, schemas, clock=time.time)
        join.siblings, join.number = self.joins, self.number
        join.names = QueryNames([each.names for each in self.joins])
        return _SharedQueriesJoin(join, self.result_columns)

    def fingerprint(self, query: Query) -> dict[str, Any]:
        queries = {
            name: [[str(w) for w in s.windows], s.query.on, s.where, list(s.select)]
            for name, s in self.subscriptions.items()
        }
        return fingerprint(query) | {"queries": queries}

    def columns(self, query: Query, schemas: tuple[pa.Schema, ...]) -> pa.Schema:
        return self.result_columns

    def redistributed(self, states: Sequence[State], moves: Moves) -> State:
        return redistributed_group(states, moves)


class _SharedQueriesJoin:
    def __init__(self, join: SharedJoin, columns: pa.Schema) -> None:
        self._join = join
        self._columns = columns
        self.runner = join.runner
        self.control = join.control
        self._before: dict[Key, ResponseTimes] = {}
        """Response times before the rows processed last."""

    def process(self, rows: dict[str, pa.RecordBatch], seconds: float | None) -> Batches:
        self._before = {m.key: copy.deepcopy(m.response_times) for m in self._join.subscribers}
        return self._in_batches(self._join.process(rows, seconds=seconds))

    def finish(self) -> Batches:
        return self._in_batches(self._join.finish())

    def capture(self) -> State:
        return capture_group(self._join)

    def restore(self, state: State, reached: Sequence[int | None]) -> None:
        restore_group(self._join, state, reached)

    def query_metrics(self) -> dict[str, BatchQueryMetrics]:
        found: dict[str, list[BatchQueryMetrics]] = {}
        for subscriber in (*self._join.departed.values(), *self._join.subscribers):
            r = subscriber.response_times.since(self._before.get(subscriber.key, ResponseTimes()))
            backlog = 0 if subscriber.key in self._join.departed else self._join.backlog(subscriber)
            found.setdefault(subscriber.name, []).append(
                BatchQueryMetrics(**r.metrics(), backlog_rows=backlog, complete_from=subscriber.complete_from)
            )
        return {name: BatchQueryMetrics.together(each) for name, each in found.items()}

    def control_errors(self) -> tuple[str, ...]:
        reasons, self._join.control_errors = dict.fromkeys(self._join.control_errors[:MAX_REASONS]), []
        return tuple(reasons)

    def _in_batches(self, results: ResultsByQuery) -> Batches:
        for fanned_out in fan_out(results.query_results):
            whole = self._row_batch(fanned_out)
            rows = rows_at_once(whole)
            for start in range(0, whole.num_rows, rows):
                yield whole.slice(start, rows)

    def _row_batch(self, results: FanOut) -> pa.RecordBatch:
        """Results with all columns of the stream; columns that are not selected are null."""
        batch, count = results.table, results.table.num_rows
        arrays = [results.queries]
        for column in list(self._columns)[1:]:
            if column.name in batch.schema.names:
                found = batch.column(column.name)
                arrays.append(found if found.type == column.type else found.cast(column.type))
            else:
                arrays.append(pa.nulls(count, column.type))
        return pa.RecordBatch.from_arrays(
            [*arrays, pa.nulls(count, pa.string())], [*self._columns.names, COLUMN]
        )
