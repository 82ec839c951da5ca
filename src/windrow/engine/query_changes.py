"""Changes of a query at a restart: which are allowed, and their effect on the rows held.

A state carries the query that wrote it, as plain values. Settings that are declared as fixed must be equal
(`model/settings.py`); so must the kinds of windows and, unless the join is inner, their sizes. Everything
else may change. Restoring is then a function of the state and the new query alone, so every partition,
attempt and replay gets the same windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from windrow.errors import Option, StateError
from windrow.model.join_kind import INNER
from windrow.model.query import Query, Stream, Window
from windrow.model.settings import settings_of
from windrow.model.units import format_duration

Described = Mapping[str, Any]
GO_BACK = "go back to the query it was begun with, or start the query with a new checkpoint"
_LEARNED = "what was learned under the old one is forgotten"


def fingerprint(query: Query) -> dict[str, Any]:
    """The query as plain values: everything in it that restoring a state depends on."""
    return {
        "streams": {alias: _fixed(Stream, stream) for alias, stream in query.streams.items()},
        **_fixed(Query, query),
        "within": {alias: [s.window.kind, s.window.size] for alias, s in query.streams.items()},
        "late": dict(zip(query.aliases, query.watermark_delays, strict=True)),
        "idle": query.idle_timeout_us,
        "memory": query.shed_limit and [query.shed_limit.kind, query.memory_policy.described()],
        "deadline": query.time_limit and query.time_policy.described(),
    }


def _fixed(kind: type, instance: Any) -> dict[str, Any]:
    values = {name: getattr(instance, name) for name, each in settings_of(kind).items() if each.fixed}
    return {name: dict(v) if isinstance(v, Mapping) else v for name, v in values.items()}


def windows_of(described: Described) -> list[Window]:
    """The windows of a query, by stream."""
    return [Window(*each) for each in described["within"].values()]


# -- what is refused ------------------------------------------------------------------------------------


def check_fixed(before: Described, now: Described, what: str, remedy: str = GO_BACK) -> None:
    """Refuse a query that differs from the one of a state, `what`, in something that is fixed."""
    for name, then, given, why in _fixed_values(before, now):
        if then != given:
            raise StateError(
                f"{what} belongs to another join: {name} was {_shown(then)}, now {_shown(given)}. It is "
                f"fixed, because {why}; {remedy}"
            )


def _fixed_values(before: Described, now: Described) -> Iterator[tuple[str, Any, Any, str]]:
    """(name, value before, value now, why it is fixed)."""
    yield "streams", list(before["streams"]), list(now["streams"]), "rows are held by stream, in this order"
    for name, each in settings_of(Query).items():
        if each.fixed:
            yield name, before.get(name), now.get(name), each.fixed
    for alias, settings in now["streams"].items():
        for name, each in settings_of(Stream).items():
            if each.fixed:
                place = str(Option(name, stream=alias))
                yield place, before["streams"][alias].get(name), settings[name], each.fixed
    # An inner join decides nothing in advance: its windows may shrink and grow.
    decides = now["how"] != INNER or bool(now["match"])
    for alias, then, given in _windows(before, now):
        if then.kind != given.kind:
            why = "rows in a window counted in rows are numbered, others are not"
            yield str(Option("within", stream=alias)), str(then), str(given), why
        elif decides:
            why = "it has decided in part which rows of an outer, semi, anti or as-of join have a match"
            yield str(Option("within", stream=alias)), str(then), str(given), why
    why = "control messages add and remove the queries of a shared join"
    yield "queries", before.get("queries"), now.get("queries"), why


def _windows(before: Described, now: Described) -> Iterator[tuple[str, Window, Window]]:
    return zip(now["within"], windows_of(before), windows_of(now), strict=True)


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str) else "none" if not value else str(value)


def fitted(alias: str, batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Rows held, in the columns that the stream has now: a new column is null in them."""
    if batch.schema.equals(wanted):
        return batch
    columns = []
    for field in wanted:
        if field.name not in batch.schema.names:
            columns.append(pa.nulls(batch.num_rows, field.type))
            continue
        then = batch.schema.field(field.name).type
        if then != field.type:
            raise StateError(
                f"column '{field.name}' was {then}, now {field.type}. The type of a column is fixed, because "
                "rows are held in it; cast it back, or select it under another name, which is null in rows "
                "already held",
                Option(stream=alias),
            )
        columns.append(batch.column(field.name))
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


# -- what is allowed ------------------------------------------------------------------------------------


def changes(
    before: Described, now: Described, held: Sequence[pa.Schema | None], columns: Sequence[pa.Schema | None]
) -> list[str]:
    """The changes and their effect on the rows held, one line each."""
    return [*_settings(before, now), *_columns(list(now["streams"]), held, columns)]


def _settings(before: Described, now: Described) -> Iterator[str]:
    for alias, then, given in _windows(before, now):
        if then != given:
            becomes = (
                "rows past it expire with the next batch"
                if given.size < then.size
                else "rows that have left the window stay gone; see complete_from"
            )
            yield f"stream '{alias}': within was {then}, now {given}: {becomes}"
    for alias, given in now["late"].items():
        then = before["late"][alias]
        if then != given:
            becomes = "rows held stay" if given < then else "rows that were late already stay late"
            yield (
                f"stream '{alias}': late was {format_duration(then)}, now {format_duration(given)}: {becomes}"
            )
    if before["idle"] != now["idle"]:
        yield (
            f"idle was {_idle(before['idle'])}, now {_idle(now['idle'])}: rows held stay, and rows that were "
            "late already stay late"
        )
    for name in ("memory", "deadline"):
        if before[name] == now[name]:
            continue
        if before[name] is None:
            yield f"{name} has a limit now: rows held count as if they had just arrived"
        elif now[name] is None:
            yield f"{name} has no limit any more: rows that were shed stay gone; see complete_from"
        else:
            yield (
                f"{name}: the policy or the unit of the limit has changed: {_LEARNED}, rows held count as if "
                "they had just arrived, rows that were shed stay gone; see complete_from"
            )


def _idle(value: int | None) -> str:
    return "none" if value is None else format_duration(value)


def _columns(
    aliases: Sequence[str], held: Sequence[pa.Schema | None], columns: Sequence[pa.Schema | None]
) -> Iterator[str]:
    for alias, then, given in zip(aliases, held, columns, strict=True):
        if then is None or given is None:
            continue
        for name in given.names:
            if name not in then.names:
                yield f"stream '{alias}': column '{name}' is new: null in rows held"
        for name in then.names:
            if name not in given.names:
                yield f"stream '{alias}': column '{name}' is gone, also from rows held"
