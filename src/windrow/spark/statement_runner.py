"""Runs statements on frames, and returns their results as one DataFrame.

The result of one statement has its columns. The result of several has the columns of all, and `query`, the
name of the row's statement. Statements share a join if they can.
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
from windrow.model.result_groups import ResultGroups
from windrow.model.source import quoted
from windrow.model.units import format_duration
from windrow.spark.files.file_stream import FileStream
from windrow.spark.frame_settings import check_one_watermark
from windrow.spark.join import PreparedJoin, prepare
from windrow.spark.result_groups import EDGES, group_results
from windrow.spark.sampled_aggregates import BOUNDS, EstimateColumns, gathered
from windrow.spark.shared_join import prepare_shared, union_of
from windrow.spark.shared_partition import QUERY
from windrow.spark.spark_errors import as_query_error
from windrow.sql_frontend.statement import Grouping, SelectItem, Statement, aggregate_column, key_column

PLAN = "plan"


@dataclass(frozen=True)
class StatementRunner:
    """Runs statements, with defaults for settings that they leave out."""

    frames: Mapping[str, DataFrame | FileStream]
    """By the stream's name."""
    execution: Execution = field(default_factory=Execution)
    """Defaults of the statements. Its name is a prefix of theirs."""

    def of(self, statements: Sequence[Statement], session: SparkSession) -> DataFrame:
        """The results of all statements as one DataFrame."""
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
            results = self._alone(only)
            with pointing(only):
                _check_kinds(only, results, kinds)
            parts.append(results.withColumn(QUERY, sf.lit(only.name)))
        whole = reduce(lambda x, y: x.unionByName(y, allowMissingColumns=True), parts)
        return whole.select(QUERY, *(quoted(c) for c in whole.columns if c != QUERY))

    def prepare(self, statement: Statement) -> PreparedJoin:
        with pointing(statement):
            execution = self._execution(statement, statement.name)
            if statement.sharing is None:
                return prepare(self._frames(statement), statement.query, execution)
            query = {statement.name: statement.query}
            return prepare_shared(query, self._frames(statement), execution, statement.sharing)[0]

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
        results = union_of([prepared]).drop(QUERY) if statement.sharing else prepared.frame()
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
            if statement.query.sampled:
                taken = {name.lower() for name in named}
                named |= {extra: extra for extra in (WEIGHT, CLUSTER) if extra not in taken}
            if statement.query.kind.reports_certainty and CERTAIN not in {name.lower() for name in named}:
                named[CERTAIN] = CERTAIN
            return results.select(*(sf.expr(sql).alias(name) for name, sql in named.items()))

    def _shared(
        self, members: Sequence[Statement], number: int, kinds: dict[str, tuple[str, str]]
    ) -> DataFrame:
        """One join for all. Each row has the columns of its own statement."""
        first = members[0]
        for member in members:
            self.prepare(member)  # so that an error points at its own statement
        execution = self._execution(first, f"shared-{number}" if number else "shared")
        queries = {member.name: member.query for member in members}
        results = union_of(prepare_shared(queries, self._frames(first), execution, first.sharing))
        found: dict[str, sf.Column] = {}
        for member in members:
            own = sf.col(QUERY) == member.name
            with pointing(member), as_query_error(Option("select")):
                named = columns_of(member, self._frames(member))
                values = {column: sf.expr(sql) for column, sql in named.items()}
                _check_kinds(member, results.select(*(v.alias(c) for c, v in values.items())), kinds)
            for spelled, value in values.items():
                # Spark ignores case, so `Id` of one statement and `id` of another are one column.
                column = next((c for c in found if c.lower() == spelled.lower()), spelled)
                found[column] = found[column].when(own, value) if column in found else sf.when(own, value)
        return results.select(QUERY, *(value.alias(column) for column, value in found.items()))

    def plans(self, statements: Sequence[Statement]) -> list[Explanation]:
        """Explain each statement, at one row per second of each stream."""
        found = []
        for statement in statements:
            # Nothing runs, so the path of the state does not matter.
            anywhere = replace(self.execution, state=self.execution.state or "not written")
            prepared = replace(self, execution=anywhere).prepare(statement)
            plan = explain(prepared.query, {f.alias: f.arrow for f in prepared.frames})
            found.append(replace(plan, name=statement.name, partitioning=prepared.described))
        return found

    def _plans(self, statements: Sequence[Statement], session: SparkSession) -> DataFrame:
        select = next((s for s in statements if not s.explain), None)
        if select is not None:
            with pointing(select):
                raise QueryError("EXPLAIN and SELECT in one text have different results; run one of them")
        plans = zip(statements, self.plans(statements), strict=True)
        rows = [(statement.name, f"{statement}\n{plan}") for statement, plan in plans]
        return session.createDataFrame(rows, f"{QUERY} string, {PLAN} string")


