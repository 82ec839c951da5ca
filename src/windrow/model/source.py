"""The source of a stream, as in TOML's [streams.x] and SQL's CREATE STREAM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from windrow.errors import Option, QueryError, placed, unknown
from windrow.model.settings import optional, setting, text
from windrow.redaction import HIDDEN, is_secret, redacted

ENDLESS = ("rate", "rate-micro-batch", "socket")
STATIC = ("jdbc",)
FILES = ("parquet", "orc", "json", "csv", "text", "avro", "xml", "delta", "arrow")
"""Formats with a path."""
TYPED = ("parquet", "orc", "delta", "arrow")
"""Formats that store their columns; others need a schema to be read as a stream."""
VALUE_FORMATS = ("json", "avro")
"""How the values of Kafka's records may be encoded."""
AVRO_SCHEMA = '{"type": "record", "name": "bid", "fields": [{"name": "id", "type": "long"}]}'
TEXT = text("a text")


def texts(value: Any) -> tuple[str, ...]:
    """Read a list of texts. A single text is a list of one."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(isinstance(v, str) and v.strip() for v in listed):
        raise QueryError(f"expected a list of texts, got {value!r}")
    return tuple(listed)


def spark_options(value: Any) -> Mapping[str, str]:
    """Read options for Spark, which are texts."""
    if not isinstance(value, Mapping):
        raise QueryError(f"expected a table such as {{ header = true }}, got {value!r}")
    for name, given in value.items():
        if not isinstance(given, str | int | float):
            shown = HIDDEN if is_secret(name) else repr(given)
            expected = "expected a text, a number, true or false"
            raise QueryError(f"{expected}, got {shown}", Option(f"options.{name}"))
    return MappingProxyType({name: as_option(given) for name, given in value.items()})


def _schema(value: Any) -> str:
    """Read columns as DDL, from DDL or from names and types."""
    if not isinstance(value, Mapping):
        return TEXT(value)
    if not value:
        raise QueryError("has no columns; add for example id = 'bigint'")
    return str(ddl({name: TEXT(kind) for name, kind in value.items()}))


@dataclass(frozen=True)
class Source:
    """The source of one stream, with its filter and select list."""

    name: str
    format: str = setting(TEXT)
    path: str | None = setting(optional(TEXT), default=None)
    options: Mapping[str, str] = setting(spark_options, default_factory=dict, repr=False)
    schema: str | None = setting(optional(_schema), default=None)
    """The columns as DDL: "id bigint, at timestamp". Of Avro values, their Avro schema, which is JSON."""
    value_format: str | None = setting(optional(TEXT), default=None)
    """Encoding of Kafka's values. Without it the columns are Kafka's, and values are bytes."""
    filter: str | None = setting(optional(TEXT), default=None)
    select: tuple[str, ...] = setting(texts, default=())

    def __post_init__(self) -> None:
        with placed(self.place):
            if self.format in FILES and self.path is None:
                raise QueryError(f"'{self.format}' files need a path; add path = 'directory'")
            if self.path is not None and self.format in (*ENDLESS, *STATIC, "kafka"):
                raise QueryError(f"format '{self.format}' has none; use options", Option("path"))
            check_value_format(self.format, self.value_format)
            if self.format == "kafka":
                self._check_schema_of_values()

    def _check_schema_of_values(self) -> None:
        if self.value_format is None:
            if self.schema is not None:
                raise QueryError(
                    "Kafka's records have columns of their own; for those of their values add "
                    "value_format = 'json' or 'avro'",
                    Option("schema"),
                )
        elif self.schema is None:
            example = AVRO_SCHEMA if self.value_format == "avro" else "id bigint, at timestamp"
            raise QueryError(
                f"'schema' is missing: {self.value_format} values have no types; add for example "
                f"schema = '{example}'"
            )
        elif self.value_format == "avro" and not self.schema.lstrip().startswith("{"):
            raise QueryError(
                f"expected the Avro schema of a record, such as '{AVRO_SCHEMA}', got {self.schema!r}",
                Option("schema"),
            )

    @property
    def place(self) -> Option:
        return Option(stream=self.name)

    def number_option(self, name: str) -> float | None:
        """An option that is a number; None without it. Case is ignored, as Spark does."""
        given = next((value for key, value in self.options.items() if key.lower() == name.lower()), "")
        with suppress(ValueError):
            return float(given)
        return None

    @property
    def origin(self) -> str:
        """Format and path, or the format's equivalent of a path; without credentials."""
        named = self.path or self.options.get("subscribe") or self.options.get("dbtable") or ""
        return redacted(f"{self.format} {named}".strip())

    def __str__(self) -> str:
        return f"{self.name}: {self.origin}"


def check_value_format(format: str, value_format: str | None) -> None:
    """Only Kafka has values to decode or encode."""
    if value_format is None:
        return
    with placed(Option("value_format")):
        if format != "kafka":
            raise QueryError(f"needs format 'kafka', got '{format}'; remove it")
        if value_format not in VALUE_FORMATS:
            raise QueryError(unknown("format of values", value_format, VALUE_FORMATS))


def absolute(path: str, base: Path) -> str:
    """The path made absolute; a URL is kept."""
    return path if re.match(r"[A-Za-z][\w+.-]+:", path) else str((base / Path(path).expanduser()).resolve())


def as_option(value: object) -> str:
    """A value in the form of Spark's options."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def quoted(name: str) -> str:
    """A column's name, quoted for Spark."""
    return "`" + name.replace("`", "``") + "`"


def ddl(columns: Mapping[str, str]) -> str | None:
    """Names and types as DDL; None without any."""
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items()) or None
