"""One table of a TOML file, read key by key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from windrow.errors import Option, QueryError, unknown
from windrow.model.source import as_option
from windrow.redaction import HIDDEN, is_secret


@dataclass(frozen=True)
class Section:
    """A table, and its place for errors."""

    place: Option
    values: Mapping[str, Any]
    known: Collection[str]

    def __post_init__(self) -> None:
        if not isinstance(self.values, Mapping):
            raise QueryError(f"expected a table, got {self.values!r}", self.place)
        for key in self.values:
            if key not in self.known:
                raise QueryError(unknown("setting", key, self.known), self.place)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def any(self, key: str, otherwise: Any = None) -> Any:
        """A value that is not checked here."""
        return self.values.get(key, otherwise)

    def required(self, key: str, example: str) -> str:
        if key not in self.values:
            raise QueryError(f"'{key}' is missing; add for example {key} = {example!r}", self.place)
        return str(self.text(key))

    def text(self, key: str, otherwise: str | None = None) -> str | None:
        value = self.values.get(key, otherwise)
        if value is not None and (not isinstance(value, str) or not value.strip()):
            raise self._wrong(key, "a text", value)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts. A single text is a list of one."""
        value = self.values.get(key, [])
        value = [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not all(isinstance(v, str) and v.strip() for v in value):
            raise self._wrong(key, "a list of texts", value)
        return tuple(value)

    def options(self, key: str) -> Mapping[str, str]:
        """A table of options for Spark, as texts."""
        value = self.values.get(key, {})
        if not isinstance(value, Mapping):
            raise self._wrong(key, "a table such as { header = true }", value)
        for name, given in value.items():
            if not isinstance(given, str | int | float):
                raise self._wrong(f"{key}.{name}", "a text, a number, true or false", given)
        return MappingProxyType({name: as_option(given) for name, given in value.items()})

    def _wrong(self, key: str, wanted: str, value: Any) -> QueryError:
        got = HIDDEN if is_secret(key) else repr(value)
        return QueryError(f"expected {wanted}, got {got}", replace(self.place, name=key))
