"""Control messages of shared joins: queries added and removed while they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from windrow.engine.control import (
    SetBack,
    check_expression,
    event_time,
    read_event_times,
    read_fields,
    refusing,
    shown,
)
from windrow.engine.shared.grouping import split_by_stream, with_windows
from windrow.errors import Option, QueryError, placed, unknown
from windrow.model.join_kind import INNER
from windrow.model.query import Query, Window
from windrow.model.sharing import Subscription
from windrow.model.units import DAY

FIELDS = ("at", "add", "remove", "event_time", "seq")
ADD_FIELDS = ("name", "within", "on", "where", "select", "like", "how", "match")
ADD, REMOVE = Option(section="add"), Option(section="remove")
"""What an error is about that a change of queries raises."""
NAME_LENGTH = 200
WIDEST = {"time": 366 * DAY, "rows": 10_000_000, "rows per key": 10_000_000}
"""Maximum windows in a message: a query added by mistake must not retain everything forever."""


@dataclass(frozen=True)
class AddQuery:
    name: str
    at: int | None
    """Event time in microseconds since 1970; None for now."""
    within: Any
    on: str | None
    where: str | None
    select: tuple[str, ...]
    like: str | None
    """A query whose join it shares."""
    how: str | Mapping[str, str] | None = None
    match: Mapping[str, str] | None = None
    """The kind of join; None for that of the join it shares."""

    def subscription(self, like: Query) -> Subscription:
        """The subscription over the join of `like`."""
        with placed(Option(query=self.name)):
            query = with_windows(like, self.within, self.on or split_by_stream(like).on)
            if self.how is not None or self.match is not None:
                query = replace(query, how=self.how or INNER, match=self.match)
            return Subscription(query, self.where, self.select)


@dataclass(frozen=True)
class RemoveQuery:
    name: str
    at: int | None


def read_change(message: str | Mapping[str, Any]) -> AddQuery | RemoveQuery | SetBack:
    """Parse and check a message."""
    with refusing():
        message = read_fields(message, FIELDS)
        if "event_time" in message:
            return read_event_times(message)
        if ("add" in message) == ("remove" in message):
            raise QueryError(f"expected either 'add' or 'remove', got {shown(message)}")
        at = event_time(message["at"]) if message.get("at") is not None else None
        if "remove" in message:
            return RemoveQuery(_name(message["remove"], "remove"), at)
        with placed(Option(section="control: add")):
            return _read_add(message["add"], at)


def _read_add(given: Any, at: int | None) -> AddQuery:
    if not isinstance(given, Mapping):
        raise QueryError(f"expected a mapping with {list(ADD_FIELDS)}, got {shown(given)}")
    for field in given:
        if field not in ADD_FIELDS:
            raise QueryError(unknown("field", shown(field), ADD_FIELDS))
    for field in ("name", "within"):
        if field not in given:
            raise QueryError(f"'{field}' is missing; got {shown(given)}")
    select = given.get("select") or []
    if not isinstance(select, list | tuple) or not all(isinstance(item, str) for item in select):
        raise QueryError(f"must be a list such as ['a.id'], got {shown(select)}", Option("select"))
    texts = {f: None if given.get(f) is None else _text(given[f], f) for f in ("on", "where", "like")}
    name = _name(given["name"], "name")
    for where, text in (("on", texts["on"]), ("where", texts["where"]), *(("select", s) for s in select)):
        if text is not None:
            check_expression(text, where)
    _check_windows(given["within"])
    return AddQuery(
        name,
        at,
        given["within"],
        texts["on"],
        texts["where"],
        tuple(select),
        texts["like"],
        given.get("how"),
        given.get("match"),
    )


def _check_windows(within: Any) -> None:
    """Check the windows' form and size; the join checks that they are its kind."""
    windows = within.values() if isinstance(within, Mapping) else within
    for given in windows if isinstance(windows, Iterable) and not isinstance(windows, str) else [windows]:
        with placed(Option("within")):
            window = Window.parse(given)
            if window.size > WIDEST[window.kind]:
                widest = Window(window.kind, WIDEST[window.kind])
                raise QueryError(f"a new query's window is at most {widest}, got {window}")


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise QueryError(f"expected a text, got {shown(value)}", Option(where))
    return value


def _name(value: object, where: str) -> str:
    text = _text(value, where)
    if len(text) > NAME_LENGTH:
        raise QueryError(f"a name has at most {NAME_LENGTH} characters, got {shown(text)}", Option(where))
    return text
