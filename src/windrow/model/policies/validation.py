"""Checks of a policy's settings.

SQL and TOML hand over texts, numbers and truth values as people wrote them; a text where a number belongs is
refused by name, before anything compares it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from math import inf
from numbers import Integral, Real
from typing import Any

from windrow.errors import QueryError

_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((Integral,), "a whole number"),
    "float": ((Real,), "a number"),
    "str": ((str,), "a text"),
    "bool": ((bool,), "true or false"),
}
MOST_BUCKETS = 10_000
MOST_COUNTERS = 1 << 24
"""With more, what is kept to know which rows to keep takes more room than the rows."""


def check_kinds(settings: Any) -> None:
    """Refuses values of simple fields that are of another kind; others check themselves."""
    for field in fields(settings):
        named = {part.strip() for part in str(field.type).split("|")}
        value = getattr(settings, field.name)
        if not named <= {*_KINDS, "None"} or (value is None and "None" in named):
            continue
        kinds = tuple(kind for name in named - {"None"} for kind in _KINDS[name][0])
        wanted = " or ".join(_KINDS[name][1] for name in sorted(named - {"None"}))
        if (
            not isinstance(value, kinds)
            or (isinstance(value, bool) and "bool" not in named)
            or value != value
        ):
            raise QueryError(f"{field.name} must be {wanted}, got {value!r}")


def check_most(name: str, value: int, most: int) -> None:
    if value > most:
        raise QueryError(f"{name} must be at most {most:,}, got {value:,}")


def check_curves(curves: object) -> None:
    """Of ages: alias to results in each part of a window."""
    if not isinstance(curves, Mapping) or not curves:
        raise QueryError(f"curves: expected results by alias, such as {{'a': (2, 1)}}, got {curves!r}")
    for alias, curve in curves.items():
        numbers = tuple(curve) if isinstance(curve, Iterable) else ()
        if not numbers or not all(is_amount(n) for n in numbers):
            raise QueryError(
                f"curves of '{alias}': expected numbers from 0, one for each part of the window, "
                f"got {curve!r}"
            )


def check_half_life(half_life: float) -> None:
    if not half_life > 0:
        raise QueryError(f"half_life must be above 0 windows, got {half_life!r}")


def is_amount(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < inf
