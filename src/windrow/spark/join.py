"""`wr.join`: streaming or batch DataFrames in, a DataFrame of the same kind out.

    each stream: slots, stream number, partitions
        -> union -> observe -> repartition -> the join's task -> observe -> results

Every partition runs in every micro-batch, with rows or without: see `beats.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property, reduce
from inspect import signature
from os import PathLike
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from windrow.engine.compile_notice import announce_first_batch
from windrow.engine.late_rows import check_late_rows_names
from windrow.errors import Option, QueryError
from windrow.model.access import Access
from windrow.model.execution import EXECUTION_SETTINGS, SETTINGS, Execution, SkewedKeys, describe
from windrow.model.interval import Interval
from windrow.model.join_kind import INNER
from windrow.model.keywords import checks_keywords
from windrow.model.limits import Deadline, MemoryLimit
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.time_policies import TimePolicy
from windrow.model.query import Function, Query, Window
from windrow.model.settings import documents
from windrow.model.source import quoted
from windrow.planning.bound_query import BoundQuery
from windrow.spark.beats import batch_clock, beats, beats_name
from windrow.spark.completion import complete_micro_batches
from windrow.spark.files.file_stream import FileStream
from windrow.spark.files.packed_rows import packed_rows
from windrow.spark.files.places import PlaceFinder
from windrow.spark.frame_settings import delays_text, errors_text, with_frame_settings
from windrow.spark.frames import (
    MESSAGE,
    Frame,
    check,
    control_messages,
    read_frames,
    result_type,
    session_of,
)
from windrow.spark.layout_encoding import stored_layout
from windrow.spark.memory_pool import MemoryPool
from windrow.spark.metrics import COLUMN, DOCUMENTS, observation_name
from windrow.spark.partition_join import JoinKind, SingleQuery
from windrow.spark.partitioning import PartitionLayout, choose_layout
from windrow.spark.routing import Router, in_spark, place_finder
from windrow.spark.session import context_of
from windrow.spark.task import JoinTask
from windrow.spark.union import AHEAD, CONTENT, COPY, ROUTE, STREAM_BITS, UnionColumns, route
from windrow.spark.worker_python import check_worker_python
from windrow.state.storage import check_reachable


@dataclass(frozen=True)
class PreparedJoin:
    """A join that has been checked and laid out; it prints its layout."""

    name: str
    title: str
    """What is joined, for a reader."""
    join: BoundQuery
    frames: tuple[Frame, ...]
    layout: PartitionLayout
    result: StructType
    """Columns of the result."""
    streaming: bool
    state: str | None
    late_rows: str | None = None
    control: DataFrame | None = None
    pool: MemoryPool | None = None
    kind: JoinKind = field(default_factory=SingleQuery)

    def __str__(self) -> str:
        return f"{self.name}: {self.title}\n{self.partitioning}"

    @property
    def query(self) -> Query:
        return self.join.query

    @property
    def partitioning(self) -> str:
        """The layout, and which streams stay in columns on their way to the partitions."""
        own = [frame.alias for frame in self.frames if isinstance(frame.data, FileStream)]
        return f"{self.layout}\n{in_columns(own)}" if own else str(self.layout)

    @property
    def described(self) -> str:
        """The same, and how late rows may be, for an explanation."""
        late = delays_text(self.query, {frame.alias: frame.data for frame in self.frames})
        return "\n".join(filter(None, (self.partitioning, late, errors_text(self.join))))

    @property
    def parallel_tasks(self) -> int:
        """Number of tasks that run at the same time. Spark Connect does not report it: then all of them."""
        context = context_of(session_of(self.frames[0].data))
        return self.layout.partitions if context is None else int(context.defaultParallelism)

    @cached_property
    def _union(self) -> UnionColumns:
        keeps_ahead, has_control = self.late_rows is not None, self.control is not None
        return UnionColumns.of(self.query, self.frames, self.layout.replicates, has_control, keeps_ahead)

    @cached_property
    def _finders(self) -> tuple[PlaceFinder, ...]:
        return tuple(place_finder(self.join, self.layout, f, s) for s, f in enumerate(self.frames))

    def frame(self) -> DataFrame:
        """The results."""
        task, sources = self._task(), [self._rows(stream) for stream in range(len(self.frames))]
        if self.control is not None:
            sources.append(self._control_messages(self.control))
        if self.streaming:
            name = beats_name(self.name, task.token)
            sources.append(beats(name, self.layout.partitions, sources[0], self._union.clock))
            complete_micro_batches(task, sources[0])
        rows = reduce(DataFrame.union, sources)
        # An explicit number keeps adaptive execution from changing it; the row holds its partition.
        partitioned = rows.repartitionById(self.layout.partitions, sf.shiftright(ROUTE, STREAM_BITS))
        # A row of results, or one that carries metrics and is null in all columns of the result.
        either = StructType([*self.result.fields, StructField(COLUMN, StringType(), True)])
        joined = partitioned.mapInArrow(task.run, either)
        observed = joined.observe(observation_name(self.name), sf.collect_list(COLUMN).alias(DOCUMENTS))
        return observed.where(sf.col(COLUMN).isNull()).drop(COLUMN)

    def _task(self) -> JoinTask:
        """The task for the workers."""
        streams = range(len(self.frames))
        keyed = next((cut for cut in self.layout.dimensions if cut.kind == "key"), None)
        return JoinTask(
            query=self.query,
            schemas=self.join.schemas,
            keys=tuple(keyed.placements[s].column if keyed else None for s in streams),
            partitions=self.layout.partitions,
            name=self.name,
            state=self.state,
            layout=stored_layout(self.layout),
            places=self._finders,
            pool=self.pool,
            parallel_tasks=self.parallel_tasks,
            union=self._union,
            kind=self.kind,
            late_rows=self.late_rows,
        )

    def _control_messages(self, control: DataFrame) -> DataFrame:
        """Control documents in the union's columns, a copy for every partition."""
        columns = self._union.of_text(MESSAGE)
        if self._union.ordered:
            columns.append(sf.lit(0).cast("bigint").alias(CONTENT))
        routes = [route(sf.lit(p), sf.lit(len(self.frames))) for p in range(self.layout.partitions)]
        if self._union.copied:
            return control.select(*columns, sf.posexplode(sf.array(*routes)).alias(COPY, ROUTE))
        return control.select(*columns, sf.explode(sf.array(*routes)).alias(ROUTE))

    def _rows(self, stream: int) -> DataFrame:
        """One stream's rows in the union's columns, one copy per partition that needs it."""
        frame, union = self.frames[stream], self._union
        latest = self._latest(frame)
        if isinstance(frame.data, FileStream):
            # A late row is kept as it came, and its source partition decides whether it is late.
            whole = self.late_rows is not None or self.query.streams[frame.alias].source_partition is not None
            return packed_rows(self.join, self.layout, frame, self._finders[stream], union, latest, whole)
        number = sf.lit(stream)
        if latest is not None:
            far = sf.col(quoted(self.query.streams[frame.alias].time)) > latest
            number = sf.when(far, sf.lit(stream + AHEAD)).otherwise(number)
        router = Router(self._finders[stream], frame, union.copied)
        columns = union.of_stream(stream, frame)
        if union.ordered:
            columns.append(router.content().alias(CONTENT))
        rows, partitions = router.rows(), router.partitions()
        if union.copied:
            routes = sf.transform(partitions, lambda partition: route(partition, number))
            return rows.select(*columns, sf.posexplode(routes).alias(COPY, ROUTE))
        return rows.select(*columns, route(partitions, number).alias(ROUTE))

    def _latest(self, frame: Frame) -> sf.Column | None:
        """The latest time that is not too far ahead, in the type of the frame's times; None if any is.

        A streaming row may be at most `ahead` of the micro-batch's clock. Spark keeps the clock in its offset
        log, so a replay decides the same.
        """
        bound = self.query.head_start
        if not self.streaming or bound is None:
            return None
        latest = sf.timestamp_micros(sf.unix_micros(batch_clock()) + sf.lit(bound))
        return latest.cast(frame.type_of(self.query.streams[frame.alias].time))


