"""The errors a user can meet, and how they are worded.

A message says what is wrong, where, what was received, and the remedy. Everything Windrow raises on
purpose is a `WindrowError`; anything else is a defect.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from windrow.redaction import redacted


class WindrowError(Exception):
    """Base class of every error that Windrow raises on purpose. No credentials are in its text."""

    def __init__(self, message: str = "") -> None:
        super().__init__(redacted(message))


class QueryError(WindrowError):
    """The query itself is wrong: refused before any data is read."""


class DataError(WindrowError):
    """The data does not fit the query: a missing column, another type, another schema than before."""


class StateError(WindrowError):
    """A snapshot or state file is damaged or belongs to another query."""


def unknown(kind: str, name: object, available: Iterable[str]) -> str:
    """The text for an unknown name, with the nearest known one.

    >>> unknown("access path", "hsh", ["hash", "scan"])
    "unknown access path 'hsh'. Did you mean 'hash'? Available: hash, scan"
    """
    options = sorted(available)
    near = get_close_matches(str(name), options, n=1, cutoff=0.5)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"unknown {kind} '{name}'.{hint} Available: {', '.join(options)}"
