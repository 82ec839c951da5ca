"""The streams of a statement (`FROM`, with windows and times), and `CREATE STREAM`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from windrow.errors import Option, placed, unknown
from windrow.model.query import Window
from windrow.model.source import Source, as_option, ddl
from windrow.sql_frontend.grammar import CreateStream, Within
from windrow.sql_frontend.join_kinds import JoinedTable
from windrow.sql_frontend.scope import StreamInfo
from windrow.sql_frontend.source_text import SourceText, Span, span_of
from windrow.sql_frontend.with_options import read_options


@dataclass(frozen=True)
class FromItem:
    """One stream in FROM."""

    alias: str
    name: str
    window: Window | None
    """None if conditions on the streams' times must imply it."""
    keys: tuple[exp.Expr, ...]
    """The expressions of PARTITION BY."""
    known: StreamInfo
    span: Span | None


def read_from(
    text: SourceText,
    select: exp.Select,
    joined: Sequence[JoinedTable],
    known: Mapping[str, StreamInfo] | None,
    within: Any,
) -> list[FromItem]:
    """The streams in the order written. `within` is the window of streams without one of their own."""
    first = select.args.get("from_")
    if first is None:
        raise text.at("FROM is missing: a statement joins two streams or more", select)
    tables = [first.this, *(each.table for each in joined)]
    found: list[FromItem] = []
    for table in tables:
        if not isinstance(table, exp.Table):
            raise text.at("expected the name of a stream", table)
        item = _read_table(text, table, select.args.get("within") or within, known)
        if any(item.alias.lower() == other.alias.lower() for other in found):
            raise text.at(f"two streams are called '{item.alias}'; give one an alias", table)
        found.append(item)
    return found


def _read_table(
    text: SourceText, table: exp.Table, for_all: Any, known: Mapping[str, StreamInfo] | None
) -> FromItem:
    if not isinstance(table.this, exp.Identifier):
        raise text.at("a call is not supported in FROM; name a stream", table)
    name = ".".join(part.name for part in table.parts)
    if known is not None and name not in known:
        alike = next((k for k in known if k.lower() == name.lower()), None)
        if alike is None:
            shown = unknown("stream", name, known) if known else f"unknown stream '{name}'"
            raise text.at(f"{shown}. CREATE STREAM makes one, streams={{name: frame}} passes one", table.this)
        name = alike
    within = table.args.get("within") or for_all
    if isinstance(within, Mapping):
        within = within.get(table.alias_or_name)
    alias = table.alias_or_name
    node = within if isinstance(within, Within) else table
    with text.locating(node), placed(Option("within", stream=alias)):
        size = within.size if isinstance(within, Within) else within
        window = None if size is None else Window.parse(size)
    keys = tuple(within.expressions) if isinstance(within, Within) else ()
    return FromItem(alias, name, window, keys, (known or {}).get(name, StreamInfo()), span_of(table))


@dataclass(frozen=True)
class CreatedStream:
    """`CREATE STREAM`: the source of a stream, and the statement's span in the text."""

    source: Source
    known: StreamInfo
    span: Span | None


def read_create(text: SourceText, node: CreateStream) -> CreatedStream:
    """Read and check `CREATE STREAM`."""
    name = node.this.name
    with text.locating(node.this), placed(Option(stream=name)):
        values = {key: as_option(value) for key, value in read_options(text, node.args["options"]).items()}
        lowered = {key.lower(): key for key in values}
        if "format" not in lowered:
            raise text.at("format is missing, such as format = 'parquet'", node.this)
        columns = {}
        for column in node.args.get("columns") or ():
            if not isinstance(column, exp.ColumnDef) or column.args.get("kind") is None:
                raise text.at("expected a column and its type, such as id BIGINT", column)
            if column.args.get("constraints"):
                raise text.at("constraints are not supported", column)
            columns[column.name] = column.args["kind"].sql(dialect="spark")
        time = node.args.get("time")
        if time is not None and columns and time.name.lower() not in {c.lower() for c in columns}:
            raise text.at(unknown("column", time.name, columns), time)
        format, path = values.pop(lowered["format"]), values.pop(lowered.get("path", ""), None)
        value_format = values.pop(lowered.get("value_format", ""), None)
        source = Source(name, format, path, values, ddl(columns), value_format)
    known = StreamInfo(tuple(columns) or None, time.name if time else None)
    return CreatedStream(source, known, span_of(node.this))
