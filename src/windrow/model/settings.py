"""Settings declared once: a field of a dataclass with its reader, its default and its help text.

`Query`, `Stream`, `Execution` and the policies consist of such fields. Keywords, SQL's WITH, TOML and the
command line all read values through them, so all of them know the same settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from inspect import signature
from numbers import Integral, Real
from textwrap import fill
from types import MappingProxyType
from typing import Any, Generic, TypeVar, dataclass_transform

from windrow.errors import Option, QueryError, placed, unknown
from windrow.model.keywords import checks_keywords
from windrow.model.units import parse_duration

T = TypeVar("T")
C = TypeVar("C", bound=Callable[..., Any])
Reader = Callable[[Any], Any]


@dataclass(frozen=True)
class SettingField:
    """How a setting is read, and its meaning."""

    read: Reader
    """Converts the user's value to the one that is kept. Reading a converted value again changes nothing."""
    help: str
    texts: bool
    """Whether SQL, TOML and the command line may set it; functions have no text form."""
    example: str | None
    """Sample text, for settings that must be text there: a duration without a unit is ambiguous."""
    fixed: str | None
    """Why it cannot change while windows are kept; None if it may change at a restart."""
    show: Callable[[Any], str]
    """The value as a person would write it."""

    def read_text(self, value: Any) -> Any:
        """Read a value from SQL or TOML, and check it as far as possible on its own."""
        each = value.values() if isinstance(value, Mapping) else [value]
        for one in each:
            if self.example is not None and one is not None and not isinstance(one, str):
                raise QueryError(f"expected {self.example}, got {one!r}")
        return self.read(value)


def setting(
    read: Reader,
    help: str = "",
    *,
    texts: bool = True,
    example: str | None = None,
    fixed: str | None = None,
    show: Callable[[Any], str] = str,
    **options: Any,
) -> Any:
    """Declare a setting: `late: str = setting(duration(), "How far ...", default="0 seconds")`.

    `options` are those of `dataclasses.field`.
    """
    return field(metadata={"setting": SettingField(read, help, texts, example, fixed, show)}, **options)


@dataclass_transform(frozen_default=True, field_specifiers=(setting, field))
def settings_class(label: str, *, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """Decorator of a frozen dataclass of settings that users construct, under the name `label`.

    Its docstring gets the help texts, and wrong keywords are reported as mistakes in the query.
    """

    def decorate(cls: type[T]) -> type[T]:
        made = dataclass(frozen=True, kw_only=kw_only)(cls)
        if settings := settings_of(made):
            made.__doc__ = f"{made.__doc__}\n\n    Parameters\n    ----------\n{_entries(settings)}\n    "
        return checks_keywords(label)(made)

    return decorate


class Parsed(Generic[T]):
    """A setting with the type that its reader returns. The field itself has the type that users may pass."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        value: Any = self if instance is None else getattr(instance, self._name)
        return value


def settings_of(kind: type) -> dict[str, SettingField]:
    """The settings of a dataclass by name."""
    return {f.name: f.metadata["setting"] for f in fields(kind) if "setting" in f.metadata}


def required_settings(kind: type) -> list[str]:
    """Names of the settings without a default."""
    own = (f for f in fields(kind) if "setting" in f.metadata)
    return [f.name for f in own if f.default is MISSING and f.default_factory is MISSING]


def read_values(instance: Any) -> dict[str, Any]:
    """Read every setting of an instance."""
    found = {}
    for name, each in settings_of(type(instance)).items():
        with placed(Option(name)):
            found[name] = each.read(getattr(instance, name))
    return found


def keep_read_values(instance: Any) -> None:
    """Read every setting of a frozen instance, and keep the values read."""
    for name, value in read_values(instance).items():
        object.__setattr__(instance, name, value)


def changed_settings(instance: Any, **defaults: Any) -> dict[str, str]:
    """Texts of the settings that differ from their defaults. `defaults` are those that depend on others."""
    found = {}
    for f in fields(instance):
        if "setting" in f.metadata and f.default is not MISSING:
            each, value = f.metadata["setting"], getattr(instance, f.name)
            if value != defaults.get(f.name, each.read(f.default)):
                found[f.name] = each.show(value)
    return found


def documents(known: Mapping[str, SettingField]) -> Callable[[C], C]:
    """Document those parameters of a function that are settings, where its docstring has a line `{options}`.

    A parameter that has an entry of its own keeps it.
    """

    def document(function: C) -> C:
        text = function.__doc__ or ""
        named = [n for n in signature(function).parameters if n in known and f"\n    {n}\n" not in text]
        function.__doc__ = text.replace("    {options}", _entries({name: known[name] for name in named}))
        return function

    return document


def _entries(settings: Mapping[str, SettingField]) -> str:
    """Entries of a docstring's section of parameters."""
    return "\n".join(f"    {name}\n{_wrapped(each.help)}" for name, each in settings.items())


@cache
def _wrapped(help: str) -> str:
    """Wrapping takes time at every start, and classes inherit settings."""
    return fill(help, 110, initial_indent=" " * 8, subsequent_indent=" " * 8)


def check_known(given: Mapping[str, Any], known: Mapping[str, SettingField]) -> None:
    """Refuse unknown setting names."""
    for name in given:
        if name not in known or not known[name].texts:
            raise QueryError(unknown("setting", name, [n for n, s in known.items() if s.texts]))


def choice(kind: str, *known: str) -> Callable[[Any], str]:
    """Reader of one of a few words."""

    def read(value: Any) -> str:
        if value not in known:
            raise QueryError(unknown(kind, value, known))
        return str(value)

    return read


def number(
    expected: str, accepts: Callable[[Any], bool], *, whole: bool = False, most: float | None = None
) -> Reader:
    """Reader of a number that `accepts` takes. SQL and TOML pass values as written, so types are checked."""

    def read(value: Any) -> Any:
        # True is an integer, but no number that anyone would write.
        of_kind = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
        if not of_kind or not accepts(value):
            raise QueryError(f"must be {expected}, got {value!r}")
        if most is not None and value > most:
            raise QueryError(f"must be at most {most:,}, got {value:,}")
        return value

    return read


def text(expected: str) -> Callable[[Any], str]:
    """Reader of non-empty text."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise QueryError(f"expected {expected}, got {value!r}")
        return value

    return read


def truth(value: Any) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise QueryError(f"expected true or false, got {value!r}")
    return value


def duration(least: int = 0) -> Callable[[Any], int]:
    """Reader of a duration of at least 0 or 1 microseconds."""

    def read(value: Any) -> int:
        micros = value if type(value) is int else parse_duration(value)  # True is an int as well
        if micros < least:
            raise QueryError(f"must {'be positive' if least else 'not be negative'}, got {value}")
        return micros

    return read


def by_alias(read: Reader) -> Reader:
    """Reader of one value for all streams, or of a mapping by alias."""

    def read_each(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return read(value)
        found = {}
        for alias, each in value.items():
            with placed(Option(stream=str(alias))):
                found[alias] = read(each)
        return MappingProxyType(found)

    return read_each


def optional(read: Reader) -> Reader:
    """Reader of a value or None."""
    return lambda value: None if value is None else read(value)
