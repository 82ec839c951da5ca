"""Control documents: what may be changed while a query runs, from a stated event time on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from windrow.errors import QueryError, unknown

FIELDS = ("at", "importance")


@dataclass(frozen=True)
class Change:
    """Another importance function."""

    at: int
    """Event time from which it holds, in microseconds since 1970."""
    importance: object
    """As in `Importance(by=...)`; checked by whoever knows the streams."""


def read_control(document: str | Mapping[str, Any]) -> Change:
    """A document as a value; what is wrong with it is told here."""
    document = read_fields(document, FIELDS)
    for name in FIELDS:
        if name not in document:
            raise QueryError(f"control: '{name}' is missing; got {dict(document)}")
    return Change(event_time(document["at"]), document["importance"])


def read_fields(document: str | Mapping[str, Any], fields: Sequence[str]) -> Mapping[str, Any]:
    """A document, if it is a mapping or JSON of one, and has no other fields than these."""
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except json.JSONDecodeError as error:
            raise QueryError(f"control: not JSON: {error}; got {document!r}") from None
    if not isinstance(document, Mapping):
        raise QueryError(f"control: expected a mapping with {list(fields)}, got {document!r}")
    for name in document:
        if name not in fields:
            raise QueryError(f"control: {unknown('field', str(name), fields)}")
    return document


def event_time(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        when = datetime.fromisoformat(str(value))
    except ValueError:
        raise QueryError(
            f"control: at must be an event time such as '2026-01-31T12:00:00Z', got {value!r}"
        ) from None
    zoned = when if when.tzinfo else when.replace(tzinfo=UTC)
    delta = zoned - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
