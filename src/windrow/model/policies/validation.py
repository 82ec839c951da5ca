"""Readers of policies' settings, in addition to those of all settings.

SQL and TOML pass text, numbers and truth values as written, so each reader checks the kind of its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from numbers import Integral, Real
from typing import Any

from windrow.errors import Option, QueryError, placed
from windrow.model.settings import optional, setting

MOST_AGE_BINS = 10_000
MOST_COUNTERS = 1 << 24
"""With more, the statistics that decide which rows to keep take more memory than the rows."""


def number(
    accepts: Callable[[Any], bool], expected: str, kind: type[Any] = Real, most: float = inf
) -> Callable[[Any], Any]:
    """Reader of a number that `accepts` takes."""

    def read(value: Any) -> Any:
        if not isinstance(value, kind) or isinstance(value, bool) or not accepts(value):
            raise QueryError(f"must be {expected}, got {value!r}")
        if value > most:
            raise QueryError(f"must be at most {most:,}, got {value:,}")
        return value

    return read


def _read_curves(curves: Any) -> Any:
    if not isinstance(curves, Mapping) or not curves:
        raise QueryError(f"expected results by alias, such as {{'a': (2, 1)}}, got {curves!r}")
    for alias, curve in curves.items():
        numbers = tuple(curve) if isinstance(curve, Iterable) else ()
        if not numbers or not all(is_amount(n) for n in numbers):
            with placed(Option(stream=str(alias))):
                raise QueryError(f"expected numbers from 0, one for each part of the window, got {curve!r}")
    return curves


AGE_BINS = setting(number(lambda n: n >= 1, "a whole number from 1", Integral, MOST_AGE_BINS))
SKETCH_WIDTH = setting(number(lambda n: n >= 16, "a whole number from 16", Integral, MOST_COUNTERS))
HALF_LIFE = setting(number(lambda n: n > 0, "above 0 windows"))
AGE_CURVES = setting(optional(_read_curves))
"""Results per row in each part of a window, by alias."""


def is_amount(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < inf
