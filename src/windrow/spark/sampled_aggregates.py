"""Aggregates of a sampled join on Spark: groups collect the sampled rows, and `estimate` aggregates them.

The rows of a group form one list. The interval depends on the variance between clusters, so all clusters of a
group must be in one place, regardless of their micro-batch and partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from windrow.engine.result_builder import CLUSTER, WEIGHT
from windrow.engine.sampled_aggregates import Aggregate as Estimated
from windrow.engine.sampled_aggregates import estimate
from windrow.sql_frontend.statement import Aggregate, aggregate_column

SAMPLE = "_sample"
ESTIMATED = ("count", "sum", "avg")
BOUNDS = ("_low", "_high")


def gathered(aggregates: Sequence[Aggregate]) -> list[Column]:
    """The columns of a group after its keys: the list of sampled rows, then minima and maxima, which need no
    estimate."""
    values = [
        _value(a).alias(aggregate_column(n)) for n, a in enumerate(aggregates) if a.function in ESTIMATED
    ]
    rows = sf.collect_list(sf.struct(sf.col(WEIGHT), sf.col(CLUSTER), *values)).alias(SAMPLE)
    extremes = [
        sf.expr(a.sql).alias(aggregate_column(n))
        for n, a in enumerate(aggregates)
        if a.function not in ESTIMATED
    ]
    return [rows, *extremes]


def _value(aggregate: Aggregate) -> Column:
    if aggregate.value is None:
        return sf.lit(1.0)
    if aggregate.function == "count":
        return sf.when(sf.expr(aggregate.value).isNotNull(), sf.lit(1.0))
    return sf.expr(aggregate.value).cast("double")


@dataclass(frozen=True)
class EstimateColumns:
    """Replaces the list of sampled rows by estimate, low and high of each aggregate.

    A minimum has no low, because the sample may miss a smaller value. A maximum has no high.
    """

    aggregates: tuple[Aggregate, ...]
    confidence: float

    def schema(self, groups: st.StructType) -> st.StructType:
        keys = groups.fields[: groups.names.index(SAMPLE)]
        figures = []
        for n, a in enumerate(self.aggregates):
            name = aggregate_column(n)
            kind = st.DoubleType() if a.function in ESTIMATED else groups[name].dataType
            figures += [st.StructField(name + bound, kind, True) for bound in ("", *BOUNDS)]
        return st.StructType([*keys, *figures])

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs in the Python worker. Each row is a group."""
        for batch in batches:
            names = batch.schema.names[: batch.schema.get_field_index(SAMPLE)]
            columns = batch.columns[: len(names)]
            for n, a in enumerate(self.aggregates):
                columns += self._figures(n, a, batch)
                names += [aggregate_column(n) + bound for bound in ("", *BOUNDS)]
            yield pa.RecordBatch.from_arrays(columns, names)

    def _figures(self, number: int, aggregate: Aggregate, batch: pa.RecordBatch) -> list[pa.Array]:
        name = aggregate_column(number)
        if aggregate.function not in ESTIMATED:
            seen = batch.column(name)
            none = pa.nulls(len(seen), seen.type)
            return [seen, none, seen] if aggregate.function == "min" else [seen, seen, none]
        lists = batch.column(SAMPLE)
        rows = pc.list_flatten(lists)
        group = pc.list_parent_indices(lists)
        moment = pa.array([0] * len(rows), pa.timestamp("us"))
        streams = pa.StructArray.from_arrays(
            [pc.struct_field(rows, name), group, moment], ["value", "group", "moment"]
        )
        table = pa.table(
            {"s": streams, WEIGHT: pc.struct_field(rows, WEIGHT), CLUSTER: pc.struct_field(rows, CLUSTER)}
        )
        # Every group has at least one row, so `estimate` returns all groups, ordered by number.
        figures = estimate(
            table,
            "s.value",
            cast(Estimated, aggregate.function),
            time="s.moment",
            window="1 day",
            group_by="s.group",
            confidence=self.confidence,
        )
        return [figures[column].combine_chunks() for column in ("estimate", "low", "high")]
