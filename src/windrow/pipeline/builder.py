"""Builds the frames of a pipeline on a session, and checks every column. Nothing is started."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windrow.errors import Option, located
from windrow.explanation.explain import explain
from windrow.explanation.explanation import Explanation
from windrow.pipeline.spec import SINK, Pipeline
from windrow.spark.join import PreparedJoin, prepare
from windrow.spark.query_progress import QueryWatcher
from windrow.spark.result_groups import aggregate
from windrow.spark.shared_join import prepare_shared, union_of
from windrow.spark.sources_sinks import Output, read_source, select, shape
from windrow.spark.spark_errors import as_query_error


@dataclass(frozen=True)
class BuiltPipeline:
    """A pipeline that is ready to run."""

    pipeline: Pipeline
    prepared: PreparedJoin
    """The join; of several, that of the first queries."""
    output: Output

    @property
    def plan(self) -> Explanation:
        """The plan at one row per second of each stream. A running join measures the rates itself."""
        return explain(self.prepared.query, {f.alias: f.arrow for f in self.prepared.frames})

    def start(self) -> QueryWatcher:
        run = self.pipeline.run
        assert run.checkpoint is not None
        with located(self.pipeline.locate):
            return self.output.start(
                run.name, run.checkpoint, run.trigger.spark_arguments, self.pipeline.mode
            )

    def write(self) -> int:
        with located(self.pipeline.locate):
            return self.output.write(self.pipeline.mode)


def build(pipeline: Pipeline, session: Any) -> BuiltPipeline:
    """Build the frames. Raises `QueryError` for any mistake in columns, types and expressions."""
    p = pipeline
    with located(p.locate):
        frames = {s.name: shape(read_source(session, s, p.streaming), s) for s in p.sources}
        if p.queries:
            joins = prepare_shared(p.queries, frames, p.execution, p.sharing)
        else:
            joins = [prepare(frames, p.query, p.execution)]
        with as_query_error(Option(section="join")):
            output = union_of(joins) if p.queries else joins[0].frame()
        if p.aggregate is not None:
            place = Option(section="aggregate")
            output = aggregate(output, p.aggregate.groups, p.aggregate.aggregates, place)
        written = Output.of(select(output, p.sink.select, SINK), p.sink, SINK)
    return BuiltPipeline(p, joins[0], written)
