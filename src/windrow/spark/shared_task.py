"""One partition of a shared join, in one micro-batch."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type

from windrow.engine.operator import Operator
from windrow.engine.shared.bound_subscription import bind
from windrow.engine.shared.group_operator import GroupOperator
from windrow.engine.shared.query_names import QueryNames
from windrow.engine.shared.response_times import ResponseTimes
from windrow.engine.shared.results import FanOut, ResultsByQuery, fan_out
from windrow.engine.shared.sibling_joins import Sibling
from windrow.engine.shared.state import capture_group, restore_group
from windrow.engine.shared.subscribers import Key
from windrow.engine.state import State, fingerprint
from windrow.errors import QueryError, unknown
from windrow.model.sharing import Subscription
from windrow.model.units import SECOND, parse_duration
from windrow.spark.metrics import COLUMN, PartitionQueryMetrics
from windrow.spark.task import JoinTask, rows_at_once
from windrow.spark.task_control import REASONS_TOLD
from windrow.spark.task_input import TaskInput

QUERY = "query"
"""The column that says whose result it is. A worker names all queries that get a result and hands it over
once, since handing over costs more than copying a row on Spark's side."""


@dataclass(frozen=True)
class JoinOnSpark(Sibling):
    """On Spark the columns of the result are fixed: a new query can select no others."""

    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    names: tuple[str, ...] = ()
    """Queries it began with."""

    def check(self, name: str, asked: Subscription) -> None:
        super().check(name, asked)
        assert self.schemas is not None
        schema = bind(name, asked, self.schemas).schema(self.schemas)
        for column in schema:
            if column.name not in self.columns.names[1:]:
                raise QueryError(
                    f"add: query '{name}': {unknown('column', column.name, self.columns.names[1:])}; the "
                    "result's columns were fixed when the stream began"
                )
            fixed = self.columns.field(column.name).type
            if column.type != fixed and from_arrow_type(column.type) != from_arrow_type(fixed):
                raise QueryError(
                    f"add: query '{name}': column '{column.name}' is {column.type}, and in the result "
                    f"{fixed}; rename it with 'as'"
                )


class _Group(GroupOperator):
    @property
    def sibling(self) -> Sibling:
        return self.siblings[self.number]


@dataclass(frozen=True)
class SharedJoinTask(JoinTask):
    """
    Parameters
    ----------
    subscriptions
        The queries the stream began with.
    columns
        Of the result: the queries' names, then what any query selects.
    joins, number
        All joins of the same call, and which of them this is.
    """

    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))
    schedule: str = "greedy"
    deadline: str | None = None
    backlog: int | None = None
    joins: tuple[JoinOnSpark, ...] = ()
    number: int = 0

    def _fresh(self) -> Operator:
        return self._group(dict(zip(self.query.aliases, self.schemas, strict=True)))

    def _restored(self, state: State) -> Operator:
        # The state brings the schemas with it.
        return restore_group(self._group(None), state)

    def _group(self, schemas: dict[str, pa.Schema] | None) -> GroupOperator:
        group = _Group(
            self.subscriptions, self.schedule, self.deadline, self.backlog, schemas, clock=time.time
        )
        group.siblings, group.number = self.joins, self.number
        group.names = QueryNames([join.names for join in self.joins])
        return group

    def _captured(self, operator: Operator) -> State:
        assert isinstance(operator, GroupOperator)
        return capture_group(operator)

    def _described(self) -> dict[str, Any]:
        queries = {
            name: [[str(w) for w in s.windows], s.query.on, s.where, list(s.select)]
            for name, s in self.subscriptions.items()
        }
        return fingerprint(self.query) | {"queries": queries}

    def _process(
        self, operator: Operator, rows: dict[str, pa.RecordBatch], seconds: float | None
    ) -> ResultsByQuery:
        assert isinstance(operator, GroupOperator)
        return operator.process_queries(rows)

    def _finish(self, operator: Operator) -> ResultsByQuery:
        assert isinstance(operator, GroupOperator)
        return operator.finish_queries()

    def _emit(self, results: ResultsByQuery) -> Iterator[pa.RecordBatch]:
        for dealt in fan_out(results.query_results):
            whole = self._row_batch(dealt)
            rows = rows_at_once(whole)
            for start in range(0, whole.num_rows, rows):
                yield whole.slice(start, rows)

    def _row_batch(self, dealt: FanOut) -> pa.RecordBatch:
        """Results with all columns of the stream; those that are not selected are null."""
        batch, count = dealt.table, dealt.table.num_rows
        arrays = [dealt.queries]
        for column in list(self.columns)[1:]:
            if column.name in batch.schema.names:
                found = batch.column(column.name)
                arrays.append(found if found.type == column.type else found.cast(column.type))
            else:
                arrays.append(pa.nulls(count, column.type))
        return pa.RecordBatch.from_arrays(
            [*arrays, pa.nulls(count, pa.string())], [*self.columns.names, COLUMN]
        )

    def _deadline_share(self, arrived: TaskInput) -> float | None:
        return None if self.deadline is None else parse_duration(self.deadline) / SECOND

    def _watch(self, operator: Operator) -> dict[Key, ResponseTimes]:
        assert isinstance(operator, GroupOperator)
        return {m.key: copy.deepcopy(m.response_times) for m in operator.subscribers}

    def _query_metrics(
        self, operator: Operator, before: dict[Key, ResponseTimes]
    ) -> dict[str, PartitionQueryMetrics]:
        assert isinstance(operator, GroupOperator)
        found: dict[str, list[PartitionQueryMetrics]] = {}
        for member in (*operator.departed.values(), *operator.subscribers):
            r = member.response_times.since(before.get(member.key, ResponseTimes()))
            backlog = 0 if member.key in operator.departed else operator.backlog(member)
            found.setdefault(member.name, []).append(
                PartitionQueryMetrics(
                    r.count, r.mean, r.percentile(0.99), r.maximum, backlog, member.complete_from
                )
            )
        return {name: PartitionQueryMetrics.together(told) for name, told in found.items()}

    def _control_errors(self, operator: Operator) -> tuple[str, ...]:
        assert isinstance(operator, GroupOperator)
        told, operator.control_errors = dict.fromkeys(operator.control_errors[:REASONS_TOLD]), []
        return tuple(told)

    def _columns(self) -> pa.Schema:
        return self.columns
