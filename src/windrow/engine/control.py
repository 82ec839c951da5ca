"""Control messages: what may be changed while a query runs.

Messages come from outside and are replayed after every restart, so applying one must never fail. A message is
read and checked as a whole before anything changes, and every size in it is bounded. Any other error on the
way is a refusal too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from windrow.errors import Option, QueryError, WindrowError, placed, unknown
from windrow.expr.parse import depth

if TYPE_CHECKING:
    from windrow.engine.runner import JoinRunner

FIELDS = ("at", "importance", "event_time", "seq")
MESSAGE_BYTES = 65_536
NESTING = 20
"""Maximum depth of nested brackets in a message."""
EXPRESSION_DEPTH, EXPRESSION_TERMS = 24, 100
"""Limits of expressions in messages: nesting depth, and terms in a row. Expressions are parsed again wherever
a state is loaded, however deep the stack is by then, so the limits are far below what a stack holds."""
REASON_LENGTH = 300
CONTROL = Option(section="control")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EARLIEST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LATEST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_KINDS = ("event_time", "remove", "add", "importance")
"""Order of messages that have nothing else to order them by."""


@dataclass(frozen=True)
class ImportanceChange:
    """A new importance function."""

    at: int
    """Event time from which it applies, in microseconds since 1970."""
    importance: object
    """As in `Importance(by=...)`; checked where the streams are known."""


@dataclass(frozen=True)
class SetBack:
    """Event times to set streams back to, by alias, in microseconds since 1970."""

    times: Mapping[str, int]


def read_control(message: str | Mapping[str, Any]) -> ImportanceChange | SetBack:
    """Parse and check a message."""
    with refusing():
        message = read_fields(message, FIELDS)
        if "event_time" in message:
            return read_event_times(message)
        for name in ("at", "importance"):
            if name not in message:
                raise QueryError(f"'{name}' is missing; got {shown(message)}")
        _check_expressions(message["importance"])
        return ImportanceChange(event_time(message["at"]), message["importance"])


def apply_control(runner: JoinRunner, message: str | Mapping[str, Any]) -> None:
    """Change how a running join runs; a refused message changes nothing."""
    runner.check_usable()
    change = read_control(message)
    with refusing():
        if isinstance(change, SetBack):
            for alias in change.times:
                if alias not in runner.query.streams:
                    raise QueryError(unknown("stream", alias, runner.query.aliases), Option("event_time"))
            runner.set_back(change.times)
            return
        evictor = runner.join.evictor if runner.join else None
        if evictor is None:
            raise QueryError("matters under a memory limit; this query has none", Option("importance"))
        if evictor.ranking.importance is None:
            raise QueryError(
                "it can be changed where the policy has one from the start: 'importance', 'greedy' or "
                "Auto(by=...)",
                Option("importance"),
            )
        evictor.ranking.importance.change(change.at, change.importance)


def read_event_times(message: Mapping[str, Any]) -> SetBack:
    given = message["event_time"]
    others = [name for name in message if name not in ("event_time", "seq")]
    if not isinstance(given, Mapping) or not given or others:
        raise QueryError(
            "expected a time per stream and nothing else, such as "
            f'{{"event_time": {{"b": "2026-01-31T12:00:00Z"}}}}, got {shown(message)}',
            Option("event_time"),
        )
    return SetBack({str(alias): event_time(time, "event_time") for alias, time in given.items()})


def read_fields(message: str | Mapping[str, Any], fields: Sequence[str]) -> Mapping[str, Any]:
    """Parse a mapping or JSON object of sane size, with no fields other than these."""
    if isinstance(message, str):
        message = _parsed(message)
    if not isinstance(message, Mapping):
        raise QueryError(f"expected a mapping with {list(fields)}, got {shown(message)}")
    for name in message:
        if name not in fields:
            raise QueryError(unknown("field", short(str(name)), fields))
    _sequence(message)
    return message


def in_order(messages: Iterable[str]) -> list[str]:
    """Messages of one micro-batch in the order they are applied, independent of arrival: those without `seq`
    first, then by `seq`, then by `at`; times set back before removals before additions; by name, by text."""
    return sorted(messages, key=_place)


def event_time(value: object, field: str = "at") -> int:
    """Microseconds since 1970, from a number of microseconds or a text."""
    if isinstance(value, int) and not isinstance(value, bool):
        found = value
    else:
        try:
            when = datetime.fromisoformat(str(value))
        except ValueError:
            what = f"must be an event time such as '2026-01-31T12:00:00Z', got {shown(value)}"
            raise QueryError(what, Option(field)) from None
        found = ((when if when.tzinfo else when.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND
    if not _EARLIEST <= found <= _LATEST:
        raise QueryError(f"must be in the years 1 to 9999, got {shown(value)}", Option(field))
    return found


def check_expression(text: str, where: str) -> None:
    """Refuse text that is not an expression, or is nested too deep."""
    try:
        with placed(Option(where)):
            nested, deep = depth(text)
    except RecursionError:
        nested = deep = len(text)
    if nested > EXPRESSION_DEPTH or deep > EXPRESSION_DEPTH + EXPRESSION_TERMS:
        raise QueryError(
            f"an expression may be nested {EXPRESSION_DEPTH} deep and have {EXPRESSION_TERMS} terms in a "
            f"row, got {shown(text)}",
            Option(where),
        )


@contextmanager
def refusing() -> Iterator[None]:
    """Turn any error while a message is read or applied into a short QueryError about it."""
    try:
        with placed(CONTROL):
            yield
    except Exception as error:
        place, text = CONTROL, f"refused: {type(error).__name__}: {error}"  # any error is the message's fault
        if isinstance(error, WindrowError):
            place, text = error.place or CONTROL, error.message
        raise QueryError(short(text, REASON_LENGTH - len(f"{place}: ")), place) from None


def short(text: str, most: int = REASON_LENGTH) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def shown(value: object) -> str:
    """
    >>> shown({"a": 1})
    "{'a': 1}"
    """
    text = repr(value)
    return text if len(text) <= REASON_LENGTH // 2 else f"{text[: REASON_LENGTH // 2]}..."


def _parsed(text: str) -> Any:
    size = len(text.encode(errors="replace"))
    if size > MESSAGE_BYTES:
        raise QueryError(f"a message may have {MESSAGE_BYTES} bytes, got {size}: {shown(text[:80])}")
    deep = most = 0
    for character in text:
        deep += (character in "[{") - (character in "]}")
        most = max(most, deep)
    if most > NESTING:
        raise QueryError(f"a message may be nested {NESTING} deep, got {shown(text[:80])}")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise QueryError(f"not JSON: {short(str(error))}; got {shown(text)}") from None


def _sequence(message: Mapping[str, Any]) -> int | None:
    seq = message.get("seq")
    if seq is None:
        return None
    if not isinstance(seq, int) or isinstance(seq, bool) or not 0 <= seq < 1 << 63:
        raise QueryError(f"must be a whole number from 0, got {shown(seq)}", Option("seq"))
    return seq


def _place(text: str) -> tuple[Any, ...]:
    try:
        message = _parsed(text)
        seq = _sequence(message)
        at = event_time(message["at"]) if message.get("at") is not None else _EARLIEST
        kind = next(k for k, name in enumerate(_KINDS) if name in message)
        named = message[_KINDS[kind]]
        name = str(named.get("name") if isinstance(named, Mapping) else named)
        return (0 if seq is None else 1, seq or 0, at, kind, name, text)
    except Exception:  # it will be refused, so its place does not matter
        return (2, 0, 0, 0, "", text)


def _check_expressions(importance: object) -> None:
    terms = importance.values() if isinstance(importance, Mapping) else [importance]
    for term in terms:
        if isinstance(term, str):
            check_expression(term, "importance")
