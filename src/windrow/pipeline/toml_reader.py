"""Reads a `Pipeline` from a TOML file. Paths in the file are relative to the file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from windrow.errors import Option, QueryError, located, placed
from windrow.model.execution import OPTIONAL_OF_STREAM, SETTINGS, STREAM_SETTINGS, describe, read_texts
from windrow.model.result_groups import ResultGroups
from windrow.model.settings import settings_of
from windrow.model.source import STATIC, Source, ddl
from windrow.model.units import positive_duration
from windrow.pipeline.spec import SINK, Aggregation, FileLocation, Pipeline, RunSettings, Sink, Trigger
from windrow.pipeline.toml_section import Section

SECTIONS = ("streams", "join", "aggregate", "sink", "run")
SOURCE_KEYS = ("format", "path", "options", "schema", "value_format", "filter", "select")
AGGREGATE_KEYS = ("time", "window", "slide", "watermark", "group_by", "aggregates")
SINK_KEYS = ("format", "path", "options", "mode", "value_format", "select")
RUN_KEYS = ("name", "checkpoint", "state", "trigger", "metrics", "master", "settings")
PATH_KEYS = ("path", "checkpoint", "state", "metrics", "late_rows")
JOIN_KEYS = tuple(name for name, each in SETTINGS.items() if each.texts and name not in RUN_KEYS)


def read_pipeline(file: Path, changes: Sequence[str] = ()) -> Pipeline:
    """Read the pipeline that a file describes.

    Parameters
    ----------
    changes
        "section.key=value": settings that replace those of the file. A value is TOML, or else text. A path
        is relative to the working directory.
    """
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise QueryError(f"cannot be read: {why}", location=FileLocation(str(file))) from None
    except tomllib.TOMLDecodeError as error:
        raise QueryError(f"is not valid TOML: {error}", location=FileLocation(str(file))) from None
    for change in changes:
        _change(document, change)
    with located(lambda place: FileLocation(str(file))):
        return _Reader(file, document).pipeline()


def parse_value(text: str) -> Any:
    """A value of the command line: TOML, or else text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()


def _change(document: dict[str, Any], change: str) -> None:
    name, given, text = change.partition("=")
    keys = [key.strip() for key in name.split(".")]
    if not given or len(keys) < 2 or not all(keys):
        raise QueryError(
            f"expected section.key=value such as run.trigger=once, got {change!r}", Option("--set")
        )
    value = parse_value(text)
    if keys[-1] in PATH_KEYS and isinstance(value, str):
        value = absolute(value, Path.cwd())
    table: Any = document
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise QueryError(f"'{key}' in {name!r} is a value, not a section", Option("--set"))
    table[keys[-1]] = value


def absolute(path: str, base: Path) -> str:
    """The path made absolute; a URL is kept."""
    return path if re.match(r"[A-Za-z][\w+.-]+:", path) else str((base / Path(path).expanduser()).resolve())


