"""Runs statements on frames: the joins they need, and their results as one DataFrame.

One statement gives its columns. Several give those of all, and `query`, which says whose row it is; those
that can share a join do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from windrow.engine.result_builder import CLUSTER, WEIGHT
from windrow.errors import Option, QueryError, located
from windrow.explanation.explain import explain
from windrow.explanation.explanation import Explanation
from windrow.model.execution import Execution
from windrow.model.join_kind import CERTAIN
from windrow.model.units import format_duration
from windrow.spark.files.file_stream import FileStream
from windrow.spark.frame_watermarks import check_one_watermark
from windrow.spark.frames import quoted
from windrow.spark.join import PreparedJoin, prepare
from windrow.spark.sampled_aggregates import EDGES, EstimateColumns, gathered
from windrow.spark.shared_join import prepare_shared, union_of
from windrow.spark.shared_partition import QUERY
from windrow.spark.sources_sinks import TIME
from windrow.spark.spark_errors import as_query_error
from windrow.sql_frontend.statement import Grouping, SelectItem, Statement, aggregate_column, key_column

PLAN = "plan"


@dataclass(frozen=True)
class StatementRunner:
    """How statements are run where they do not say it themselves."""

    frames: Mapping[str, DataFrame | FileStream]
    """By the stream's name."""
    execution: Execution = field(default_factory=Execution)
    """What statements do not set themselves; its name goes before theirs."""

    def of(self, statements: Sequence[Statement], session: SparkSession) -> DataFrame:
        """All answers in one."""
        if any(s.explain for s in statements):
            return self._plans(statements, session)
        if len(statements) == 1:
            return self._alone(statements[0])
        parts: list[DataFrame] = []
        kinds: dict[str, tuple[str, str]] = {}
        for members in sharing(statements):
            if len(members) > 1:
                parts.append(self._shared(members, len(parts), kinds))
                continue
            (only,) = members
            answer = self._alone(only)
            with pointing(only):
                _check_kinds(only, answer, kinds)
            parts.append(answer.withColumn(QUERY, sf.lit(only.name)))
        whole = reduce(lambda x, y: x.unionByName(y, allowMissingColumns=True), parts)
        return whole.select(QUERY, *(quoted(c) for c in whole.columns if c != QUERY))

    def prepare(self, statement: Statement) -> PreparedJoin:
        with pointing(statement):
            execution = self._execution(statement, statement.name)
            return prepare(self._frames(statement), statement.query, execution)

    def _execution(self, statement: Statement, name: str) -> Execution:
        own, given = statement.execution, self.execution
        return replace(
            own,
            partitions=own.partitions or given.partitions,
            state=own.state or given.state,
            name=f"{given.name}-{name}" if given.name else name,
        )

    def _frames(self, statement: Statement) -> dict[str, DataFrame | FileStream]:
        return {alias: self.frames[name] for alias, name in statement.sources.items()}

    def _alone(self, statement: Statement) -> DataFrame:
        prepared = self.prepare(statement)
        results = prepared.frame()
        with pointing(statement), as_query_error(Option("where")):
            for condition in statement.where:
                results = results.where(condition)
        with pointing(statement), as_query_error(Option("select")):
            if statement.grouping is not None:
                if prepared.streaming:
                    check_one_watermark(self._frames(statement))
                known = replace(statement, query=prepared.query)
                return _grouped(results, known, statement.grouping, prepared.streaming)
            frames = self._frames(statement)
            shown = {alias: frames[alias] for alias in statement.query.kind.result_aliases}
            named = columns_of(statement, shown)
            if statement.sampled:
                taken = {name.lower() for name in named}
                named |= {extra: extra for extra in (WEIGHT, CLUSTER) if extra not in taken}
            if statement.query.kind.tells_certainty and CERTAIN not in {name.lower() for name in named}:
                named[CERTAIN] = CERTAIN
            return results.select(*(sf.expr(sql).alias(name) for name, sql in named.items()))

    def _shared(
        self, members: Sequence[Statement], number: int, kinds: dict[str, tuple[str, str]]
    ) -> DataFrame:
        """One join for all; every column is what the row's own statement says."""
        first = members[0]
        for member in members:
            self.prepare(member)  # what is wrong with one of them is told of that one
        execution = self._execution(first, f"shared-{number}" if number else "shared")
        queries = {member.name: member.query for member in members}
        results = union_of(prepare_shared(queries, self._frames(first), execution))
        found: dict[str, sf.Column] = {}
        for member in members:
            mine = sf.col(QUERY) == member.name
            with pointing(member), as_query_error(Option("select")):
                named = columns_of(member, self._frames(member))
                values = {column: sf.expr(sql) for column, sql in named.items()}
                _check_kinds(member, results.select(*(v.alias(c) for c, v in values.items())), kinds)
            for spelled, value in values.items():
                column = next((c for c in found if c.lower() == spelled.lower()), spelled)
                found[column] = found[column].when(mine, value) if column in found else sf.when(mine, value)
        return results.select(QUERY, *(value.alias(column) for column, value in found.items()))

    def plans(self, statements: Sequence[Statement]) -> list[Explanation]:
        """What each statement will do, at one row a second of each stream."""
        found = []
        for statement in statements:
            # Nothing runs, so any place for the state will do.
            anywhere = replace(self.execution, state=self.execution.state or "not written")
            prepared = replace(self, execution=anywhere).prepare(statement)
            plan = explain(prepared.query, {f.alias: f.arrow for f in prepared.frames})
            found.append(replace(plan, name=statement.name, partitioning=prepared.described))
        return found

    def _plans(self, statements: Sequence[Statement], session: SparkSession) -> DataFrame:
        asked = next((s for s in statements if not s.explain), None)
        if asked is not None:
            with pointing(asked):
                raise QueryError("EXPLAIN and SELECT in one text answer differently; run one of them")
        plans = zip(statements, self.plans(statements), strict=True)
        told = [(statement.name, f"{statement}\n{plan}") for statement, plan in plans]
        return session.createDataFrame(told, f"{QUERY} string, {PLAN} string")