def _check_kinds(statement: Statement, results: DataFrame, kinds: dict[str, tuple[str, str]]) -> None:
    """Refuse a column with different types: Spark would cast to a common type, and fail on some values."""
    for column in results.schema.fields:
        name, kind = column.name, column.dataType.simpleString()
        if name.lower() == QUERY:
            raise QueryError(
                f"'{QUERY}' is the statement's name; rename the column with AS", Option("select")
            )
        other, same = kinds.setdefault(name.lower(), (statement.name, kind))
        if same != kind:
            raise QueryError(
                f"column '{name}' is {kind}, in statement '{other}' {same}; rename one with AS",
                Option("select"),
            )


def sharing(statements: Sequence[Statement]) -> list[list[Statement]]:
    """Groups of statements that can share a join: same streams and aliases, no limits, no GROUP BY."""
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
    return free and all(
        getattr(one, name) == getattr(other, name) for name in ("sources", "execution", "sharing")
    )


def columns_of(statement: Statement, frames: Mapping[str, DataFrame | FileStream]) -> dict[str, str]:
    """Name to expression. Equal names get their stream as a prefix."""
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
    keys = [sf.expr(key).alias(key_column(n)) for n, key in enumerate(grouping.groups.keys)]
    delay = _watermark_delay(statement, grouping.groups) if streaming else None
    by = group_results(results, grouping.groups, keys, delay, Option("group"))
    if statement.query.sampled:
        groups = by.agg(*gathered(grouping.aggregates))
        figures = EstimateColumns(grouping.aggregates, grouping.confidence)
        groups = groups.mapInArrow(figures.run, figures.schema(groups.schema))
    else:
        values = [sf.expr(a.sql).alias(aggregate_column(n)) for n, a in enumerate(grouping.aggregates)]
        groups = by.agg(*values) if values else by.agg(sf.count("*").alias("_rows"))
    groups = groups.withColumns({name: sf.col(field) for name, field in EDGES.items()})
    if grouping.having is not None:
        groups = groups.where(grouping.having)
    return groups.select(*_figures(statement))


def _figures(statement: Statement) -> Iterator[sf.Column]:
    """The selected columns. In a sample, each estimate is followed by its low and high."""
    assert statement.grouping is not None
    estimates = {aggregate_column(n) for n in range(len(statement.grouping.aggregates))}
    for name, sql in columns_of(statement, {}).items():
        yield sf.expr(sql).alias(name)
        if statement.query.sampled and sql in estimates:
            yield from (sf.col(sql + bound).alias(name + bound) for bound in BOUNDS)


def _watermark_delay(statement: Statement, groups: ResultGroups) -> int:
    """How long a window waits for results, in microseconds."""
    if groups.aggregate_watermark_delay is not None:
        return groups.aggregate_watermark_delay
    query = statement.query
    tracked = any(stream.source_partition for stream in query.streams.values())
    if query.counts_rows or tracked:
        unknown = "source partitions" if tracked else "row windows"
        raise QueryError(
            f"with {unknown} the delay of results is unknown; set WITH (aggregate_watermark_delay = "
            f"'1 minute') or similar (late is {format_duration(query.watermark_delay_us)})",
            Option("aggregate_watermark_delay"),
        )
    return query.watermark_delay_us + max(stream.window.size for stream in query.streams.values())


def pointing(statement: Statement) -> AbstractContextManager[None]:
    """Errors in the block point at the statement's text."""
    return nullcontext() if statement.places is None else located(statement.places.locate)
