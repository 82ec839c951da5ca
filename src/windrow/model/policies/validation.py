"""Settings of policies: each field is declared with the check of its value.

SQL and TOML pass text, numbers and truth values as people wrote them. A value of the wrong kind is refused by
name before anything compares it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields
from math import inf
from numbers import Integral, Real
from typing import Any

from windrow.errors import Option, QueryError, placed, unknown
from windrow.model.units import parse_duration

Read = Callable[[str, Any], Any]
"""Takes the name and the value of a setting; returns the value to keep, or raises."""
_KINDS: dict[str, tuple[type, str]] = {
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
    "str": (str, "a text"),
    "bool": (bool, "true or false"),
}
MOST_AGE_BINS = 10_000
MOST_COUNTERS = 1 << 24
"""With more, the statistics that decide which rows to keep take more memory than the rows."""


def checked(read: Read, by_alias: bool = False) -> dict[str, Any]:
    """Metadata of a field whose value `read` checks, unless it is None by default. `by_alias`: the value maps
    from aliases."""
    return {"read": read, "by_alias": by_alias}


def number(
    accepts: Callable[[Any], bool], expected: str, kind: type[Any] = Real, most: float = inf
) -> dict[str, Any]:
    """A number that `accepts` takes; errors read "name expected, got value"."""

    def read(name: str, value: Any) -> Any:
        if not isinstance(value, kind) or isinstance(value, bool) or not accepts(value):
            raise QueryError(f"{name} {expected}, got {value!r}")
        if value > most:
            raise QueryError(f"{name} must be at most {most:,}, got {value:,}")
        return value

    return checked(read)


def choice(known: Iterable[str], what: str = "") -> dict[str, Any]:
    """One of a few words."""

    def read(name: str, value: Any) -> Any:
        if value not in known:
            raise QueryError(unknown(what or name, str(value), known))
        return value

    return checked(read)


def duration(positive: bool) -> dict[str, Any]:
    """A duration, kept in microseconds."""

    def read(name: str, value: Any) -> int:
        with placed(Option(name)):
            micros = value if type(value) is int else parse_duration(value)  # True is an int as well
        if micros < positive:
            raise QueryError(f"{name} must {'be positive' if positive else 'not be negative'}, got {value!r}")
        return int(micros)

    return checked(read)


def _truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise QueryError(f"{name} must be true or false, got {value!r}")
    return value


def _read_curves(name: str, curves: Any) -> Any:
    if not isinstance(curves, Mapping) or not curves:
        raise QueryError(f"{name}: expected results by alias, such as {{'a': (2, 1)}}, got {curves!r}")
    for alias, curve in curves.items():
        numbers = tuple(curve) if isinstance(curve, Iterable) else ()
        if not numbers or not all(is_amount(n) for n in numbers):
            raise QueryError(
                f"{name} of '{alias}': expected numbers from 0, one for each part of the window, "
                f"got {curve!r}"
            )
    return curves


TRUTH = checked(_truth)
AGE_BINS = number(lambda n: n >= 1, "must be a number from 1", most=MOST_AGE_BINS)
SKETCH_WIDTH = number(lambda n: n >= 16, "must be a number from 16", most=MOST_COUNTERS)
HALF_LIFE = number(lambda n: n > 0, "must be above 0 windows")
AGE_CURVES = checked(_read_curves, by_alias=True)
"""Results per row in each part of a window, by alias."""


def read_fields(policy: Any) -> None:
    """Checks every declared field, and keeps what its reader returns."""
    for each in fields(policy):
        value = getattr(policy, each.name)
        if "read" in each.metadata and not (value is None and each.default is None):
            object.__setattr__(policy, each.name, each.metadata["read"](each.name, value))


def check_aliases(policy: Any, aliases: Iterable[str]) -> None:
    """Refuses unknown aliases in fields that map from aliases."""
    for each in fields(policy):
        for alias in (getattr(policy, each.name) or ()) if each.metadata.get("by_alias") else ():
            if alias not in aliases:
                raise QueryError(unknown("stream", str(alias), aliases), Option(each.name))


def check_kinds(policy: Any) -> None:
    """Refuses values of fields of simple types that are of another kind."""
    for each in fields(policy):
        _check_kind(each, getattr(policy, each.name))


def _check_kind(each: Field[Any], value: Any) -> None:
    named = {part.strip() for part in str(each.type).split("|")}
    if not named <= {*_KINDS, "None"} or (value is None and "None" in named):
        return
    kinds = tuple(_KINDS[name][0] for name in named - {"None"})
    wanted = " or ".join(_KINDS[name][1] for name in sorted(named - {"None"}))
    if not isinstance(value, kinds) or (isinstance(value, bool) and "bool" not in named) or value != value:
        raise QueryError(f"{each.name} must be {wanted}, got {value!r}")


def is_amount(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < inf
