"""How a join runs on Spark, and the table of all settings of a join.

`wr.join`, SQL's WITH, TOML's [join] and the command line all read `SETTINGS`. `describe` turns values by name
into a query and its execution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from windrow.errors import Option, QueryError, placed, unknown
from windrow.model.query import Query, Stream
from windrow.model.settings import (
    Parsed,
    SettingField,
    check_known,
    keep_read_values,
    number,
    optional,
    required_settings,
    setting,
    settings_class,
    settings_of,
    text,
)


@dataclass(frozen=True)
class SkewedKeys:
    """Key values with too many rows for one partition, each spread over `splits` partitions."""

    values: tuple[Any, ...]
    splits: int

    @classmethod
    def parse(cls, given: Mapping[str, Any] | SkewedKeys | None) -> SkewedKeys | None:
        """Accepts {"values": [values], "splits": number}."""
        if given is None or isinstance(given, SkewedKeys):
            return given
        if not isinstance(given, Mapping) or set(given) != {"values", "splits"}:
            raise QueryError(f"expected {{'values': [values], 'splits': number}}, got {given!r}")
        splits, values = given["splits"], given["values"]
        if not isinstance(splits, int) or splits < 2:
            raise QueryError(f"splits must be a number of partitions from 2, got {splits!r}")
        if not isinstance(values, list | tuple | set | frozenset) or not values:
            raise QueryError(f"values must be a list of one or more values, got {values!r}")
        return cls(tuple(values), splits)

    def __str__(self) -> str:
        return f"values {list(self.values)} over {self.splits} partitions"


def _location(value: Any) -> str | None:
    """Read a directory or URL; None for none."""
    return optional(text("a directory or URL"))(str(value) if isinstance(value, PathLike) else value)


@settings_class("wr.join")
class Execution:
    """How a join runs on Spark."""

    partitions: int | None = setting(
        optional(number("a whole number of at least 1", lambda n: n >= 1, whole=True)),
        "How many tasks share the work; by default Spark's `spark.sql.shuffle.partitions`. A restart may "
        "change it: the windows are redistributed.",
        default=None,
    )
    state: str | None = setting(
        _location,
        "Directory or URL for the windows of streams; every executor must reach it.",
        default=None,
    )
    name: str | None = setting(
        optional(text("a name")),
        "Names the join's state and its metrics, and must be unique within a streaming query; by default "
        "the aliases.",
        default=None,
    )
    partitioning: str | None = setting(
        optional(text("'key', 'range', 'grid' or 'single'")),
        '"key", "range", "range(width of a cell)", "grid" or "single"; None leaves it to the planner.',
        default=None,
    )
    skewed_keys: Mapping[str, Any] | SkewedKeys | None = setting(
        SkewedKeys.parse,
        '{"values": [values], "splits": n}: rows with these values of the key are spread over n '
        "partitions each.",
        default=None,
    )
    late_rows: str | None = setting(
        _location,
        "Directory or URL that keeps rows of streams that came too late or too far ahead, as parquet, "
        "each once; `windrow state late` summarises them. None only counts them.",
        default=None,
    )

    skewed = Parsed[SkewedKeys | None]("skewed_keys")

    def __post_init__(self) -> None:
        keep_read_values(self)


STREAM_SETTINGS = settings_of(Stream)
"""Settings of a stream: one value for all streams, or a mapping by alias."""
REQUIRED_OF_STREAM = required_settings(Stream)
"""Those that a mapping must have for every stream."""
EXECUTION_SETTINGS = settings_of(Execution)
SETTINGS: Mapping[str, SettingField] = {**STREAM_SETTINGS, **settings_of(Query), **EXECUTION_SETTINGS}


def read_texts(given: Mapping[str, Any], known: Mapping[str, SettingField] = SETTINGS) -> dict[str, Any]:
    """Read values from SQL, TOML or the command line, each on its own."""
    check_known(given, known)
    found = {}
    for name, value in given.items():
        with placed(Option(name)):
            # Values by alias are read with their stream, so that errors name it.
            by_alias = known[name] is STREAM_SETTINGS.get(name) and isinstance(value, Mapping)
            found[name] = value if by_alias else known[name].read_text(value)
    return found


def describe(aliases: Sequence[str], given: Mapping[str, Any]) -> tuple[Query, Execution]:
    """The join that settings by name describe.

    >>> query, _ = describe(["a", "b"], {"on": "a.k = b.k", "time": "at", "within": {"a": "5 s", "b": "1 s"}})
    >>> str(query.streams["b"].window)
    '1 second'
    """
    streams = {alias: Stream(**_of_stream(alias, aliases, given)) for alias in aliases}
    execution = {name: value for name, value in given.items() if name in EXECUTION_SETTINGS}
    of_query = {n: v for n, v in given.items() if n not in STREAM_SETTINGS and n not in execution}
    if given.get("on") is None:
        raise QueryError("is missing; give a SQL predicate such as on='a.id = b.id'", Option("on"))
    return Query(streams, **of_query), Execution(**execution)


def _of_stream(alias: str, aliases: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of one stream, from one value for all or a mapping by alias."""
    found = {}
    for name in STREAM_SETTINGS:
        value = given.get(name)
        with placed(Option(name)):
            if isinstance(value, Mapping):
                for named in value:
                    if named not in aliases:
                        raise QueryError(unknown("stream", str(named), aliases))
                if alias not in value and name in REQUIRED_OF_STREAM:
                    raise QueryError(f"stream '{alias}' is missing; give one for each of {list(aliases)}")
                value = value.get(alias)
            if value is None and name in REQUIRED_OF_STREAM:
                raise QueryError(f"is missing; give one for all streams, or one for each of {list(aliases)}")
        found[name] = value
    return found