class _Reader:
    """Reads the sections of one document."""

    def __init__(self, file: Path, document: Mapping[str, Any]) -> None:
        self._file = file
        self._base = file.resolve().parent
        self._document = Section(Option(section="file"), document, SECTIONS)

    def pipeline(self) -> Pipeline:
        tables = self._streams()
        sources = tuple(self._source(alias, table) for alias, table in tables.items())
        run = Section(Option(section="run"), self._document.any("run", {}), RUN_KEYS)
        query, execution = describe(list(tables), self._settings(tables, run))
        static = all(source.format in STATIC for source in sources)
        return Pipeline(
            file=str(self._file),
            sources=sources,
            query=query,
            execution=execution,
            aggregate=self._aggregate() if "aggregate" in self._document else None,
            sink=self._sink(),
            run=self._run(run, str(execution.name), Trigger("batch") if static else Trigger("always")),
        )

    def _settings(self, tables: Mapping[str, Section], run: Section) -> dict[str, Any]:
        """The settings of the join, from all sections."""
        join = self._section("join", JOIN_KEYS, "on = 'a.id = b.id'")
        join.required("on", "a.id = b.id")
        given = read_texts(join.values)
        for name in STREAM_SETTINGS:
            # A stream's own setting takes precedence over the one for all streams in [join].
            by_alias = {alias: table.any(name, join.any(name)) for alias, table in tables.items()}
            for alias, table in tables.items():
                if by_alias[alias] is None and name not in OPTIONAL_OF_STREAM:
                    table.required(name, {"time": "at", "within": "5 minutes"}[name])
            given[name] = by_alias
        # By default the state is beside the checkpoint, because neither can be used without the other.
        checkpoint = self._path(run, "checkpoint")
        beside = checkpoint and f"{checkpoint.rstrip('/')}/windrow"
        given |= {"name": run.text("name") or self._file.stem, "state": self._path(run, "state") or beside}
        given["late_rows"] = self._path(join, "late_rows")
        return given

    def _section(self, name: str, known: Sequence[str], example: str) -> Section:
        if name not in self._document:
            raise QueryError(f"section [{name}] is missing; add for example\n  [{name}]\n  {example}")
        return Section(Option(section=name), self._document.any(name), known)

    def _streams(self) -> dict[str, Section]:
        tables = self._document.any("streams")
        if not isinstance(tables, Mapping) or not tables:
            example = "[streams.a]\n  format = 'parquet'"
            raise QueryError(f"sections [streams.<alias>] are missing; add for example\n  {example}")
        known = (*SOURCE_KEYS, *STREAM_SETTINGS)
        return {alias: Section(Option(stream=alias), table, known) for alias, table in tables.items()}

    def _source(self, alias: str, table: Section) -> Source:
        return Source(
            name=alias,
            format=table.required("format", "parquet"),
            path=self._path(table, "path"),
            options=table.options("options"),
            schema=_schema(table),
            value_format=table.text("value_format"),
            filter=table.text("filter"),
            select=table.texts("select"),
        )

    def _aggregate(self) -> Aggregation:
        table = Section(Option(section="aggregate"), self._document.any("aggregate"), AGGREGATE_KEYS)
        time, window = table.required("time", "b.at"), table.required("window", "1 minute")
        groups: dict[str, Any] = {"keys": table.texts("group_by")}
        with placed(table.place):
            for name, text in {"window": window, "slide": table.any("slide")}.items():
                with placed(Option(name)):
                    groups[name] = None if text is None else positive_duration(text)
            groups |= read_texts({"watermark": table.any("watermark")}, settings_of(ResultGroups))
            return Aggregation(ResultGroups(time, **groups), table.texts("aggregates"))

    def _sink(self) -> Sink:
        table = self._section("sink", SINK_KEYS, "format = 'parquet'\n  path = 'results'")
        with placed(SINK):
            return Sink(
                format=table.required("format", "parquet"),
                path=self._path(table, "path"),
                options=table.options("options"),
                mode=table.text("mode"),
                value_format=table.text("value_format"),
                select=table.texts("select"),
            )

    def _run(self, table: Section, name: str, otherwise: Trigger) -> RunSettings:
        with placed(replace(table.place, name="trigger")):
            trigger = Trigger.parse(table.text("trigger")) or otherwise
        return RunSettings(
            name=name,
            trigger=trigger,
            checkpoint=self._path(table, "checkpoint"),
            metrics=self._path(table, "metrics"),
            master=table.text("master"),
            settings=table.options("settings"),
        )

    def _path(self, table: Section, key: str) -> str | None:
        path = table.text(key)
        return None if path is None else absolute(path, self._base)


def _schema(table: Section) -> str | None:
    """The schema as DDL, from DDL or from a table of columns."""
    given = table.any("schema")
    if not isinstance(given, Mapping):
        return table.text("schema")
    columns = Section(replace(table.place, name="schema"), given, list(given))
    if not given:
        raise QueryError("has no columns; add for example id = 'bigint'", columns.place)
    return ddl({name: columns.required(name, "bigint") for name in given})
