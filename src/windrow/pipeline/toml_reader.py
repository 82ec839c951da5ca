"""From a TOML file to a `Pipeline`. Relative paths in the file are relative to the file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from windrow.errors import QueryError, unknown
from windrow.model.access import Access
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.parse import SHED
from windrow.model.policies.time_policies import TimePolicy
from windrow.model.query import Query, Stream, Window
from windrow.pipeline.spec import STATIC, Aggregation, Pipeline, RunSettings, Sink, Source, Trigger
from windrow.pipeline.toml_section import Section

SECTIONS = ("streams", "join", "aggregate", "sink", "run")
STREAM = ("format", "path", "options", "schema", "time", "within", "filter", "select", "access")
LIMITS = ("memory", "deadline", "shed")
JOIN = (
    *("on", "late", "idle", "ahead", "evaluate", "expire", "order", "algorithm", "cross", "seed"),
    *("partitions", "partitioning", "spread", "how", "match", *LIMITS),
)
AGGREGATE = ("time", "window", "slide", "watermark", "group_by", "aggregates")
SINK = ("format", "path", "options", "mode", "select")
RUN = ("name", "checkpoint", "state", "trigger", "metrics", "master", "settings")
PATHS = ("path", "checkpoint", "state", "metrics")


def read_pipeline(file: Path, changes: Sequence[str] = ()) -> Pipeline:
    """The pipeline a file describes.

    Parameters
    ----------
    changes
        "section.key=value": settings that replace those of the file. A value is TOML, or else a text; a
        path among them is relative to the working directory.
    """
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        told = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise QueryError(f"{file}: cannot be read: {told}") from None
    except tomllib.TOMLDecodeError as error:
        raise QueryError(f"{file}: is not valid TOML: {error}") from None
    for change in changes:
        _change(document, change)
    try:
        return _Reader(file, document).pipeline()
    except QueryError as error:
        raise QueryError(f"{file}: {error}") from None


def _change(document: dict[str, Any], change: str) -> None:
    name, given, text = change.partition("=")
    keys = [key.strip() for key in name.split(".")]
    if not given or len(keys) < 2 or not all(keys):
        raise QueryError(f"--set: expected section.key=value such as run.trigger=once, got {change!r}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    if keys[-1] in PATHS and isinstance(value, str):
        value = located(value, Path.cwd())
    table: Any = document
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise QueryError(f"--set: '{key}' in {name!r} is a value, not a section")
    table[keys[-1]] = value


def located(path: str, base: Path) -> str:
    """A path as Spark and the state store take it: URLs as they are, others made absolute."""
    return path if re.match(r"[A-Za-z][\w+.-]+:", path) else str((base / Path(path).expanduser()).resolve())


class _Reader:
    """Reads the sections of one document."""

    def __init__(self, file: Path, document: Mapping[str, Any]) -> None:
        self._file = file
        self._base = file.resolve().parent
        self._document = Section("file", document, SECTIONS)

    def pipeline(self) -> Pipeline:
        tables = self._streams()
        sources = tuple(self._source(table) for table in tables)
        join = self._section("join", JOIN, "on = 'a.id = b.id'")
        static = all(source.format in STATIC for source in sources)
        return Pipeline(
            file=str(self._file),
            sources=sources,
            query=_query(tables, join),
            partitions=_partitions(join),
            partitioning=join.text("partitioning"),
            spread=join.any("spread"),
            aggregate=self._aggregate() if "aggregate" in self._document else None,
            sink=self._sink(),
            run=self._run(Trigger("batch") if static else Trigger("always")),
        )

    def _section(self, name: str, known: Sequence[str], example: str) -> Section:
        if name not in self._document:
            raise QueryError(f"section [{name}] is missing; add for example\n  [{name}]\n  {example}")
        return Section(name, self._document.any(name), known)

    def _streams(self) -> list[Section]:
        example = "[streams.a]\n  format = 'parquet'"
        tables = self._document.any("streams")
        if not isinstance(tables, Mapping) or not tables:
            raise QueryError(f"sections [streams.<alias>] are missing; add for example\n  {example}")
        return [Section(f"streams.{alias}", table, STREAM) for alias, table in tables.items()]

    def _source(self, table: Section) -> Source:
        return Source(
            alias=table.where.removeprefix("streams."),
            format=table.required("format", "parquet"),
            path=self._path(table, "path"),
            options=table.options("options"),
            schema=_schema(table),
            filter=table.text("filter"),
            select=table.texts("select"),
        )

    def _aggregate(self) -> Aggregation:
        table = Section("aggregate", self._document.any("aggregate"), AGGREGATE)
        return Aggregation(
            time=table.required("time", "b.at"),
            window=table.required("window", "1 minute"),
            slide=table.text("slide"),
            watermark=table.text("watermark"),
            group_by=table.texts("group_by"),
            aggregates=table.texts("aggregates"),
        )

    def _sink(self) -> Sink:
        table = self._section("sink", SINK, "format = 'parquet'\n  path = 'results'")
        return Sink(
            format=table.required("format", "parquet"),
            path=self._path(table, "path"),
            options=table.options("options"),
            mode=table.text("mode"),
            select=table.texts("select"),
        )

    def _run(self, otherwise: Trigger) -> RunSettings:
        table = Section("run", self._document.any("run", {}), RUN)
        return RunSettings(
            name=table.text("name") or self._file.stem,
            trigger=Trigger.parse(table.text("trigger")) or otherwise,
            checkpoint=self._path(table, "checkpoint"),
            state=self._path(table, "state"),
            metrics=self._path(table, "metrics"),
            master=table.text("master"),
            settings=table.options("settings"),
        )

    def _path(self, table: Section, key: str) -> str | None:
        path = table.text(key)
        return None if path is None else located(path, self._base)


def _query(tables: Sequence[Section], join: Section) -> Query:
    """The join itself; its values check themselves and are told where they stand."""
    streams = {}
    for table in tables:
        time = table.required("time", "at")
        within = Window.parse(table.required("within", "5 minutes"), f"{table.where}: within")
        access = Access.parse(table.text("access"), f"{table.where}: access")
        streams[table.where.removeprefix("streams.")] = Stream(time, within, access)
    on = join.required("on", "a.id = b.id")
    seed = join.number("seed", 0) or 0
    cross = join.truth("cross")
    order = join.any("order", "heuristic")
    optional = ("idle", "ahead", "evaluate", "expire", "how", "match", *LIMITS)
    given = {key: join.any(key) for key in optional if key in join}
    for key in ("late", "idle", "ahead", "evaluate", "expire", "algorithm", "deadline"):
        join.text(key)
    try:
        given |= {"shed": _policy(join)} if "shed" in join else {}
        return Query(
            streams=streams,
            on=on,
            late=join.text("late") or "0 seconds",
            order=tuple(order) if isinstance(order, list) else order,
            algorithm=join.text("algorithm") or "eager",
            cross=cross,
            seed=seed,
            **given,
        )
    except QueryError as error:
        told = str(error)
        raise QueryError(told if told.startswith(("stream", "join.")) else f"join: {told}") from None


def _policy(join: Section) -> Any:
    """A policy's name, or a table with its name under 'policy' and what else it takes; or a list of two such,
    one for memory and one for time."""
    given = join.any("shed")
    if isinstance(given, list):
        return tuple(_one_policy(each) if isinstance(each, Mapping) else each for each in given)
    return _one_policy(given) if isinstance(given, Mapping) else join.text("shed")


def _one_policy(given: Mapping[str, Any]) -> MemoryPolicy | TimePolicy:
    name = str(given.get("policy", ""))
    if name not in SHED:
        raise QueryError(f"shed: {unknown('policy', name, SHED)}")
    taken = [field.name for field in fields(SHED[name])]
    table = Section("join.shed", given, ["policy", *taken])
    return SHED[name](**{key: table.any(key) for key in given if key != "policy"})


def _partitions(join: Section) -> int | None:
    count = join.number("partitions")
    if count is not None and count < 1:
        raise QueryError(f"join: partitions: expected a number from 1, got {count}")
    return count


def _schema(table: Section) -> str | None:
    """DDL, or a table of columns made into DDL."""
    given = table.any("schema")
    if not isinstance(given, Mapping):
        return table.text("schema")
    columns = Section(f"{table.where}.schema", given, list(given))
    if not given:
        raise QueryError(f"{columns.where}: has no columns; add for example id = 'bigint'")
    return ", ".join(f"`{name.replace('`', '``')}` {columns.required(name, 'bigint')}" for name in given)