def prepare(
    frames: Mapping[str, DataFrame | FileStream],
    query: Query,
    execution: Execution | None = None,
    control: DataFrame | None = None,
    pool: MemoryPool | None = None,
) -> PreparedJoin:
    """Check a query against the frames' schemas and choose how rows are partitioned."""
    run = execution or Execution()
    if set(query.aliases) != set(frames):
        raise QueryError(f"expected {list(query.aliases)}, got {list(frames)}", Option("frames"))
    streams, streaming = read_frames({alias: frames[alias] for alias in query.aliases})
    session = session_of(streams[0].data)
    check_worker_python(session)
    query = with_frame_settings(query, frames, session)
    if run.late_rows is not None:
        check_late_rows_names(query)
        if not streaming:
            raise QueryError(
                "rows of batch frames are never late, so none would be kept; leave it out, or read streams",
                Option("late_rows"),
            )
    if pool is not None and query.disk_limit is not None:
        raise QueryError(
            "a pool divides memory by what each join loses without it, and a join that spills loses nothing; "
            "give the join memory of its own, or leave disk out",
            Option("disk"),
        )
    if control is not None:
        control = control_messages(control, streaming)
    if query.time_limit is not None and query.time_policy.buffer_rows is not None:
        raise QueryError(
            f"{query.time_policy} lets rows wait for the next micro-batch if there was no time for them; "
            "on Spark a batch that is run again would leave others waiting, and results would be returned "
            "twice; leave buffer_rows= out",
            Option("shed"),
        )
    join = check(query, streams)
    if streaming and not run.state:
        raise QueryError(
            "a join of streams needs a directory for its windows; give state='path or URL' that all "
            "executors reach and that outlives the query, for example beside its checkpoint",
            Option("state"),
        )
    if streaming and run.state and context_of(session) is not None:
        check_reachable(run.state)
    default = session.conf.get("spark.sql.shuffle.partitions")
    partitions = run.partitions or int(default or 1)
    layout = in_spark(choose_layout(join, partitions, run.partitioning, run.skewed), streams)
    return PreparedJoin(
        name=run.name or "_".join(query.aliases),
        title=join.predicate.sql,
        join=join,
        frames=streams,
        layout=layout,
        result=result_type(query, streams),
        streaming=streaming,
        state=run.state if streaming else None,
        late_rows=run.late_rows,
        control=control,
        pool=pool,
    )


