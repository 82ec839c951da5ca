"""Joins over partitions in one process: the tasks that Spark would run, without Spark.

Rows go to their partitions as `spark/files/places.py` finds them, which is where Spark would send them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

import windrow as wr
from windrow.engine.shared.grouping import base_query, group_queries
from windrow.engine.shared.tiers import WindowTiers
from windrow.model.execution import SkewedKeys
from windrow.planning.bound_query import BoundQuery
from windrow.spark.frames import StreamTypes
from windrow.spark.layout_encoding import stored_layout
from windrow.spark.metrics import COLUMN
from windrow.spark.microbatch import MicroBatch
from windrow.spark.operator_cache import OperatorCache
from windrow.spark.partition_join import JoinKind, SingleQuery
from windrow.spark.partitioning import PartitionLayout, choose_layout
from windrow.spark.routing import in_spark, place_finder
from windrow.spark.shared_partition import QUERY, SharedQueries
from windrow.spark.task import JoinTask
from windrow.spark.task_input import TaskInput
from windrow.state.storage import Storage

NAME = "join"


@dataclass
class PartitionedJoin:
    """One start of a streaming join.

    Parameters
    ----------
    schemas
        By alias.
    query_id
        Of the streaming query.
    """

    query: wr.Query
    schemas: Mapping[str, pa.Schema]
    root: str | Storage
    partitions: int
    partitioning: str | None = None
    skewed_keys: Mapping[str, Any] | None = None
    kind: JoinKind = field(default_factory=SingleQuery)
    name: str = NAME
    query_id: str = "query"
    cache: OperatorCache = field(default_factory=OperatorCache)

    def __post_init__(self) -> None:
        self.run = uuid4().hex
        self.frames = [StreamTypes.of_schema(schema) for schema in self.schemas.values()]
        self.bound = BoundQuery.of(self.query, list(self.schemas.values()))
        skewed = SkewedKeys.parse(self.skewed_keys)
        chosen = choose_layout(self.bound, self.partitions, self.partitioning, skewed)
        self.layout: PartitionLayout = in_spark(chosen, self.frames)
        self.finders = [place_finder(self.bound, self.layout, f, s) for s, f in enumerate(self.frames)]
        self.task = JoinTask(
            query=self.query, schemas=tuple(self.schemas.values()),
            keys=(None,) * len(self.frames), partitions=self.layout.partitions, name=self.name, state="",
            layout=stored_layout(self.layout), places=tuple(self.finders), kind=self.kind,
        )  # fmt: skip

    def process(self, batch: int, call: Mapping[str, pa.Table]) -> list[pa.RecordBatch]:
        """The results of a micro-batch."""
        return [out for p in range(self.layout.partitions) for out in self.partition(batch, p, call)]

    def partition(self, batch: int, partition: int, call: Mapping[str, pa.Table]) -> Iterator[pa.RecordBatch]:
        task, now = self.task.of(partition), MicroBatch(self.query_id, self.run, batch)
        for out in task.run_micro_batch(self.root, now, self._input(partition, call), 0.0, self.cache):
            if out.column(COLUMN).null_count:
                yield out

    def _input(self, partition: int, call: Mapping[str, pa.Table]) -> TaskInput:
        found = TaskInput(partition)
        for stream, (alias, schema) in enumerate(self.schemas.items()):
            table = call.get(alias)
            if table is None or not table.num_rows:
                continue
            rows = table.select(schema.names).cast(schema).combine_chunks().to_batches()[0]
            finder = self.finders[stream]
            starts, places = finder.partitions(rows).listed
            at = np.flatnonzero(places == partition)
            which = np.searchsorted(starts, at, side="right") - 1
            firsts = at == starts[which]
            if self.query.counts_rows:
                order = np.argsort(finder.content(rows)[which], kind="stable")
                which, firsts = which[order], firsts[order]
            if len(which):
                found.rows[stream] = rows.take(pa.array(which))
                if self.layout.replicates:
                    found.firsts[stream] = firsts
        return found


def shared(
    queries: Mapping[str, wr.Query], schemas: Mapping[str, pa.Schema]
) -> list[tuple[wr.Query, SharedQueries]]:
    """The joins that these queries share, each as its query and its kind."""
    found = []
    for group in group_queries(dict(queries)):
        like = next(iter(group.subscriptions.values())).query
        query = base_query(like, WindowTiers.of(s.windows for s in group.subscriptions.values()).largest)
        shown = [(alias, pa.struct(list(schemas[alias]))) for alias in query.kind.result_aliases]
        columns = pa.schema([(QUERY, pa.list_(pa.string())), *shown])
        found.append((query, SharedQueries(dict(group.subscriptions), columns)))
    return found
