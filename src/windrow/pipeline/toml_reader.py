"""Reads a `Pipeline` from a TOML file. Paths in the file are relative to the file."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from windrow.engine.shared.grouping import with_windows
from windrow.errors import Option, QueryError, located, placed, unknown
from windrow.model.execution import REQUIRED_OF_STREAM, STREAM_SETTINGS, describe, read_texts
from windrow.model.query import Query
from windrow.model.settings import required_settings, settings_of
from windrow.model.sharing import (
    DEFERRAL_SETTINGS,
    JOIN_SETTINGS,
    SharingSettings,
    Subscription,
    read_sharing,
)
from windrow.model.sink import Sink
from windrow.model.source import STATIC, Source, absolute
from windrow.pipeline.spec import Aggregation, FileLocation, Pipeline, RunSettings, Trigger

T = TypeVar("T")
SECTIONS = ("streams", "join", "queries", "aggregate", "sink", "run")
STREAM_KEYS = (*settings_of(Source), *STREAM_SETTINGS)
AGGREGATE_KEYS = tuple(settings_of(Aggregation))
SINK_KEYS = tuple(settings_of(Sink))
RUN_KEYS = (*settings_of(RunSettings), "state")
QUERY_KEYS = ("within", "where", "select")
JOIN_KEYS = tuple(name for name, each in JOIN_SETTINGS.items() if each.texts and name not in RUN_KEYS)
PATH_KEYS = ("path", "checkpoint", "state", "metrics", "late_rows")
EXAMPLES = {
    "format": "parquet",
    "on": "a.id = b.id",
    "time": "at",
    "within": "5 minutes",
    "window": "1 minute",
}
"""Of keys that must not be missing."""


def read_pipeline(file: Path, changes: Sequence[str] = ()) -> Pipeline:
    """Read the pipeline that a file describes.

    Parameters
    ----------
    changes
        "section.key=value": settings that replace those of the file. A value is TOML, or else text. A path
        is relative to the working directory.
    """
    try:
        document = tomllib.loads(read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise QueryError(f"is not valid TOML: {error}", location=FileLocation(str(file))) from None
    for change in changes:
        _change(document, change)
    _make_absolute(document, file.resolve().parent)
    with located(lambda place: FileLocation(str(file))):
        return _pipeline(file, document)


def read_text(file: Path) -> str:
    """The text of a file; errors are located at the file."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise QueryError(f"cannot be read: {why}", location=FileLocation(str(file))) from None


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


def _make_absolute(document: Mapping[str, Any], base: Path) -> None:
    """Make the paths in all sections absolute."""
    streams = document.get("streams")
    for table in (*document.values(), *(streams.values() if isinstance(streams, dict) else ())):
        for key in PATH_KEYS:
            if isinstance(table, dict) and isinstance(path := table.get(key), str) and path.strip():
                table[key] = absolute(path, base)


@dataclass(frozen=True)
class Section:
    """One table of the file, and its place for errors."""

    place: Option
    values: Mapping[str, Any]
    known: Collection[str] | None = None
    """Keys that it may have; None for any."""

    def __post_init__(self) -> None:
        if not isinstance(self.values, Mapping):
            raise QueryError(f"expected a table, got {self.values!r}", self.place)
        for key in self.values:
            if self.known is not None and key not in self.known:
                raise QueryError(unknown("setting", key, self.known), self.place)

    def require(self, key: str) -> None:
        if key not in self.values:
            raise QueryError(f"'{key}' is missing; add for example {key} = {EXAMPLES[key]!r}", self.place)

    def read(self, kind: type[T], **given: Any) -> T:
        """A value whose settings are in this table. Those in `given` are defaults, or no settings."""
        settings = settings_of(kind)
        for name in required_settings(kind):
            if name not in given:
                self.require(name)
        own = {name: value for name, value in self.values.items() if name in settings}
        with placed(self.place):
            return kind(**given | read_texts(own, settings))


def _pipeline(file: Path, document: Mapping[str, Any]) -> Pipeline:
    whole = Section(Option(section="file"), document, SECTIONS)
    tables = whole.values.get("streams")
    if not isinstance(tables, Mapping) or not tables:
        raise _missing("sections [streams.<alias>] are", "[streams.a]\n  format = 'parquet'")
    streams = {alias: Section(Option(stream=alias), table, STREAM_KEYS) for alias, table in tables.items()}
    sources = tuple(table.read(Source, name=alias) for alias, table in streams.items())
    join = _section(whole, "join", JOIN_KEYS, "on = 'a.id = b.id'")
    run = Section(Option(section="run"), document.get("run", {}), RUN_KEYS)
    static = all(source.format in STATIC for source in sources)
    running = run.read(RunSettings, name=file.stem, trigger=Trigger("batch" if static else "always"))
    queries = Section(Option(section="queries"), document.get("queries", {})).values
    given = _join_settings(join, streams)
    with placed(run.place):
        given |= {"name": running.name, **read_texts({k: v for k, v in run.values.items() if k == "state"})}
    if running.checkpoint is not None:
        # By default the state is beside the checkpoint, because neither can be used without the other.
        given.setdefault("state", f"{running.checkpoint.rstrip('/')}/windrow")
    for name in DEFERRAL_SETTINGS:
        if name in join.values and not queries:
            raise QueryError(
                "is for queries that share the join; add a section [queries.<name>] for each", Option(name)
            )
    sharing = read_sharing(given, shared=bool(queries))
    query, execution = describe(list(streams), given)
    aggregate = Section(Option(section="aggregate"), document.get("aggregate", {}), AGGREGATE_KEYS)
    sink = _section(whole, "sink", SINK_KEYS, "format = 'parquet'\n  path = 'results'")
    return Pipeline(
        file=str(file),
        sources=sources,
        query=query,
        execution=execution,
        aggregate=aggregate.read(Aggregation) if "aggregate" in document else None,
        sink=sink.read(Sink),
        run=running,
        queries={name: _subscription(name, table, query) for name, table in queries.items()},
        sharing=sharing or SharingSettings(),
    )


def _subscription(name: str, table: Any, query: Query) -> Subscription:
    """One of the queries that share the join."""
    section = Section(Option(query=name), table, QUERY_KEYS)
    given = dict(section.values)
    with placed(section.place):
        within = given.pop("within", None)
        return Subscription(query if within is None else with_windows(query, within, query.on), **given)


def _section(whole: Section, name: str, known: Collection[str], example: str) -> Section:
    if name not in whole.values:
        raise _missing(f"section [{name}] is", f"[{name}]\n  {example}")
    return Section(Option(section=name), whole.values[name], known)


def _missing(what: str, example: str) -> QueryError:
    return QueryError(f"{what} missing; add for example\n  {example}")


def _join_settings(join: Section, streams: Mapping[str, Section]) -> dict[str, Any]:
    """The settings of the join and of its streams. A stream's own take precedence over those for all."""
    join.require("on")
    given = read_texts(join.values, JOIN_SETTINGS)
    for name in STREAM_SETTINGS:
        given[name] = {
            alias: table.values.get(name, join.values.get(name)) for alias, table in streams.items()
        }
        for alias, table in streams.items():
            if given[name][alias] is None and name in REQUIRED_OF_STREAM:
                table.require(name)
    return given
