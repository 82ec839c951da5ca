"""Completes the micro-batches that `foreachBatch` reads only in part.

Every partition of a join takes part in every micro-batch. A file or Kafka sink runs all of them. A function
of `foreachBatch` need not: `frame.show()` and `frame.take(1)` run some, and a function that ignores its frame
runs none. So when the function has returned and partitions are missing, the whole frame is run once more,
before Spark records the micro-batch as done. If the driver dies in between, Spark repeats the micro-batch.

PySpark has no hook at this point, therefore `DataStreamWriter.foreachBatch` is wrapped in this process. The
plan of a frame shows the joins that it derives from; the function of a frame without any is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, wraps
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter

from windrow.errors import QueryError
from windrow.spark.beats import beats_name
from windrow.spark.microbatch import MicroBatch, micro_batch
from windrow.spark.operator_cache import OperatorCache
from windrow.spark.task import JoinTask
from windrow.state.paths import JoinId
from windrow.state.runs import Version
from windrow.state.storage import open_storage

BatchFunction = Callable[[DataFrame, int], Any]
FOREACH_BATCH = "foreachBatch"

_joins: dict[str, JoinTask] = {}
"""The streaming joins of this process, by the names of their observations of beats."""
_cache = OperatorCache()
"""Commit logs that the driver reads."""


def complete_micro_batches(join: JoinTask, source: DataFrame) -> None:
    """From now on, micro-batches of this join are completed if `foreachBatch` reads them in part. Over Spark
    Connect, `foreachBatch` is refused."""
    _joins[beats_name(join.name, join.token)] = join
    writer: Any = type(source.writeStream)
    _wrap_foreach_batch(writer)


@cache
def _wrap_foreach_batch(writer: Any) -> None:
    original = getattr(writer, FOREACH_BATCH)

    @wraps(original)
    def foreach_batch(self: DataStreamWriter, func: BatchFunction) -> DataStreamWriter:
        joins = _joins_in(self)
        if joins and not isinstance(self, DataStreamWriter):
            raise QueryError(
                "foreachBatch over Spark Connect does not pass the micro-batch to tasks, so results would "
                "not be exactly once; write to a sink (format(...).start()), or run the job on the cluster"
            )
        for join in joins:
            # The driver reads the commit log there. Fail now, not after the first micro-batch, if it cannot.
            open_storage(str(join.state)).names("")
        return original(self, _completing(func, joins) if joins else func)

    setattr(writer, FOREACH_BATCH, foreach_batch)


def _joins_in(writer: Any) -> list[JoinTask]:
    """The joins that the frame to write derives from."""
    if isinstance(writer, DataStreamWriter):
        observed = set(_observations(writer._df._jdf.queryExecution().analyzed()))
        return [join for name, join in _joins.items() if name in observed]
    plan = writer._write_stream.command(writer._session.client).SerializeToString()
    return [join for name, join in _joins.items() if name.encode() in plan]


def _observations(plan: Any) -> Iterator[str]:
    """The names of all observations in a Spark plan."""
    if plan.nodeName() == "CollectMetrics":
        yield plan.name()
    children = plan.children()
    for number in range(children.size()):
        yield from _observations(children.apply(number))


def _completing(function: BatchFunction, joins: Sequence[JoinTask]) -> BatchFunction:
    @wraps(function)
    def run(frame: DataFrame, batch: int) -> None:
        now = micro_batch(frame.sparkSession.sparkContext)
        function(frame, batch)
        if not all(_is_complete(join, now) for join in joins):
            # Runs every task of the frame. Spark reuses earlier work up to the last shuffle, and a task that
            # has committed does the same work again.
            frame.count()

    return run


def _is_complete(join: JoinTask, now: MicroBatch) -> bool:
    assert join.state is not None
    scope = JoinId(now.query, join.name)
    log = _cache.log(join.token, join.state, scope, join.partitions, join.layout)
    return log.is_complete(Version(now.batch, now.run))
