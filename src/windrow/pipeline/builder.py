"""Builds the frames of a pipeline on a session, and checks every column. Nothing is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windrow.errors import Option, located
from windrow.explanation.explain import explain
from windrow.explanation.explanation import Explanation
from windrow.pipeline.spec import SINK, Pipeline, Trigger
from windrow.spark.join import PreparedJoin, prepare
from windrow.spark.kafka_values import encode
from windrow.spark.query_progress import QueryWatcher
from windrow.spark.result_groups import aggregate
from windrow.spark.sources_sinks import check_sink, read_source, select, shape, start, write
from windrow.spark.spark_errors import as_query_error


@dataclass(frozen=True)
class BuiltPipeline:
    """A pipeline that is ready to run."""

    pipeline: Pipeline
    prepared: PreparedJoin
    output: Any
    """The DataFrame that the sink writes."""

    @property
    def plan(self) -> Explanation:
        """The plan at one row per second of each stream. A running join measures the rates itself."""
        return explain(self.pipeline.query, {f.alias: f.arrow for f in self.prepared.frames})

    def start(self) -> QueryWatcher:
        """Start the stream."""
        p = self.pipeline
        assert p.run.checkpoint is not None
        sink = (p.sink.format, p.sink.path, p.sink.options, p.mode)
        with located(p.locate):
            started = start(
                self.output, SINK, *sink, p.run.name, p.run.checkpoint, spark_trigger(p.run.trigger)
            )
        return QueryWatcher(started)

    def write(self) -> int:
        """Run the batch job. Returns the number of rows written."""
        p = self.pipeline
        with located(p.locate):
            return write(self.output, SINK, p.sink.format, p.sink.path, p.sink.options, p.mode)


def build(pipeline: Pipeline, session: Any) -> BuiltPipeline:
    """Build the frames. Raises `QueryError` for any mistake in columns, types and expressions."""
    p = pipeline
    with located(p.locate):
        frames = {s.name: shape(read_source(session, s, p.streaming), s) for s in p.sources}
        prepared = prepare(frames, p.query, p.execution)
        with as_query_error(Option(section="join")):
            output = prepared.frame()
        if p.aggregate is not None:
            place = Option(section="aggregate")
            output = aggregate(output, p.aggregate.groups, p.aggregate.aggregates, place)
        output = select(output, p.sink.select, SINK)
        check_sink(output, SINK, p.sink.format)
        if p.sink.value_format is not None:
            output = encode(output, p.sink.value_format, p.sink.options, SINK)
    return BuiltPipeline(p, prepared, output)


def spark_trigger(trigger: Trigger) -> Mapping[str, str | bool]:
    """The arguments of Spark's `trigger`."""
    if trigger.kind == "every":
        return {"processingTime": f"{trigger.every // 1000} milliseconds"}
    return {"available now": {"availableNow": True}, "once": {"once": True}}.get(trigger.kind, {})
