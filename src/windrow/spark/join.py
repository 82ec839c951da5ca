"""`wr.join`: streaming or batch DataFrames in, a DataFrame of the same kind out.

    each stream: slots, stream number, partitions
        -> union -> observe -> repartition -> the join's task -> observe -> results

Every partition takes part in every micro-batch, rows or not: see `_beats`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from windrow.engine.join import Join
from windrow.errors import QueryError, unknown
from windrow.model.access import Access
from windrow.model.interval import Interval
from windrow.model.join_kind import INNER
from windrow.model.limits import Deadline, MemoryLimit
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.time_policies import TimePolicy
from windrow.model.query import AHEAD as ONE_DAY
from windrow.model.query import Function, Query, Stream, Window
from windrow.spark.frames import (
    DOCUMENT,
    Frame,
    UnionColumns,
    check,
    control_documents,
    quoted,
    read_frames,
    result_type,
)
from windrow.spark.grid import SkewedKeys
from windrow.spark.memory_pool import MemoryPool
from windrow.spark.metrics import COLUMN, DOCUMENTS, beats_name, observation_name
from windrow.spark.partitioning import PartitionLayout, choose_layout
from windrow.spark.routing import Router, described
from windrow.spark.task import JoinTask
from windrow.spark.task_input import AHEAD, BEAT, CONTENT, COPY, ROUTE, STREAM_BITS

Value = TypeVar("Value")
_empty: WeakKeyDictionary[SparkSession, DataFrame] = WeakKeyDictionary()


@dataclass(frozen=True)
class PreparedJoin:
    """A join that has been checked and laid out; it prints its layout."""

    query: Query
    frames: tuple[Frame, ...]
    streaming: bool
    join: Join
    layout: PartitionLayout
    name: str
    state: str | None
    control: DataFrame | None = None
    pool: MemoryPool | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.join.predicate.sql}\n{self.layout}"

    def frame(self) -> DataFrame:
        slots = UnionColumns.of(self.frames, with_text=self.control is not None)
        task, kind = self.task(slots)
        sources = self._sources(slots)
        if self.streaming:
            sources.append(self._beats(sources[0]))
        rows = reduce(DataFrame.union, sources)
        # The number is stated, so adaptive execution leaves it alone; the partition stands in the row.
        dealt = rows.repartitionById(self.layout.partitions, sf.shiftright(ROUTE, STREAM_BITS))
        joined = dealt.mapInArrow(task.run, kind)
        observed = joined.observe(observation_name(self.name), sf.collect_list(COLUMN).alias(DOCUMENTS))
        return observed.where(sf.col(COLUMN).isNull()).drop(COLUMN)

    def task(self, slots: UnionColumns) -> tuple[JoinTask, StructType]:
        """What runs in the workers, and the type of the rows that come out."""
        task = JoinTask(
            query=self.query,
            schemas=tuple(frame.arrow for frame in self.frames),
            union_columns=slots.taken,
            text=slots.text,
            pool=self.pool,
            keys=self._keys(),
            partitions=self.layout.partitions,
            name=self.name,
            state=self.state,
            layout=described(self.layout, self.frames),
            parallel_tasks=tasks_at_once(self),
        )
        return task, result_type(self.query, self.frames, COLUMN)

    def _sources(self, slots: UnionColumns) -> list[DataFrame]:
        found = [self._rows(slots, s) for s in range(len(self.frames))]
        if self.control is not None:
            found.append(self._control_messages(slots))
        return found

    def _control_messages(self, slots: UnionColumns) -> DataFrame:
        """Control documents as the union has them, a copy for every partition."""
        assert self.control is not None
        columns = [sf.lit(None).cast(kind).alias(f"slot{slot}") for slot, kind in enumerate(slots.types)]
        columns[slots.text] = sf.col(DOCUMENT).alias(f"slot{slots.text}")
        extra = [sf.lit(0).cast("bigint").alias(CONTENT)] if self.query.counts_rows else []
        routes = [_route(sf.lit(p), sf.lit(len(self.frames))) for p in range(self.layout.partitions)]
        if self.layout.replicates:
            return self.control.select(*columns, *extra, sf.posexplode(sf.array(*routes)).alias(COPY, ROUTE))
        return self.control.select(*columns, *extra, sf.explode(sf.array(*routes)).alias(ROUTE))

    def _rows(self, slots: UnionColumns, stream: int) -> DataFrame:
        """One stream's rows as the union has them, each as often as partitions need it."""
        frame = self.frames[stream]
        number = self._number(frame, stream)
        router = Router(self.layout, self.frames, stream, self.join.functions)
        columns = slots.columns(frame, stream)
        if self.query.counts_rows:
            columns.append(router.content().alias(CONTENT))
        rows, partitions = router.rows(), router.partitions()
        if self.layout.replicates:
            routes = sf.transform(partitions, lambda partition: _route(partition, number))
            return rows.select(*columns, sf.posexplode(routes).alias(COPY, ROUTE))
        return rows.select(*columns, _route(partitions, number).alias(ROUTE))

    def _number(self, frame: Frame, stream: int) -> sf.Column:
        """Of a row's stream, as routes have it. In a stream a row may not be further than `ahead` beyond the
        clock of the micro-batch, which Spark keeps in its offset log: a replay decides the same."""
        bound = self.query.head_start
        if not self.streaming or bound is None:
            return sf.lit(stream)
        latest = sf.timestamp_micros(sf.unix_micros(sf.current_timestamp()) + sf.lit(bound))
        far = sf.col(quoted(self.query.streams[frame.alias].time)) > latest
        return sf.when(far, sf.lit(stream + AHEAD)).otherwise(sf.lit(stream))

    def _beats(self, like: DataFrame) -> DataFrame:
        """A row for every partition in every micro-batch, though nothing new is ever read for them.

        Only a stream can be united with streams, so they grow out of one that has no rows. `coalesce` makes
        one partition even of an empty frame, and `mapInArrow` runs on it. Were it not for `observe`, Spark
        would plan an empty frame away with all that stands above it.
        """
        kinds = to_arrow_schema(like.schema, timezone="UTC")
        routes = [p << STREAM_BITS | BEAT for p in range(self.layout.partitions)]

        def emit(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in batches:
                pass
            filled = {ROUTE: routes, COPY: [0] * len(routes), CONTENT: [0] * len(routes)}
            columns = [pa.array(filled.get(f.name, [None] * len(routes)), f.type) for f in kinds]
            yield pa.RecordBatch.from_arrays(columns, kinds.names)

        empty = _empty_stream(like.sparkSession)
        observed = empty.observe(beats_name(self.name), sf.count(sf.lit(1)).alias("rows"))
        return observed.coalesce(1).mapInArrow(emit, like.schema)

    def _keys(self) -> tuple[Any, ...]:
        keyed = next((cut for cut in self.layout.dimensions if cut.kind == "key"), None)
        return tuple(keyed.placements[s].column if keyed else None for s in range(len(self.frames)))


def prepare(
    frames: Mapping[str, DataFrame],
    query: Query,
    partitions: int | None = None,
    state: str | None = None,
    name: str | None = None,
    partitioning: str | None = None,
    spread: Mapping[str, Any] | SkewedKeys | None = None,
    control: DataFrame | None = None,
    memory: object = None,
) -> PreparedJoin:
    """Checks a query against the frames' schemas and decides how rows are partitioned."""
    missing = [alias for alias in query.aliases if alias not in frames]
    if missing or len(frames) != len(query.aliases):
        raise QueryError(f"frames: expected {list(query.aliases)}, got {list(frames)}")
    described, streaming = read_frames({alias: frames[alias] for alias in query.aliases})
    if control is not None:
        control = control_documents(control, streaming)
    if query.time_limit is not None and query.time_policy.buffer is not None:
        raise QueryError(
            f"shed: {query.time_policy} lets rows wait for the next micro-batch if there was no time for "
            "them; on Spark a batch that is run again would leave others waiting, and results would come "
            "twice; leave buffer= out"
        )
    join = check(query, described)
    if streaming and not state:
        raise QueryError(
            "state: a join of streams needs a directory for its windows; pass state='path or URL' that all "
            "executors reach and that outlives the query, for example beside its checkpoint"
        )
    if partitions is None:
        partitions = int(described[0].data.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    if not isinstance(partitions, int) or partitions < 1:
        raise QueryError(f"partitions: expected a number from 1, got {partitions!r}")
    layout = choose_layout(
        query, join.predicate, join.classes, partitions, partitioning, SkewedKeys.parse(spread)
    )
    return PreparedJoin(
        query,
        described,
        streaming,
        join,
        layout,
        name or "_".join(query.aliases),
        state if streaming else None,
        control,
        memory if isinstance(memory, MemoryPool) else None,
    )


def join(
    frames: Mapping[str, DataFrame],
    on: str,
    time: str | Mapping[str, str],
    within: str | timedelta | Window | Mapping[str, str | timedelta | Window],
    late: str | timedelta | int = "0 seconds",
    idle: str | timedelta | int | None = None,
    ahead: str | timedelta | int | None = ONE_DAY,
    memory: str | int | MemoryLimit | MemoryPool | None = None,
    deadline: str | timedelta | Deadline | None = None,
    shed: str | MemoryPolicy | TimePolicy | tuple[str | MemoryPolicy, str | TimePolicy] = "auto",
    partitions: int | None = None,
    state: str | None = None,
    name: str | None = None,
    evaluate: str | Interval | None = None,
    expire: str | Interval | None = None,
    order: str | tuple[str, ...] | Mapping[str, tuple[str, ...]] = "heuristic",
    algorithm: str = "eager",
    cross: bool = False,
    functions: Mapping[str, Function | Callable[..., Any]] | None = None,
    access: str | Access | Mapping[str, str | Access | None] | None = None,
    partitioning: str | None = None,
    spread: Mapping[str, Any] | SkewedKeys | None = None,
    seed: int = 0,
    control: DataFrame | None = None,
    how: str | Mapping[str, str] = INNER,
    match: Mapping[str, str] | None = None,
) -> DataFrame:
    """Joins Spark DataFrames over sliding windows: a DataFrame with a struct column per stream.

    Streams in, a stream out; or batches in, a batch out with the same rows. Everything wrong with the query
    is told here, before any data is read.

    `late` does here what a watermark does elsewhere; set watermarks on the result, since Spark allows a query
    only one.

    Parameters
    ----------
    frames
        Alias to DataFrame, in the order of the result's columns.
    on
        A SQL predicate over the aliases.
    time, within, access
        As in `Stream`: one for all streams, or a mapping by alias.
    memory
        As in `Query`, for all partitions together; or a `MemoryPool` that several joins share.
    deadline
        Time that the join may take in a micro-batch, such as "2 seconds", or the rate to keep up with, such
        as "50000 rows/s". What is left out is told by the metrics.
    late, idle, ahead, shed, evaluate, expire, order, algorithm, cross, functions, seed, how, match
        As in `Query`.
    partitions
        How many tasks share the work; by default Spark's `spark.sql.shuffle.partitions`. A running query
        must keep its number.
    state
        Directory or URL for the windows of streams; every executor must reach it.
    name
        Of this join: names its state and its metrics, and must be unique within a streaming query. By
        default the aliases.
    partitioning
        "key", "range", "range(width of a cell)", "grid" or "one"; None leaves it to the planner.
    spread
        {"key": [values], "ways": n}: these values of the key are spread over n partitions each.
    control
        A DataFrame of the frames' kind with a text column `document`: changes to the running query, as in
        `Operator.control`. One that is not understood is left out, with the reason in the metrics.

    Examples
    --------
    >>> joined = wr.join({"a": auctions, "b": bids}, on="a.id = b.auction_id", time="at",
    ...     within="5 minutes", state="/data/state")                                    # doctest: +SKIP
    """
    aliases = list(frames)
    streams = {
        alias: Stream(
            _of("time", time, alias, aliases),
            _of("within", within, alias, aliases),
            _of("access", access, alias, aliases, optional=True),
        )
        for alias in aliases
    }
    query = Query(
        streams=streams,
        on=on,
        late=late,
        idle=idle,
        ahead=ahead,
        memory=memory.limit if isinstance(memory, MemoryPool) else memory,
        deadline=deadline,
        shed=shed,
        evaluate=evaluate,
        expire=expire,
        order=order,
        algorithm=algorithm,
        cross=cross,
        functions=functions or {},
        seed=seed,
        how=how,
        match=match,
    )
    return prepare(frames, query, partitions, state, name, partitioning, spread, control, memory).frame()


def tasks_at_once(prepared: PreparedJoin) -> int:
    """How many tasks run side by side, as far as Spark says; where it does not, all of them."""
    try:
        return int(prepared.frames[0].data.sparkSession.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no context to ask, and says so in several ways
        return prepared.layout.partitions


def _empty_stream(spark: SparkSession) -> DataFrame:
    """Files of a pattern that matches none; Spark asks for no directory where a path is a pattern. One
    frame per session, so that it is one source of a query however many joins the query has."""
    if spark not in _empty:
        _empty[spark] = spark.readStream.schema("value string").text("file:///windrow-without-rows-*/*")
    return _empty[spark]


def _route(partition: sf.Column, stream: sf.Column) -> sf.Column:
    return sf.shiftleft(partition, STREAM_BITS) + stream


def _of(
    what: str, given: Value | Mapping[str, Value], alias: str, aliases: list[str], optional: bool = False
) -> Any:
    """A setting of one stream, from one for all or a mapping by alias."""
    if not isinstance(given, Mapping):
        return given
    for named in given:
        if named not in aliases:
            raise QueryError(f"{what}: {unknown('stream', str(named), aliases)}")
    if alias not in given and not optional:
        raise QueryError(f"{what}: stream '{alias}' is missing; give one for each of {aliases}")
    return given.get(alias)
