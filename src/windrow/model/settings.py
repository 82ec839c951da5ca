"""Settings declared once: a field of a dataclass with its reader and its help text.

`Query`, `Stream` and `Execution` are made of such fields. Keywords, SQL's WITH, TOML and the command line all
read values through them, so that no way of writing a query knows a setting that the others do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from windrow.errors import Option, QueryError, placed, unknown

T = TypeVar("T")


@dataclass(frozen=True)
class SettingField:
    """How a value is read and what it means."""

    read: Callable[[Any], Any]
    """From what a user may give to the value that is kept. Reading what was read already changes nothing."""
    help: str
    texts: bool = True
    """Whether SQL, TOML and the command line may set it; functions have no text."""
    example: str | None = None
    """Where only a text will do in these, what it looks like: a duration without its unit says nothing."""

    def read_text(self, value: Any) -> Any:
        """A value as SQL or TOML has it, checked as far as it can be alone."""
        if self.example is not None and value is not None and not isinstance(value, str):
            raise QueryError(f"expected {self.example}, got {value!r}")
        return self.read(value)


def setting(
    read: Callable[[Any], Any], help: str, *, texts: bool = True, example: str | None = None
) -> dict[str, SettingField]:
    """What makes a field a setting: `late: str = field(default="0 seconds", metadata=setting(...))`."""
    return {"setting": SettingField(read, help, texts, example)}


def settings_of(kind: type) -> dict[str, SettingField]:
    """The settings of a dataclass by name."""
    return {f.name: f.metadata["setting"] for f in fields(kind) if "setting" in f.metadata}


def read_values(instance: Any) -> dict[str, Any]:
    """Every setting of an instance, read."""
    found = {}
    for name, each in settings_of(type(instance)).items():
        with placed(Option(name)):
            found[name] = each.read(getattr(instance, name))
    return found


def documented(kind: type[T]) -> type[T]:
    """Adds the help texts to the docstring of a dataclass of settings."""
    told = "\n".join(f"    {name}\n        {each.help}" for name, each in settings_of(kind).items())
    kind.__doc__ = f"{kind.__doc__}\n\n    Parameters\n    ----------\n{told}\n    "
    return kind


def check_known(given: Mapping[str, Any], known: Mapping[str, SettingField]) -> None:
    """Refuses names of no setting."""
    for name in given:
        if name not in known or not known[name].texts:
            raise QueryError(unknown("setting", name, [n for n, s in known.items() if s.texts]))


def choice(kind: str, *known: str) -> Callable[[Any], str]:
    """Reads one of a few words."""

    def read(value: Any) -> str:
        if value not in known:
            raise QueryError(unknown(kind, value, known))
        return str(value)

    return read


def whole(least: int, expected: str) -> Callable[[Any], int]:
    """Reads a whole number."""

    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise QueryError(f"expected {expected}, got {value!r}")
        return value

    return read


def text(expected: str) -> Callable[[Any], str]:
    """Reads a text that is not empty."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise QueryError(f"expected {expected}, got {value!r}")
        return value

    return read


def truth(value: Any) -> bool:
    """Reads true or false."""
    if not isinstance(value, bool):
        raise QueryError(f"expected true or false, got {value!r}")
    return value


def optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Reads a value or None."""
    return lambda value: None if value is None else read(value)
