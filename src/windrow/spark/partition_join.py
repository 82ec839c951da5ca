"""The join that a Spark task runs in one partition: of one query, or shared by several.

`JoinKind` is the frozen description that Spark sends to workers. `PartitionJoin` is the running join.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from windrow.engine.control import apply_control, in_order, short
from windrow.engine.query_changes import fingerprint
from windrow.engine.redistribution import Moves, redistributed
from windrow.engine.result_builder import result_schema
from windrow.engine.runner import JoinRunner
from windrow.engine.state import State, capture, restore
from windrow.model.limits import Deadline
from windrow.model.query import Query
from windrow.model.query_metrics import BatchQueryMetrics
from windrow.spark.metrics import COLUMN

ROWS_PER_BATCH = 32_768
BYTES_PER_BATCH = 16 << 20
MAX_REASONS = 20
"""Reasons reported per micro-batch, because metrics must stay small."""
Batches = Iterator[pa.RecordBatch]
"""Results for Spark: the kind's columns, and an empty column for metrics."""
LOCAL = "SPARK_LOCAL_DIRS"
"""Where Spark gives its workers the local directories of their executor."""


def local_directory() -> str | None:
    """The first of the local directories that Spark gives the workers of an executor, if it names any."""
    return os.environ.get(LOCAL, "").split(",")[0].strip() or None


class PartitionJoin(Protocol):
    """A running join."""

    @property
    def runner(self) -> JoinRunner: ...

    def control(self, message: str | Mapping[str, Any]) -> None:
        """Apply a control message; raise a QueryError if it is refused."""

    def process(self, rows: dict[str, pa.RecordBatch], seconds: float | None) -> Batches:
        """Join rows at once; results are converted to batches lazily."""

    def finish(self) -> Batches:
        """Declare that no earlier row will arrive."""

    def capture(self) -> State: ...

    def restore(self, state: State, reached: Sequence[int | None]) -> None:
        """Restore into a join that has seen nothing yet; other partitions have `reached` these event times,
        by stream."""

    def query_metrics(self) -> dict[str, BatchQueryMetrics]:
        """Metrics of each query of a shared join, for the rows processed last."""

    def control_errors(self) -> tuple[str, ...]:
        """Errors of control messages that were not refused at once; each is reported once."""


def apply_controls(join: PartitionJoin, messages: tuple[str, ...]) -> tuple[str, ...]:
    """Apply control messages. Returns the reasons why some were refused."""
    rejected: dict[str, None] = {}
    for message in in_order(messages):
        try:
            join.control(message)
        except Exception as error:
            # Never raised: Spark's offset log would bring the message back after every restart.
            if len(rejected) < MAX_REASONS:
                rejected[short(str(error))] = None
    return tuple(rejected)


class JoinKind(Protocol):
    """Describes a join to workers."""

    @property
    def deadline(self) -> Deadline | None:
        """The deadline of a micro-batch, if it is not one of the query."""

    def start(self, query: Query, schemas: dict[str, pa.Schema]) -> PartitionJoin:
        """Start a join that has seen nothing yet."""

    def fingerprint(self, query: Query) -> dict[str, Any]:
        """The query as plain values, to compare with those of a state."""

    def columns(self, query: Query, schemas: tuple[pa.Schema, ...]) -> pa.Schema:
        """Schema of the results."""

    def redistributed(self, states: Sequence[State], moves: Moves) -> State:
        """The state of one partition, from those of all partitions of another layout."""


@dataclass(frozen=True)
class SingleQuery:
    """The join of one query."""

    deadline: None = None

    def start(self, query: Query, schemas: dict[str, pa.Schema]) -> PartitionJoin:
        return _SingleQueryJoin(query, schemas)

    def fingerprint(self, query: Query) -> dict[str, Any]:
        return fingerprint(query)

    def columns(self, query: Query, schemas: tuple[pa.Schema, ...]) -> pa.Schema:
        return result_schema(query, dict(zip(query.aliases, schemas, strict=True)))

    def redistributed(self, states: Sequence[State], moves: Moves) -> State:
        return redistributed(states, moves)


class _SingleQueryJoin:
    def __init__(self, query: Query, schemas: dict[str, pa.Schema]) -> None:
        self.runner = JoinRunner(query, schemas, spill_directory=local_directory())

    def control(self, message: str | Mapping[str, Any]) -> None:
        apply_control(self.runner, message)

    def process(self, rows: dict[str, pa.RecordBatch], seconds: float | None) -> Batches:
        return _in_batches(self.runner.process(rows, seconds))

    def finish(self) -> Batches:
        return _in_batches(self.runner.finish())

    def capture(self) -> State:
        return capture(self.runner)

    def restore(self, state: State, reached: Sequence[int | None]) -> None:
        restore(self.runner, state, reached)

    def query_metrics(self) -> dict[str, BatchQueryMetrics]:
        return {}

    def control_errors(self) -> tuple[str, ...]:
        return ()


def rows_at_once(results: pa.Table | pa.RecordBatch) -> int:
    """Number of these results per batch."""
    return max(1, min(ROWS_PER_BATCH, BYTES_PER_BATCH * results.num_rows // max(results.nbytes, 1)))


def _in_batches(table: pa.Table) -> Batches:
    """The results in batches of bounded size."""
    if table.num_rows == 0:
        return
    if table.column(0).num_chunks > 1 + table.num_rows // (ROWS_PER_BATCH // 4):
        table = table.combine_chunks()
    for batch in table.to_batches(max_chunksize=rows_at_once(table)):
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, pa.nulls(batch.num_rows, pa.string())], [*table.column_names, COLUMN]
        )
