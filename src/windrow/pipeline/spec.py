"""A pipeline as frozen values, each of which validates itself.

These checks need no data. `build` checks columns and SQL expressions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from windrow.errors import Option, QueryError, placed, unknown
from windrow.model.execution import Execution
from windrow.model.query import DURATION, Query
from windrow.model.result_groups import ResultGroups
from windrow.model.settings import duration, optional, setting
from windrow.model.sharing import SharingSettings, Subscription
from windrow.model.sink import BATCH_MODES, STREAM_MODES, Sink
from windrow.model.source import (
    ENDLESS,
    FILES,
    STATIC,
    TEXT,
    TYPED,
    Source,
    spark_options,
    texts,
)
from windrow.model.units import MILLISECOND, format_duration, parse_duration

TriggerKind = Literal["always", "every", "available now", "once", "batch"]
NAMED_TRIGGERS: tuple[TriggerKind, ...] = ("available now", "once", "batch")
SINK = Option(section="sink")


@dataclass(frozen=True)
class FileLocation:
    """A pipeline's file. Errors start with the file and the section."""

    file: str

    def show(self, place: Option | None, message: str) -> str:
        if place is None:
            return f"{self.file}: {message}"
        query = f"queries.{place.query}" if place.query else None
        section = f"streams.{place.stream}" if place.stream else query or place.section or "join"
        return ": ".join(filter(None, (self.file, section, place.path, message)))


@dataclass(frozen=True)
class Trigger:
    """When a micro-batch starts. "batch" is not a stream: all input is read once."""

    kind: TriggerKind
    every: int = 0
    """Microseconds."""

    @classmethod
    def parse(cls, text: str | None) -> Trigger | None:
        words = " ".join((text or "").lower().replace("-", " ").split())
        if not words:
            return None
        for kind in NAMED_TRIGGERS:
            if words == kind:
                return cls(kind)
        if words.startswith("continuous"):
            raise QueryError(
                "'continuous' is not supported: the join runs in micro-batches. Use a time such as '1 s' "
                "or leave the trigger out to start a batch as soon as the last has ended"
            )
        time = re.fullmatch(r"(?:every )?([-+.\d].*)", words)
        if time is None:
            raise QueryError(unknown("trigger", words, (*NAMED_TRIGGERS, "5 seconds")))
        every = parse_duration(time[1])
        if every < MILLISECOND:
            raise QueryError(f"must be at least a millisecond, got {text!r}")
        return cls("every", every)

    @property
    def streaming(self) -> bool:
        return self.kind != "batch"

    @property
    def spark_arguments(self) -> Mapping[str, str | bool]:
        """The arguments of Spark's `trigger`."""
        if self.kind == "every":
            return {"processingTime": f"{self.every // MILLISECOND} milliseconds"}
        return {"available now": {"availableNow": True}, "once": {"once": True}}.get(self.kind, {})

    def __str__(self) -> str:
        if self.kind == "every":
            return f"every {format_duration(self.every)}"
        return {
            "always": "a batch as soon as the last has ended",
            "available now": "all input available now, then stop",
            "once": "all input available now in one batch, then stop",
            "batch": "not a stream: all input at once",
        }[self.kind]


@dataclass(frozen=True)
class Aggregation:
    """Groups of the results, and their aggregates."""

    time: str = setting(TEXT)
    """SQL over the result that yields a timestamp."""
    window: int = setting(duration(least=1), example=DURATION)
    slide: int | None = setting(optional(duration(least=1)), default=None, example=DURATION)
    watermark_delay: int | None = setting(optional(duration()), default=None, example=DURATION)
    group_by: tuple[str, ...] = setting(texts, default=())
    """SQL over the result."""
    aggregates: tuple[str, ...] = setting(texts, default=())
    """Spark's SQL, each with a name if wanted: "count(*) as n"."""
    groups: ResultGroups = field(init=False)

    def __post_init__(self) -> None:
        if not self.aggregates:
            raise QueryError("'aggregates' is missing; add for example aggregates = ['count(*) as results']")
        groups = ResultGroups(self.time, self.window, self.slide, self.group_by, self.watermark_delay)
        object.__setattr__(self, "groups", groups)


@dataclass(frozen=True)
class RunSettings:
    """How the pipeline is run."""

    name: str = setting(TEXT)
    trigger: Trigger = setting(Trigger.parse, example="a time such as '5 seconds'")
    checkpoint: str | None = setting(optional(TEXT), default=None)
    metrics: str | None = setting(optional(TEXT), default=None)
    master: str | None = setting(optional(TEXT), default=None)
    spark_conf: Mapping[str, str] = setting(spark_options, default_factory=dict, repr=False)
    """Configuration of the Spark session, if one is started."""


@dataclass(frozen=True)
class Pipeline:
    """Sources, their join, an optional aggregation, and a sink."""

    file: str
    sources: tuple[Source, ...]
    query: Query
    execution: Execution
    sink: Sink
    run: RunSettings
    aggregate: Aggregation | None = None
    queries: Mapping[str, Subscription] = field(default_factory=dict)
    """Those that share the join, if it is shared. `query` then has what they have in common."""
    sharing: SharingSettings = field(default_factory=SharingSettings)

    def __post_init__(self) -> None:
        if self.streaming:
            self._check_streams()
        else:
            self._check_batch()

    @property
    def streaming(self) -> bool:
        return self.run.trigger.streaming

    @property
    def mode(self) -> str:
        return self.sink.mode or ("append" if self.streaming else "error")

    def locate(self, place: Option | None) -> FileLocation:
        """The location of all errors is the file."""
        return FileLocation(self.file)

    def _check_streams(self) -> None:
        for source in self.sources:
            if source.format in STATIC:
                raise QueryError(
                    f"format '{source.format}' cannot be read as a stream; set trigger = 'batch' in [run], "
                    "which reads everything once",
                    source.place,
                )
            if source.schema is None and source.format in FILES and source.format not in TYPED:
                raise QueryError(
                    f"'schema' is missing: '{source.format}' files have no types; add for example "
                    "schema = 'id bigint, at timestamp'",
                    source.place,
                )
        if self.run.checkpoint is None:
            raise QueryError(
                "'checkpoint' is missing; a stopped pipeline resumes from it. Add for example "
                "checkpoint = 'checkpoint'",
                Option(section="run"),
            )
        with placed(SINK):
            if self.mode not in STREAM_MODES:
                raise QueryError(unknown("mode of a stream", self.mode, STREAM_MODES))
            if self.sink.format in FILES and self.mode != "append" and self.sink.format != "delta":
                raise QueryError(f"'{self.sink.format}' files only take mode 'append', got '{self.mode}'")
            if self.mode == "complete" and self.aggregate is None:
                raise QueryError("mode 'complete' is for aggregates; use 'append', or add [aggregate]")
        aggregate = self.aggregate
        if self.mode == "append" and aggregate is not None and aggregate.watermark_delay is None:
            raise QueryError(
                "'watermark_delay' is missing: mode 'append' writes a window once, after the watermark has "
                "passed it; add for example watermark_delay = '10 seconds'",
                Option(section="aggregate"),
            )

    def _check_batch(self) -> None:
        for source in self.sources:
            if source.format in ENDLESS:
                raise QueryError(
                    f"format '{source.format}' has no end and cannot be read as a batch; set another trigger "
                    "in [run]",
                    source.place,
                )
        if self.mode not in BATCH_MODES:
            raise QueryError(unknown("mode of a batch", self.mode, BATCH_MODES), SINK)
