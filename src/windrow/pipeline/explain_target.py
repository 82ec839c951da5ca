"""The joins that `windrow explain` explains, and how to sample their rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from rich.progress import Progress, TaskID

from windrow.errors import Option, QueryError, located, unknown
from windrow.explanation.explain import explain, explain_sample
from windrow.explanation.explanation import Explanation
from windrow.explanation.held_memory import Partitions
from windrow.model.execution import Execution
from windrow.model.source import ENDLESS, Source
from windrow.pipeline.builder import build
from windrow.pipeline.spec import Pipeline
from windrow.spark.files.file_stream import FileStream
from windrow.spark.join import PreparedJoin, in_columns
from windrow.spark.routing import place_finder
from windrow.spark.source_sample import SourceSample, first_rows
from windrow.spark.sources_sinks import read_source, shape, stays_in_columns
from windrow.spark.sql import bind
from windrow.spark.statement_runner import StatementRunner, sharing
from windrow.sql_frontend.parser import ParsedScript
from windrow.sql_frontend.statement import Statement

UNREADABLE = (*ENDLESS, "kafka", "arrow")
"""Formats that cannot be sampled: they have no end, no order that shows rates, or no reader in Spark."""


@dataclass(frozen=True)
class ExplainTarget:
    """One join."""

    name: str
    prepared: PreparedJoin
    names: Mapping[str, str]
    """Alias to the name of the stream."""
    readers: Mapping[str, Callable[[int], SourceSample]]
    """Alias to a function that reads at most this many rows; empty if a stream cannot be sampled."""
    sources: Mapping[str, Source]
    """Alias to source, where it is known."""
    columnar: bool
    """Whether Windrow itself reads files that it can read."""
    trigger_interval: timedelta | None = None
    shares_with: tuple[str, ...] = ()

    def explained(
        self,
        rates: Mapping[str, float],
        distinct: Mapping[str, float],
        sample_rows: int,
        bars: Progress,
    ) -> Explanation:
        """Explain from at most `sample_rows` rows per stream; from stated rates if that is 0 or there is no
        data. `bars` shows the progress."""
        workers = min(self.prepared.parallel_tasks, self.prepared.layout.partitions)
        layout = self.prepared.described
        described = {f.alias for f in self.prepared.frames if isinstance(f.data, FileStream)}
        in_files = [a for a, source in self.sources.items() if self.columnar and stays_in_columns(source)]
        if others := [alias for alias in in_files if alias not in described]:
            layout += f"\n{in_columns(others)}"
        if self.shares_with:
            layout += f"\nmay share its join with {', '.join(self.shares_with)}"
        if sample_rows and self.readers and not distinct:
            sample, calls, bar = {}, 0, bars.add_task("", total=None)
            for alias, read in self.readers.items():
                bars.update(bar, description=f"reading {self.names[alias]}")
                taken = read(sample_rows)
                bars.console.print(f"read {taken} of {self.names[alias]}", highlight=False, markup=False)
                sample[alias] = taken.rows
                source = self.sources.get(alias)
                if source is not None and (most := source.number_option("maxFilesPerTrigger")):
                    calls = max(calls, math.ceil(taken.files / max(1, most)))
            found = explain_sample(
                self.prepared.query,
                sample,
                rates,
                self.trigger_interval,
                workers,
                partial(_learning, bars, bar),
                divided=Partitions(self._split, calls or None),
            )
        else:
            schemas: dict[str, pa.Schema] = {f.alias: f.arrow for f in self.prepared.frames}
            generated = {a: source for a, source in self.sources.items() if source.format == "rate"}
            stated = {a: source.number_option("rowsPerSecond") or 1.0 for a, source in generated.items()}
            stated |= rates
            found = explain(
                self.prepared.query, schemas, stated, distinct, None, None, self.trigger_interval, workers
            )
        return replace(found, name=self.name, partitioning=layout)

    def _split(self, alias: str, rows: pa.Table) -> list[pa.Table]:
        """Rows of a stream by partition, with the copies that the layout makes."""
        prepared = self.prepared
        stream = prepared.query.aliases.index(alias)
        finder = place_finder(prepared.join, prepared.layout, prepared.frames[stream], stream)
        batch = pa.RecordBatch.from_struct_array(rows.to_struct_array().combine_chunks())
        starts, partitions = finder.partitions(batch).listed
        which = np.repeat(np.arange(rows.num_rows), np.diff(starts))
        return [rows.take(which[partitions == number]) for number in range(prepared.layout.partitions)]

    def by_alias(self, rates: Mapping[str, float]) -> dict[str, float]:
        """The rates of this join's streams by alias, from rates by alias or stream name."""
        known = {**{name: alias for alias, name in self.names.items()}, **{a: a for a in self.names}}
        return {known[name]: rate for name, rate in rates.items() if name in known}


def of_pipeline(pipeline: Pipeline, session: Any) -> list[ExplainTarget]:
    """The join of a pipeline."""
    sources = {source.name: source for source in pipeline.sources}
    readers = {}
    if not any(source.format in UNREADABLE for source in sources.values()):
        for alias, source in sources.items():
            with located(pipeline.locate):
                batch = read_source(session, source, streaming=False)
            readers[alias] = partial(_read, pipeline, batch, source, pipeline.query.streams[alias].time)
    trigger = pipeline.run.trigger
    return [
        ExplainTarget(
            pipeline.run.name,
            build(pipeline, session).prepared,
            {alias: alias for alias in sources},
            readers,
            sources,
            columnar=pipeline.streaming,
            trigger_interval=timedelta(microseconds=trigger.every) if trigger.kind == "every" else None,
        )
    ]


def of_statements(
    parsed: ParsedScript, session: Any, parameters: Mapping[str, Any], settings: Mapping[str, Any]
) -> list[ExplainTarget]:
    """A join for each statement."""
    created = {name: stream.source for name, stream in parsed.created.items()}
    # If one source is endless, all are read as streams, and none can be sampled.
    endless = any(source.format in UNREADABLE for source in created.values())
    frames, script = bind(parsed, session, streaming=endless, parameters=parameters, settings=settings)
    # Nothing runs, so the path of the state does not matter.
    runner = StatementRunner(frames, Execution(state="not written"))

    def target(statement: Statement, members: Sequence[Statement]) -> ExplainTarget:
        names = statement.sources
        readers = {
            alias: partial(
                first_rows,
                frames[name],
                Option(stream=name, query=statement.name),
                statement.query.streams[alias].time,
            )
            for alias, name in names.items()
        }
        return ExplainTarget(
            statement.name,
            runner.prepare(statement),
            names,
            {} if endless else readers,
            {alias: created[name] for alias, name in names.items() if name in created},
            columnar=True,
            shares_with=tuple(other.name for other in members if other is not statement),
        )

    return [target(statement, members) for members in sharing(script.statements) for statement in members]


def _learning(bars: Progress, bar: TaskID, done: int, of: int) -> None:
    bars.update(bar, description="learning from rows", completed=done, total=of)


def _read(pipeline: Pipeline, batch: Any, source: Source, time: str, most: int) -> SourceSample:
    with located(pipeline.locate):
        return first_rows(batch, source.place, time, most, lambda frame: shape(frame, source))


def check_names(targets: Sequence[ExplainTarget], rates: Mapping[str, float]) -> None:
    """Refuse a rate of an unknown stream."""
    known = {name for target in targets for pair in target.names.items() for name in pair}
    for name in rates:
        if name not in known:
            raise QueryError(unknown("stream", name, known), Option("--rate"))
