"""A pipeline as frozen values, each of which validates itself and says where it stands in the file.

What can be known without the data is checked here; columns and SQL expressions are checked by `build`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from windrow.errors import QueryError, unknown
from windrow.model.query import Query
from windrow.model.units import MILLISECOND, format_duration, parse_duration

TELLS_TYPES = ("parquet", "orc", "delta", "iceberg", "rate", "rate-micro-batch", "kafka", "socket", "jdbc")
"""Formats that know their columns; files of any other kind need a schema to be read as a stream."""
ENDLESS = ("rate", "rate-micro-batch", "socket")
STATIC = ("jdbc",)
FILES = ("parquet", "orc", "json", "csv", "text", "avro", "xml", "delta")
"""Formats with a path."""
STREAM_MODES = ("append", "update", "complete")
BATCH_MODES = ("error", "append", "overwrite", "ignore")


@dataclass(frozen=True)
class Source:
    """Where one stream comes from, and what is taken of it before the join."""

    alias: str
    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    schema: str | None = None
    """The columns as DDL: "id bigint, at timestamp"."""
    filter: str | None = None
    select: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        return f"streams.{self.alias}"

    def __post_init__(self) -> None:
        if self.format in FILES and self.path is None:
            raise QueryError(f"{self.where}: '{self.format}' files need a path; add path = 'directory'")
        if self.format not in FILES and self.path is not None and self.format in (*ENDLESS, *STATIC, "kafka"):
            raise QueryError(f"{self.where}: path: format '{self.format}' has none; use options")


@dataclass(frozen=True)
class Trigger:
    """When a batch begins. "batch" is no stream at all: everything there is, once."""

    kind: Literal["always", "every", "available now", "once", "batch"]
    every: int = 0
    """Microseconds."""

    @classmethod
    def parse(cls, text: str | None) -> Trigger | None:
        words = " ".join((text or "").lower().replace("-", " ").split())
        if not words:
            return None
        if words == "available now":
            return cls("available now")
        if words == "once":
            return cls("once")
        if words == "batch":
            return cls("batch")
        if words.startswith("continuous"):
            raise QueryError(
                "run: trigger: 'continuous' is not possible: the join works in batches. Use a time such as "
                "'1 second', or leave the trigger out to start a batch as soon as the last has ended"
            )
        if not re.match(r"[-+.\d]", words.removeprefix("every ")):
            choices = ("available now", "once", "batch", "5 seconds")
            raise QueryError(f"run: {unknown('trigger', words, choices)}")
        every = parse_duration(words.removeprefix("every "), "run: trigger")
        if every < MILLISECOND:
            raise QueryError(f"run: trigger: must be at least a millisecond, got {text!r}")
        return cls("every", every)

    @property
    def streaming(self) -> bool:
        return self.kind != "batch"

    def __str__(self) -> str:
        if self.kind == "every":
            return f"every {format_duration(self.every)}"
        return {
            "always": "a batch as soon as the last has ended",
            "available now": "what is there now, then stop",
            "once": "what is there now, in one batch, then stop",
            "batch": "no stream: everything at once",
        }[self.kind]


@dataclass(frozen=True)
class Aggregation:
    """Aggregates of the results over windows of their time."""

    time: str
    """SQL over the result: "b.bid_at"."""
    window: str
    slide: str | None = None
    watermark: str | None = None
    group_by: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        length = self._positive("window", self.window)
        if self.slide is not None and self._positive("slide", self.slide) > length:
            raise QueryError(
                f"aggregate: slide: must not exceed the window of {self.window}, got {self.slide}"
            )
        if self.watermark is not None and parse_duration(self.watermark, "aggregate: watermark") < 0:
            raise QueryError(f"aggregate: watermark: must not be negative, got {self.watermark}")
        if not self.aggregates:
            raise QueryError(
                "aggregate: 'aggregates' is missing; add for example aggregates = ['count(*) as results']"
            )

    @staticmethod
    def _positive(name: str, value: str) -> int:
        duration = parse_duration(value, f"aggregate: {name}")
        if duration <= 0:
            raise QueryError(f"aggregate: {name}: must be positive, got {value}")
        return duration


@dataclass(frozen=True)
class Sink:
    """Where the results go."""

    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    mode: str | None = None
    select: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.format in FILES and self.path is None:
            raise QueryError(f"sink: '{self.format}' files need a path; add path = 'directory'")
        modes = {*STREAM_MODES, *BATCH_MODES}
        if self.mode is not None and self.mode not in modes:
            raise QueryError(f"sink: {unknown('mode', self.mode, modes)}")


@dataclass(frozen=True)
class RunSettings:
    """How the pipeline is run."""

    name: str
    trigger: Trigger
    checkpoint: str | None = None
    state: str | None = None
    metrics: str | None = None
    master: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the Spark session, where one is started."""


@dataclass(frozen=True)
class Pipeline:
    """The whole: streams in, their join, an aggregation if wanted, a sink."""

    file: str
    """Opens every complaint."""
    sources: tuple[Source, ...]
    query: Query
    sink: Sink
    run: RunSettings
    aggregate: Aggregation | None = None
    partitions: int | None = None
    partitioning: str | None = None
    spread: Mapping[str, Any] | None = None

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

    @property
    def state(self) -> str | None:
        """Beside the checkpoint unless said otherwise: one is worth nothing without the other."""
        if self.run.state or not self.run.checkpoint:
            return self.run.state
        return f"{self.run.checkpoint.rstrip('/')}/windrow"

    def _check_streams(self) -> None:
        for source in self.sources:
            if source.format in STATIC:
                raise QueryError(
                    f"{source.where}: format '{source.format}' cannot be read as a stream; "
                    "set trigger = 'batch' in [run], which reads everything once"
                )
            if source.schema is None and source.format in FILES and source.format not in TELLS_TYPES:
                raise QueryError(
                    f"{source.where}: 'schema' is missing: '{source.format}' files do not tell their types; "
                    "add for example schema = 'id bigint, at timestamp'"
                )
        if self.run.checkpoint is None:
            raise QueryError(
                "run: 'checkpoint' is missing; it is where a stopped pipeline goes on from: "
                "add for example checkpoint = 'checkpoint'"
            )
        if self.mode not in STREAM_MODES:
            raise QueryError(f"sink: {unknown('mode of a stream', self.mode, STREAM_MODES)}")
        if self.sink.format in FILES and self.mode != "append" and self.sink.format != "delta":
            raise QueryError(f"sink: '{self.sink.format}' files only take mode 'append', got '{self.mode}'")
        if self.mode == "complete" and self.aggregate is None:
            raise QueryError("sink: mode 'complete' is for aggregates; use 'append', or add [aggregate]")
        if self.mode == "append" and self.aggregate is not None and self.aggregate.watermark is None:
            raise QueryError(
                "aggregate: 'watermark' is missing: in mode 'append' a window is written once, when nothing "
                "can come for it any more; add for example watermark = '10 seconds'"
            )

    def _check_batch(self) -> None:
        for source in self.sources:
            if source.format in ENDLESS:
                raise QueryError(
                    f"{source.where}: format '{source.format}' has no end and cannot be read at once; "
                    "set another trigger in [run]"
                )
        if self.mode not in BATCH_MODES:
            raise QueryError(f"sink: {unknown('mode of a batch', self.mode, BATCH_MODES)}")