@checks_keywords("wr.join")
@documents(SETTINGS)
def join(
    frames: Mapping[str, DataFrame | FileStream],
    query: Query | str | None = None,
    time: str | Mapping[str, str] | None = None,
    within: str | timedelta | Window | Mapping[str, str | timedelta | Window] | None = None,
    *,
    on: str | None = None,
    access: str | Access | Mapping[str, str | Access | None] | None = None,
    source_partition: str | Mapping[str, str] | None = None,
    late: str | timedelta | int | Mapping[str, str | timedelta | int] = "0 seconds",
    idle: str | timedelta | int | None = None,
    ahead: str | timedelta | int | None = "1 day",
    memory: str | int | MemoryLimit | MemoryPool | None = None,
    disk: str | int | MemoryLimit | None = None,
    deadline: str | timedelta | Deadline | None = None,
    shed: str | MemoryPolicy | TimePolicy | tuple[str | MemoryPolicy, str | TimePolicy] = "auto",
    evaluate: str | Interval | None = None,
    expire: str | Interval | None = None,
    order: str | tuple[str, ...] | Mapping[str, tuple[str, ...]] = "heuristic",
    algorithm: str = "eager",
    replan_factor: float = 2.0,
    allow_cross_join: bool = False,
    functions: Mapping[str, Function | Callable[..., Any]] | None = None,
    seed: int = 0,
    how: str | Mapping[str, str] = INNER,
    match: Mapping[str, str] | None = None,
    on_error: str | None = None,
    nan: str = "spark",
    partitions: int | None = None,
    state: str | PathLike[str] | None = None,
    name: str | None = None,
    partitioning: str | None = None,
    skewed_keys: Mapping[str, Any] | SkewedKeys | None = None,
    late_rows: str | PathLike[str] | None = None,
    control: DataFrame | None = None,
) -> DataFrame:
    """Join Spark DataFrames over sliding windows; returns a DataFrame with a struct column per stream.

    Streams in, a stream out; or batches in, a batch out with the same rows. Mistakes in the query are refused
    here, before any data is read.

    The delay of a watermark on an input frame is taken as `late` of its stream; one that differs from
    `late`, or is on another column than `time`, is refused. Spark allows only one watermark per query: to set
    one on the result, give `late` instead.

    Parameters
    ----------
    frames
        Alias to DataFrame, or to files (`wr.files`), in the order of the result's columns.
    query
        A whole `Query`, in place of the settings of a query and its streams below; or its predicate.
    on
        A SQL predicate over the aliases, if it is not given as `query`.
    time
        Name of the event time column, a timestamp: one for all streams, or a mapping by alias.
    within
        The window: "5 minutes", "1000 rows" or "100 rows per key"; for all streams, or a mapping by alias.
    memory
        What the windows of all partitions may hold together: "256 MiB", "100000 rows"; a `MemoryPool` that
        several joins share; or None for no limit.
    {options}
    control
        A DataFrame of the frames' kind with a text column `value`: changes to the running query, as in
        `Operator.control`. A refused one is skipped, with the reason in the metrics.

    Examples
    --------
    >>> joined = wr.join({"a": auctions, "b": bids}, on="a.id = b.auction_id", time="at",
    ...     within="5 minutes", state="/data/state")                                    # doctest: +SKIP
    """
    given = {name: value for name, value in locals().items() if name in SETTINGS}
    pool = memory if isinstance(memory, MemoryPool) else None
    given |= {"memory": memory if pool is None else pool.limit, "functions": functions or {}}
    if not isinstance(frames, Mapping):
        raise QueryError(
            "expected DataFrames by alias: wr.join({'a': auctions, 'b': bids}, on='a.id = b.auction_id', "
            f"time='at', within='5 minutes'), got {type(frames).__name__}",
            Option("frames"),
        )
    if query is None or isinstance(query, str):
        query, execution = describe(list(frames), given | {"on": on if query is None else query})
    else:
        execution = _beside(query, given, pool)
        query = query if pool is None else replace(query, memory=pool.limit)
    prepared = prepare(frames, query, execution, control, pool)
    announce_first_batch()
    return prepared.frame()


def _beside(query: Query, given: Mapping[str, Any], pool: MemoryPool | None) -> Execution:
    """Execution settings given next to a query; all other settings belong in the query."""
    if not isinstance(query, Query):
        raise QueryError(f"expected wr.Query(...) or a SQL predicate, got {query!r}", Option("query"))
    defaults = {p.name: p.default for p in signature(join).parameters.values()} | {"functions": {}}
    for name, value in given.items():
        if name not in EXECUTION_SETTINGS and value != defaults[name] and not (pool and name == "memory"):
            raise QueryError(
                f"is part of the query; use dataclasses.replace(query, {name}=...)", Option(name)
            )
    return Execution(**{name: given[name] for name in EXECUTION_SETTINGS})


def in_columns(aliases: Sequence[str]) -> str:
    """What a plan says of streams of files."""
    return f"  {', '.join(aliases)}: files that Windrow reads, in columns all the way"
