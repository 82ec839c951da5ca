"""One stream of files in the union: blobs of rows, each with its partition."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from sqlglot import exp

from windrow.expr.evaluate import can_fail, evaluate
from windrow.expr.failures import Failure
from windrow.expr.join_columns import encoded_column
from windrow.expr.parse import Reference, references
from windrow.expr.values import as_mask
from windrow.planning.bound_query import BoundQuery
from windrow.spark.files.file_stream import LATEST, FileStream
from windrow.spark.files.pack_task import PackTask
from windrow.spark.files.places import PlaceFinder
from windrow.spark.frames import Frame
from windrow.spark.partitioning import PartitionLayout
from windrow.spark.union import UnionColumns


def packed_rows(
    join: BoundQuery,
    layout: PartitionLayout,
    frame: Frame,
    finder: PlaceFinder,
    union: UnionColumns,
    latest: Column | None,
    whole: bool,
) -> DataFrame:
    """The stream's rows in the union's columns. Rows later than `latest` are too far ahead. If `whole`, rows
    that no result can contain are also sent with all columns."""
    files, stream = frame.data, finder.stream
    assert isinstance(files, FileStream)
    time = join.query.streams[frame.alias].time
    zone = str(files.session.conf.get("spark.sql.session.timeZone"))
    task = PackTask(
        reader=files.reader(frame.arrow, zone),
        finder=finder,
        union=union,
        partitions=layout.partitions,
        copies=layout.most_copies(stream),
        filtered=join if not whole and recognises_nulls(join, stream, time) else None,
    )
    names = files.names if latest is None else files.names.withColumn(LATEST, latest)
    return names.mapInArrow(task.run, union.schema)


def recognises_nulls(join: BoundQuery, stream: int, time: str) -> bool:
    """Whether rows that fail a condition on their stream can be sent as times alone.

    The join must still leave them out when all other columns are null, and no expression may fail on the
    nulls. Rows that a window counts, that an outer join returns without a match, or that a deadline sheds are
    sent whole.
    """
    query = join.query
    filters = [f.node for f in join.predicate.filters if f.stream == stream]
    if not filters or query.counts_rows or join.shapes or query.time_limit is not None or join.functions:
        return False
    schema = join.schemas[stream]

    def nulls(node: exp.Expr) -> dict[Reference, pa.Array] | None:
        """Nulls for the columns of an expression; None if it refers to the time."""
        needed = references(node)
        if any(name == time for _, name in needed):
            return None
        return {key: pa.nulls(1, schema.field(key[1]).type) for key in needed}

    join_columns = [*join.join_columns[stream], *join.sets[stream]]
    for node in filter(can_fail, [*filters, *(column.node for column in join_columns)]):
        given, failures = nulls(node), list[Failure]()
        if given is None:
            return False
        evaluate(node, given, 1, {}, failures)
        if failures:
            return False
    for node in filters:
        if (given := nulls(node)) is not None and not np.any(as_mask(evaluate(node, given, 1, {}))):
            return True
    for column in join.join_columns[stream]:
        given = nulls(column.node)
        if given is not None and column.kind != "set":
            valid = encoded_column(column, given, 1, {})[1]
            if valid is not None and not valid[0]:
                return True
    return False
