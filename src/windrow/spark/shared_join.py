"""`wr.share`: many queries over the same DataFrames, one join for those that can share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from os import PathLike
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from windrow.engine.compile_notice import announce_first_batch
from windrow.engine.shared.bound_subscription import bind
from windrow.engine.shared.grouping import QueryGroup, base_query, group_queries
from windrow.engine.shared.tiers import WindowTiers
from windrow.errors import Option, QueryError
from windrow.model.execution import EXECUTION_SETTINGS, Execution, SkewedKeys
from windrow.model.keywords import checks_keywords
from windrow.model.limits import Deadline
from windrow.model.query import Query
from windrow.model.settings import documents
from windrow.model.sharing import SHARING_SETTINGS, SharingSettings, Subscription
from windrow.model.source import quoted
from windrow.spark.files.file_stream import FileStream
from windrow.spark.frame_settings import with_frame_settings
from windrow.spark.frames import (
    MESSAGE,
    check_frames,
    control_messages,
    is_streaming,
    session_of,
)
from windrow.spark.join import PreparedJoin, prepare
from windrow.spark.metrics import COLUMN
from windrow.spark.shared_partition import QUERY, JoinOnSpark, SharedQueries


def prepare_shared(
    queries: Mapping[str, Query | Subscription],
    frames: Mapping[str, DataFrame | FileStream],
    execution: Execution | None = None,
    sharing: SharingSettings | None = None,
    control: DataFrame | None = None,
) -> list[PreparedJoin]:
    """Group the queries, check them against the frames, and lay out each join."""
    run, sharing = execution or Execution(), sharing or SharingSettings()
    if not isinstance(queries, Mapping):
        raise QueryError(f"expected queries by name, {{'hot': query}}, got {queries!r}", Option("queries"))
    check_frames(frames)
    if sharing.heartbeat:
        control = _with_beats(control, frames, sharing.time_limit)
    groups = group_queries({name: _with_settings(query, frames) for name, query in queries.items()})
    used = {alias for g in groups for s in g.subscriptions.values() for alias in s.query.aliases}
    unused = [alias for alias in frames if alias not in used]
    if unused:
        raise QueryError(
            f"no query names '{unused[0]}'; the queries' streams are {sorted(used)}", Option("frames")
        )
    laid_out, siblings = [], []
    title = run.name or "shared"
    for number, g in enumerate(groups):
        like = next(iter(g.subscriptions.values())).query
        query = base_query(like, WindowTiers.of(s.windows for s in g.subscriptions.values()).largest)
        own = {alias: frames[alias] for alias in query.aliases if alias in frames}
        called = title if number == 0 else f"{title}-{number + 1}"
        laid = prepare(own, query, replace(run, name=called), control)
        columns = _columns(g, laid)
        arrow = pa.schema([(QUERY, pa.list_(pa.string())), *((f.name, kind) for f, kind in columns)])
        fields = [StructField(QUERY, ArrayType(StringType()), True), *(f for f, _ in columns)]
        laid_out.append(replace(laid, title=str(g), result=StructType(fields)))
        siblings.append(JoinOnSpark(like, laid.join.result_schemas, arrow, tuple(g.subscriptions)))
    joins = tuple(siblings)
    return [
        replace(
            laid, kind=SharedQueries(dict(g.subscriptions), joins[number].columns, sharing, joins, number)
        )
        for number, (g, laid) in enumerate(zip(groups, laid_out, strict=True))
    ]


@checks_keywords("wr.share")
@documents(SHARING_SETTINGS | EXECUTION_SETTINGS)
def share(
    queries: Mapping[str, Query | Subscription],
    frames: Mapping[str, DataFrame | FileStream],
    *,
    schedule: str = "greedy",
    deadline: str | timedelta | Deadline | None = None,
    max_backlog: int | None = None,
    partitions: int | None = None,
    state: str | PathLike[str] | None = None,
    name: str | None = None,
    partitioning: str | None = None,
    skewed_keys: Mapping[str, Any] | SkewedKeys | None = None,
    late_rows: str | PathLike[str] | None = None,
    control: DataFrame | None = None,
    heartbeat: bool = False,
) -> DataFrame:
    """Run many queries over the same DataFrames; returns one DataFrame with a column `query`.

    Queries with the same streams and conditions between them share one join; others get joins of their own.
    Each query gets exactly the rows it would get alone. The other columns are a struct per stream or, if
    queries have select lists, the columns these name; a column that a query does not select is null.

    Parameters
    ----------
    queries
        Name to `Query`, or to `Subscription` for a select list or a further filter.
    frames
        Alias to DataFrame or to files (`wr.files`), streams or not.
    {options}
    name
        Of the joins in state and metrics; "shared" by default. Joins after the first are called name-2, ...
    control
        A DataFrame of the frames' kind with a text column `value`: queries added and removed, as in
        `SharedOperator.control`. A refused one is skipped, with the reason in the metrics.

    Examples
    --------
    >>> out = wr.share({"fast": q1, "hourly": q2}, {"a": auctions, "b": bids},
    ...     state="/data/state")                                                       # doctest: +SKIP
    """
    given = locals()
    execution = Execution(**{name: given[name] for name in EXECUTION_SETTINGS})
    sharing = SharingSettings(**{name: given[name] for name in SHARING_SETTINGS})
    prepared = prepare_shared(queries, frames, execution, sharing, control)
    announce_first_batch()
    return union_of(prepared)


def union_of(prepared: Sequence[PreparedJoin]) -> DataFrame:
    """The results of several joins in one frame, each result once for each query that gets it; columns that
    a join lacks are null."""
    parts = []
    for join in prepared:
        results = join.frame()
        others = [quoted(name) for name in results.columns if name != QUERY]
        parts.append(results.select(sf.explode(QUERY).alias(QUERY), *others))
    return reduce(lambda x, y: x.unionByName(y, allowMissingColumns=True), parts)


def _with_beats(
    control: DataFrame | None, frames: Mapping[str, DataFrame | FileStream], deadline: Deadline | None
) -> DataFrame:
    """Control messages, and empty ones that a timed source generates. Like all messages they reach every
    partition, but change nothing. The source keeps its offsets in Spark's log, so a repeated micro-batch has
    the same ones."""
    if deadline is None:
        raise QueryError(
            "without a deadline nothing is deferred; leave it out, or give one", Option("heartbeat")
        )
    still = [alias for alias, data in frames.items() if not is_streaming(data)]
    if still:
        raise QueryError(
            f"only streams have a backlog, and {still} are none; leave it out", Option("heartbeat")
        )
    spark = session_of(next(iter(frames.values())))
    beats = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    empty = beats.select(sf.lit(None).cast(StringType()).alias(MESSAGE))
    return empty if control is None else control_messages(control, streaming=True).union(empty)


def _with_settings(
    query: Query | Subscription, frames: Mapping[str, DataFrame | FileStream]
) -> Query | Subscription:
    """With the settings of the frames. What is neither is refused later, by its name."""
    spark = session_of(next(iter(frames.values())))
    if isinstance(query, Subscription):
        return replace(query, query=with_frame_settings(query.query, frames, spark))
    return with_frame_settings(query, frames, spark) if isinstance(query, Query) else query


def _columns(g: QueryGroup, laid: PreparedJoin) -> tuple[tuple[StructField, pa.DataType], ...]:
    """What the queries of a group select, each name once."""
    schemas = laid.join.result_schemas
    fields = {frame.alias: StructType(list(frame.fields)) for frame in laid.frames}
    found: dict[str, tuple[StructField, pa.DataType]] = {}
    for name, subscription in g.subscriptions.items():
        for column in bind(name, subscription, schemas).schema(schemas):
            if subscription.select:
                kind = from_arrow_type(column.type)
                made = (StructField(column.name, kind, True), to_arrow_type(kind, timezone="UTC"))
            else:
                made = (StructField(column.name, fields[column.name], True), column.type)
            known = found.setdefault(column.name, made)
            if known[0].dataType != made[0].dataType:
                raise QueryError(
                    f"column '{column.name}' is {made[0].dataType.simpleString()}, in another query "
                    f"{known[0].dataType.simpleString()}; rename one with 'as'",
                    Option("select", query=name),
                )
            if column.name in (QUERY, COLUMN):
                raise QueryError(
                    f"a column cannot be called '{column.name}'; rename it", Option("select", query=name)
                )
    return tuple(found.values())
