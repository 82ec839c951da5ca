"""A pipeline on a session: frames from its description, checked column by column, not yet started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windrow.errors import QueryError
from windrow.explanation.explain import explain
from windrow.explanation.explanation import Explanation
from windrow.pipeline.spec import Pipeline, Trigger
from windrow.spark.join import PreparedJoin, prepare
from windrow.spark.query_progress import QueryWatcher
from windrow.spark.sources_sinks import aggregate, check_sink, read_source, start, take, write
from windrow.spark.spark_errors import as_query_error


@dataclass(frozen=True)
class BuiltPipeline:
    """Ready to run."""

    pipeline: Pipeline
    prepared: PreparedJoin
    output: Any
    """The DataFrame that goes to the sink."""

    @property
    def plan(self) -> Explanation:
        """At one row a second of each stream; a running join measures the rates itself."""
        return explain(self.pipeline.query, {f.alias: f.arrow for f in self.prepared.frames})

    def start(self) -> QueryWatcher:
        """Starts the stream."""
        p = self.pipeline
        assert p.run.checkpoint is not None
        sink = (p.sink.format, p.sink.path, p.sink.options, p.mode)
        trigger = spark_trigger(p.run.trigger)
        return QueryWatcher(
            start(self.output, f"{p.file}: sink", *sink, p.run.name, p.run.checkpoint, trigger),
        )

    def write(self) -> int:
        """Runs the batch job: how many rows it wrote."""
        p = self.pipeline
        return write(self.output, f"{p.file}: sink", p.sink.format, p.sink.path, p.sink.options, p.mode)


def build(pipeline: Pipeline, session: Any) -> BuiltPipeline:
    """Everything that is wrong with columns, types and expressions is found here."""
    p = pipeline
    frames = {}
    for source in p.sources:
        where = f"{p.file}: {source.where}"
        read = (source.format, source.path, source.options, source.schema)
        frame = read_source(session, where, *read, streaming=p.streaming)
        frames[source.alias] = take(frame, where, source.filter, source.select)
    try:
        prepared = prepare(
            frames, p.query, p.partitions, p.state, p.run.name, p.partitioning, p.spread
        )  # fmt: skip
    except QueryError as error:
        raise QueryError(f"{p.file}: {error}") from None
    with as_query_error(f"{p.file}: join"):
        output = prepared.frame()
    if p.aggregate is not None:
        a = p.aggregate
        shape = (a.time, a.window, a.slide, a.watermark, a.group_by, a.aggregates)
        output = aggregate(output, f"{p.file}: aggregate", *shape)
    output = take(output, f"{p.file}: sink", None, p.sink.select)
    check_sink(output, f"{p.file}: sink", p.sink.format)
    return BuiltPipeline(p, prepared, output)


def spark_trigger(trigger: Trigger) -> Mapping[str, str | bool]:
    """As Spark's `trigger` takes it."""
    if trigger.kind == "every":
        return {"processingTime": f"{trigger.every // 1000} milliseconds"}
    return {"available now": {"availableNow": True}, "once": {"once": True}}.get(trigger.kind, {})
