"""`wr.join`: streaming or batch DataFrames in, a DataFrame of the same kind out.

    each stream: slots, stream number, partitions
        -> union -> observe -> repartition -> the join's task -> observe -> results

Every partition runs in every micro-batch, with rows or without: see `beats.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import reduce
from inspect import signature
from os import PathLike
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

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
from windrow.planning.bound_query import BoundQuery
from windrow.spark.beats import batch_clock, beats
from windrow.spark.completion import complete_micro_batches
from windrow.spark.files.file_stream import FileStream
from windrow.spark.files.packed_rows import packed_rows, place_finder
from windrow.spark.frame_watermarks import delays_text, with_frame_watermarks
from windrow.spark.frames import (
    MESSAGE,
    Frame,
    UnionColumns,
    check,
    control_documents,
    quoted,
    read_frames,
    result_type,
    session_of,
)
from windrow.spark.memory_pool import MemoryPool
from windrow.spark.metrics import COLUMN, DOCUMENTS, beats_name, observation_name
from windrow.spark.partitioning import PartitionLayout, choose_layout
from windrow.spark.routing import Router, described
from windrow.spark.session import context_of
from windrow.spark.session_rules import errors_text, with_session_rules
from windrow.spark.task import JoinTask
from windrow.spark.task_input import AHEAD, CONTENT, COPY, ROUTE, STREAM_BITS
from windrow.spark.worker_python import check_worker_python
from windrow.state.storage import check_reachable


@dataclass(frozen=True)
class PreparedJoin:
    """A join that has been checked and laid out; it prints its layout."""

    query: Query
    frames: tuple[Frame, ...]
    streaming: bool
    join: BoundQuery
    layout: PartitionLayout
    name: str
    state: str | None
    control: DataFrame | None = None
    pool: MemoryPool | None = None
    late_rows: str | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.join.predicate.sql}\n{self.partitioning}"

    @property
    def partitioning(self) -> str:
        """The layout, and which streams stay in columns on their way to the partitions."""
        own = [frame.alias for frame in self.frames if isinstance(frame.data, FileStream)]
        return f"{self.layout}\n{in_columns(own)}" if own else str(self.layout)

    @property
    def described(self) -> str:
        """The same, and how late rows may be, for an explanation."""
        frames = {f.alias: f.data for f in self.frames if not isinstance(f.data, FileStream)}
        late = delays_text(self.query, frames)
        return "\n".join(filter(None, (self.partitioning, late, errors_text(self.join))))

    def frame(self) -> DataFrame:
        slots = UnionColumns.of(self.frames, with_text=self.control is not None)
        task, kind = self.task(slots)
        sources = self._sources(slots)
        if self.streaming:
            name, clock = beats_name(self.name, task.token), self._clock_column(slots)
            sources.append(beats(name, self.layout.partitions, sources[0], clock))
            complete_micro_batches(task, sources[0])
        rows = reduce(DataFrame.union, sources)
        # An explicit number keeps adaptive execution from changing it; the row holds its partition.
        dealt = rows.repartitionById(self.layout.partitions, sf.shiftright(ROUTE, STREAM_BITS))
        joined = dealt.mapInArrow(task.run, kind)
        observed = joined.observe(observation_name(self.name), sf.collect_list(COLUMN).alias(DOCUMENTS))
        return observed.where(sf.col(COLUMN).isNull()).drop(COLUMN)

    def task(self, slots: UnionColumns) -> tuple[JoinTask, StructType]:
        """The task for the workers, and the type of the rows it returns."""
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
            late_rows=self.late_rows,
            clock_column=self._clock_column(slots),
            layout=described(self.layout, self.frames),
            places=tuple(
                place_finder(self.join, self.layout, self.frames, s) for s in range(len(self.frames))
            ),
            parallel_tasks=tasks_at_once(self),
            blob_times={
                s: self.query.streams[frame.alias].time
                for s, frame in enumerate(self.frames)
                if isinstance(frame.data, FileStream)
            },
        )
        return task, result_type(self.query, self.frames, COLUMN)

    def _sources(self, slots: UnionColumns) -> list[DataFrame]:
        found = [self._rows(slots, s) for s in range(len(self.frames))]
        if self.control is not None:
            found.append(self._control_messages(slots))
        return found

    def _control_messages(self, slots: UnionColumns) -> DataFrame:
        """Control documents in the union's columns, a copy for every partition."""
        assert self.control is not None
        columns = [sf.lit(None).cast(kind).alias(f"slot{slot}") for slot, kind in enumerate(slots.types)]
        columns[slots.text] = sf.col(MESSAGE).alias(f"slot{slots.text}")
        extra = [sf.lit(0).cast("bigint").alias(CONTENT)] if self.query.counts_rows else []
        routes = [_route(sf.lit(p), sf.lit(len(self.frames))) for p in range(self.layout.partitions)]
        if self.layout.replicates:
            return self.control.select(*columns, *extra, sf.posexplode(sf.array(*routes)).alias(COPY, ROUTE))
        return self.control.select(*columns, *extra, sf.explode(sf.array(*routes)).alias(ROUTE))

    def _rows(self, slots: UnionColumns, stream: int) -> DataFrame:
        """One stream's rows in the union's columns, one copy per partition that needs it."""
        frame = self.frames[stream]
        if isinstance(frame.data, FileStream):
            # A late row is kept as it came, and its source partition decides whether it is late.
            whole = self.late_rows is not None or self.query.streams[frame.alias].source_partition is not None
            return packed_rows(self.join, self.layout, self.frames, stream, slots, self._latest(frame), whole)
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
        """The number of a row's stream, as routes encode it. A streaming row may be at most `ahead` of the
        micro-batch's clock, which Spark keeps in its offset log: a replay decides the same."""
        latest = self._latest(frame)
        if latest is None:
            return sf.lit(stream)
        far = sf.col(quoted(self.query.streams[frame.alias].time)) > latest
        return sf.when(far, sf.lit(stream + AHEAD)).otherwise(sf.lit(stream))

    def _latest(self, frame: Frame) -> sf.Column | None:
        """The latest time that is not too far ahead, in the type of the frame's times; None if any is."""
        bound = self.query.head_start
        if not self.streaming or bound is None:
            return None
        latest = sf.timestamp_micros(sf.unix_micros(batch_clock()) + sf.lit(bound))
        return latest.cast(frame.type_of(self.query.streams[frame.alias].time))

    def _clock_column(self, slots: UnionColumns) -> str | None:
        """The slot in which beats carry the micro-batch's clock: that of a time column, or of blobs if there
        is no other. None if no row that is ahead of the clock is kept."""
        if self.late_rows is None or self.query.head_start is None:
            return None
        for stream, frame in enumerate(self.frames):
            if not isinstance(frame.data, FileStream):
                names = [field.name for field in frame.fields]
                return f"slot{slots.taken[stream][names.index(self.query.streams[frame.alias].time)]}"
        return f"slot{slots.taken[0][0]}"

    def _keys(self) -> tuple[Any, ...]:
        keyed = next((cut for cut in self.layout.dimensions if cut.kind == "key"), None)
        return tuple(keyed.placements[s].column if keyed else None for s in range(len(self.frames)))


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
    described, streaming = read_frames({alias: frames[alias] for alias in query.aliases})
    session = session_of(described[0].data)
    check_worker_python(session)
    query = with_session_rules(with_frame_watermarks(query, frames), session)
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
        control = control_documents(control, streaming)
    if query.time_limit is not None and query.time_policy.buffer_rows is not None:
        raise QueryError(
            f"{query.time_policy} lets rows wait for the next micro-batch if there was no time for them; "
            "on Spark a batch that is run again would leave others waiting, and results would be returned "
            "twice; leave buffer_rows= out",
            Option("shed"),
        )
    join = check(query, described)
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
    layout = choose_layout(query, join.predicate, join.classes, partitions, run.partitioning, run.skewed)
    return PreparedJoin(
        query,
        described,
        streaming,
        join,
        layout,
        run.name or "_".join(query.aliases),
        run.state if streaming else None,
        control,
        pool,
        run.late_rows,
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


def tasks_at_once(prepared: PreparedJoin) -> int:
    """Number of tasks that run at the same time. Spark Connect does not report it: then all of them."""
    context = context_of(session_of(prepared.frames[0].data))
    return prepared.layout.partitions if context is None else int(context.defaultParallelism)


def _route(partition: sf.Column, stream: sf.Column) -> sf.Column:
    return sf.shiftleft(partition, STREAM_BITS) + stream
