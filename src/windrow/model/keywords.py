"""Keywords of public classes and functions: a wrong one is a mistake in the query, reported as such."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

from windrow.errors import Option, QueryError, nearest, unknown

T = TypeVar("T", bound=Callable[..., Any])
_OWNERS: dict[str, str] = {}
"""Where each keyword belongs."""


def checks_keywords(label: str) -> Callable[[T], T]:
    """Decorator of a class or function that users call: Python's TypeErrors about unknown and missing
    arguments become QueryErrors that name the nearest valid one."""

    place = Option(section=label)

    def decorate(target: T) -> T:
        made: Any = target
        call = made.__init__ if isinstance(target, type) else made
        expected = signature(call)
        known = [name for name in expected.parameters if name not in ("self", "cls")]
        in_order = [name for name in known if expected.parameters[name].kind is not Parameter.KEYWORD_ONLY]
        for name in known:
            _OWNERS.setdefault(name, label)

        @wraps(call)
        def checked(*given: Any, **options: Any) -> Any:
            for name in options:
                if name in known:
                    continue
                if name in _OWNERS and nearest(name, known, 0.8) is None:
                    raise QueryError(f"{label} has no option '{name}'; it is an option of {_OWNERS[name]}")
                raise QueryError(unknown("option", name, known), place)
            try:
                passed = expected.bind_partial(*given, **options).arguments
            except TypeError as error:
                raise QueryError(f"{error}; without names come {', '.join(in_order)}", place) from None
            for name, parameter in expected.parameters.items():
                if parameter.default is Parameter.empty and name not in passed:
                    raise QueryError(f"'{name}' is missing", place)
            return call(*given, **options)

        if isinstance(target, type):
            made.__init__ = checked
        else:
            made = checked
        return made

    return decorate
