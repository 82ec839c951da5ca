"""Errors, and their places as data.

A message states what is wrong, what was received, and the remedy. Its place is data beside it: `place` names
the option, and `location` is where the option is written. Whoever shows the error formats both; `str` puts
them in front. Everything that Windrow raises on purpose is a `WindrowError`; anything else is a defect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Protocol

from windrow.redaction import redacted


@dataclass(frozen=True)
class Option:
    """The option that an error is about: of a query, of one of its streams, or of a policy.

    >>> print(Option("within", stream="b"))
    stream 'b': within
    >>> print(Option("age_bins", policy="age", query="hot"))
    query 'hot': shed age: age_bins
    """

    name: str | None = None
    stream: str | None = None
    query: str | None = None
    policy: str | None = None
    """The policy of `shed` that the option belongs to."""
    section: str | None = None
    """A part of a pipeline beside its join, such as "sink"."""

    def inside(self, outer: Option) -> Option:
        """The same place, with what only `outer` knows filled in."""
        known = {f.name: getattr(self, f.name) for f in fields(self)}
        return Option(**{k: getattr(outer, k) if v is None else v for k, v in known.items()})

    @property
    def path(self) -> str:
        """The option without the stream or section it belongs to: "shed age: age_bins"."""
        name = None if self.policy and self.name == "shed" else self.name
        return ": ".join(filter(None, (self.policy and f"shed {self.policy}", name)))

    def __str__(self) -> str:
        query = self.query and f"query '{self.query}'"
        stream = self.stream and f"stream '{self.stream}'"
        return ": ".join(filter(None, (query, self.section, stream, self.path)))


class Location(Protocol):
    """Where an option is written: a position in a text, a section of a file."""

    def show(self, place: Option | None, message: str) -> str:
        """The whole text of the error."""
        ...


class WindrowError(Exception):
    """Base class of every error that Windrow raises on purpose. No credentials are in its text."""

    def __init__(self, message: str = "", place: Option | None = None, location: Location | None = None):
        super().__init__(redacted(message))
        self.place = place
        self.location = location

    @property
    def message(self) -> str:
        """The message without its place."""
        return str(self.args[0])

    def __str__(self) -> str:
        if self.location is not None:
            return redacted(self.location.show(self.place, self.message))
        return f"{self.place}: {self.message}" if self.place else self.message


class QueryError(WindrowError):
    """The query itself is wrong: refused before any data is read."""


class DataError(WindrowError):
    """The data does not fit the query: a missing column, another type, another schema than before."""


class StateError(WindrowError):
    """A snapshot or state file is damaged or belongs to another query."""


@contextmanager
def placed(outer: Option) -> Iterator[None]:
    """Errors raised in the block are about `outer`, or about something inside it.

    >>> with placed(Option(stream="b")):
    ...     raise QueryError("must be positive, got 0", Option("within"))
    Traceback (most recent call last):
    windrow.errors.QueryError: stream 'b': within: must be positive, got 0
    """
    try:
        yield
    except WindrowError as error:
        error.place = outer if error.place is None else error.place.inside(outer)
        raise


@contextmanager
def located(locate: Callable[[Option | None], Location]) -> Iterator[None]:
    """Errors raised in the block are located by their place, unless they have a location already."""
    try:
        yield
    except WindrowError as error:
        error.location = error.location or locate(error.place)
        raise


def nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """The known name that a wrong one most likely stands for: one that contains it as a word, else a similar
    one; None if there is neither.

    >>> nearest("cross", ["access", "allow_cross_join"])
    'allow_cross_join'
    """
    options = list(known)
    by_word = [option for option in options if name in option.split("_")]
    return next(iter(by_word or get_close_matches(name, options, n=1, cutoff=cutoff)), None)


def unknown(kind: str, name: object, available: Iterable[str], of: str = "") -> str:
    """The text for an unknown name, with the nearest known one; `of` says what it would belong to.

    >>> unknown("access path", "hsh", ["hash", "scan"])
    "unknown access path 'hsh'. Did you mean 'hash'? Available: hash, scan"
    """
    options = sorted(available)
    near = nearest(str(name), options)
    hint = f" Did you mean '{near}'?" if near else ""
    return f"unknown {kind} '{name}'{of and f' of {of}'}.{hint} Available: {', '.join(options)}"
