"""Where the rows of a stream come from, as in TOML's [streams.x] and SQL's CREATE STREAM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windrow.errors import Option, QueryError, placed
from windrow.redaction import redacted

ENDLESS = ("rate", "rate-micro-batch", "socket")
STATIC = ("jdbc",)
FILES = ("parquet", "orc", "json", "csv", "text", "avro", "xml", "delta", "arrow")
"""Formats with a path."""
TYPED = ("parquet", "orc", "delta", "arrow")
"""Formats that store their columns; others need a schema to be read as a stream."""


@dataclass(frozen=True)
class Source:
    """The source of one stream, and what is taken from it before the join."""

    name: str
    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    schema: str | None = None
    """The columns as DDL: "id bigint, at timestamp"."""
    filter: str | None = None
    select: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        with placed(self.place):
            if self.format in FILES and self.path is None:
                raise QueryError(f"'{self.format}' files need a path; add path = 'directory'")
            if self.path is not None and self.format in (*ENDLESS, *STATIC, "kafka"):
                raise QueryError(f"format '{self.format}' has none; use options", Option("path"))

    @property
    def place(self) -> Option:
        return Option(stream=self.name)

    @property
    def origin(self) -> str:
        """Format and path, or the format's equivalent of a path; without credentials."""
        named = self.path or self.options.get("subscribe") or self.options.get("dbtable") or ""
        return redacted(f"{self.format} {named}".strip())

    def __str__(self) -> str:
        return f"{self.name}: {self.origin}"


def as_option(value: object) -> str:
    """A value in the form of Spark's options."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def ddl(columns: Mapping[str, str]) -> str | None:
    """Names and types as DDL; None without any."""
    return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in columns.items()) or None