def _check_kinds(statement: Statement, answer: DataFrame, kinds: dict[str, tuple[str, str]]) -> None:
    """A column has one type in all statements: Spark would make one of two, and fail on values in between."""
    for column in answer.schema.fields:
        name, kind = column.name, column.dataType.simpleString()
        if name.lower() == QUERY:
            raise QueryError(f"'{QUERY}' says whose row it is; rename the column with AS", Option("select"))
        other, same = kinds.setdefault(name.lower(), (statement.name, kind))
        if same != kind:
            raise QueryError(
                f"column '{name}' is {kind}, in statement '{other}' {same}; rename one with AS",
                Option("select"),
            )


def sharing(statements: Sequence[Statement]) -> list[list[Statement]]:
    """Statements that may share a join: the same streams under the same aliases, no limits, no groups."""
    found: list[list[Statement]] = []
    for statement in statements:
        for members in found:
            if _alike(members[0], statement):
                members.append(statement)
                break
        else:
            found.append([statement])
    return found


def _alike(one: Statement, other: Statement) -> bool:
    free = all(
        s.grouping is None
        and s.query.memory_limit is None
        and s.query.deadline is None
        and not s.query.kind.shapes
        for s in (one, other)
    )
    return free and all(getattr(one, name) == getattr(other, name) for name in ("sources", "execution"))


def columns_of(statement: Statement, frames: Mapping[str, DataFrame | FileStream]) -> dict[str, str]:
    """Name to expression. A name that several have is told apart by its stream."""
    outputs = [one for output in statement.outputs for one in _expanded(output, frames)]
    own = [(o.name or o.natural or f"column{n}") for n, o in enumerate(outputs, 1)]
    lowered = [name.lower() for name in own]
    found: dict[str, str] = {}
    for output, name in zip(outputs, own, strict=True):
        if output.name is None and output.alias is not None and lowered.count(name.lower()) > 1:
            name = f"{output.alias}_{name}"
        if any(name.lower() == other.lower() for other in found):
            raise QueryError(f"two columns are called '{name}'; name one with AS", Option("select"))
        found[name] = output.shaped or output.sql
    return found


def _expanded(output: SelectItem, frames: Mapping[str, DataFrame | FileStream]) -> list[SelectItem]:
    if output.sql != "*" and not output.sql.endswith(".*"):
        return [output]
    aliases = [output.alias] if output.alias is not None else list(frames)
    return [
        SelectItem(f"{quoted(alias)}.{quoted(column)}", natural=column, alias=alias)
        for alias in aliases
        for column in frames[alias].columns
    ]


def _grouped(results: DataFrame, statement: Statement, grouping: Grouping, streaming: bool) -> DataFrame:
    timed = results.withColumn(TIME, sf.expr(grouping.time))
    kind = timed.schema[TIME].dataType.typeName()
    if not kind.startswith("timestamp"):
        raise QueryError(f"the window needs a timestamp, got {grouping.time}, a {kind}", Option("group"))
    if streaming:
        timed = timed.withWatermark(TIME, f"{_watermark(statement, grouping)} microseconds")
    slide = f"{grouping.slide} microseconds" if grouping.slide else None
    window = sf.window(TIME, f"{grouping.window} microseconds", slide).alias("window")
    keys = [sf.expr(key).alias(key_column(n)) for n, key in enumerate(grouping.keys)]
    by = timed.groupBy(window, *keys)
    if statement.sampled:
        groups = by.agg(*gathered(grouping.aggregates))
        figures = EstimateColumns(grouping.aggregates, grouping.confidence)
        groups = groups.mapInArrow(figures.run, figures.schema(groups.schema))
    else:
        made = [sf.expr(a.sql).alias(aggregate_column(n)) for n, a in enumerate(grouping.aggregates)]
        groups = by.agg(*made) if made else by.agg(sf.count("*").alias("_rows"))
    edges = {"window_start": sf.col("window.start"), "window_end": sf.col("window.end")}
    groups = groups.withColumns(edges)
    if grouping.having is not None:
        groups = groups.where(grouping.having)
    return groups.select(*_figures(statement))


def _figures(statement: Statement) -> Iterator[sf.Column]:
    """The columns selected; of a sample each estimate is followed by its low and high."""
    assert statement.grouping is not None
    estimates = {aggregate_column(n) for n in range(len(statement.grouping.aggregates))}
    for name, sql in columns_of(statement, {}).items():
        yield sf.expr(sql).alias(name)
        if statement.sampled and sql in estimates:
            yield from (sf.col(sql + edge).alias(name + edge) for edge in EDGES)


def _watermark(statement: Statement, grouping: Grouping) -> int:
    """How long a window waits for results, in microseconds."""
    if grouping.watermark is not None:
        return grouping.watermark
    query = statement.query
    tracked = any(stream.source_partition for stream in query.streams.values())
    if query.counts_rows or tracked:
        unknown = "source partitions" if tracked else "windows counted in rows"
        raise QueryError(
            f"{unknown} do not tell how late results come; "
            f"set WITH (watermark = '1 minute') or so (late is {format_duration(query.watermark_delay_us)})",
            Option("watermark"),
        )
    return query.watermark_delay_us + max(stream.window.size for stream in query.streams.values())


def pointing(statement: Statement) -> AbstractContextManager[None]:
    """Errors about a statement show the place in its text."""
    return nullcontext() if statement.places is None else located(statement.places.locate)
