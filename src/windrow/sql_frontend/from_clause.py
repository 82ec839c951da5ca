"""The streams of a statement: `FROM`, their windows and times; and `CREATE STREAM`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from windrow.errors import QueryError, unknown
from windrow.model.query import Window
from windrow.sql_frontend.join_kinds import JoinedTable
from windrow.sql_frontend.scope import StreamInfo
from windrow.sql_frontend.source_text import SourceText, Span, span_of
from windrow.sql_frontend.statement import StreamDefinition
from windrow.sql_frontend.syntax_nodes import CreateStream, Within
from windrow.sql_frontend.with_options import read_settings


@dataclass(frozen=True)
class FromItem:
    """One stream in FROM."""

    alias: str
    name: str
    window: Window
    keys: tuple[exp.Expr, ...]
    """Of PARTITION BY."""
    known: StreamInfo
    span: Span | None


def read_from(
    text: SourceText,
    select: exp.Select,
    joined: Sequence[JoinedTable],
    known: Mapping[str, StreamInfo] | None,
) -> list[FromItem]:
    """The streams in the order written, the one of FROM first."""
    first = select.args.get("from_")
    if first is None:
        raise text.at("FROM is missing: a statement joins two streams or more", select)
    tables = [first.this, *(each.table for each in joined)]
    found: list[FromItem] = []
    for table in tables:
        if not isinstance(table, exp.Table):
            raise text.at("expected the name of a stream", table)
        item = _read_table(text, table, select.args.get("within"), known)
        if any(item.alias.lower() == other.alias.lower() for other in found):
            raise text.at(f"two streams are called '{item.alias}'; give one an alias", table)
        found.append(item)
    return found


def _read_table(
    text: SourceText, table: exp.Table, for_all: exp.Expr | None, known: Mapping[str, StreamInfo] | None
) -> FromItem:
    if not isinstance(table.this, exp.Identifier):
        raise text.at("a call is not supported in FROM; name a stream", table)
    name = ".".join(part.name for part in table.parts)
    if known is not None and name not in known:
        alike = next((k for k in known if k.lower() == name.lower()), None)
        if alike is None:
            told = unknown("stream", name, known) if known else f"unknown stream '{name}'"
            raise text.at(f"{told}. CREATE STREAM makes one, streams={{name: frame}} passes one", table.this)
        name = alike
    within = table.args.get("within") or for_all
    if not isinstance(within, Within):
        raise text.at(
            f"stream '{table.alias_or_name}' has no window; write [RANGE 1 MINUTE] or [ROWS 1000] after it, "
            "or WINDOW 1 MINUTE at the end for all",
            table,
        )
    alias = table.alias_or_name
    try:
        window = Window.parse(_size(within), f"stream '{alias}'")
    except QueryError as error:
        raise text.at(str(error), within) from None
    keys = tuple(within.expressions)
    return FromItem(alias, name, window, keys, (known or {}).get(name, StreamInfo()), span_of(table))


def _size(within: Within) -> str:
    size = str(within.this)
    return size.lower() if within.args["kind"] == "time" else f"{size} {within.args['kind']}"


def read_source(text: SourceText, node: CreateStream) -> StreamDefinition:
    """`CREATE STREAM`."""
    settings = read_settings(text, node.args["options"], known=None)
    values = {key: _told(value) for key, value in settings.values.items()}
    lowered = {key.lower(): key for key in values}
    name = node.this.name
    if "format" not in lowered:
        raise text.at(f"stream '{name}': format is missing, such as format = 'parquet'", node.this)
    columns = []
    for column in node.args.get("columns") or ():
        if not isinstance(column, exp.ColumnDef) or column.args.get("kind") is None:
            raise text.at(f"stream '{name}': expected a column and its type, such as id BIGINT", column)
        if column.args.get("constraints"):
            raise text.at(f"stream '{name}': constraints are not supported", column)
        columns.append((column.name, column.args["kind"].sql(dialect="spark")))
    lower_names = [c.lower() for c, _ in columns]
    time = node.args.get("time")
    if time is not None and columns and time.name.lower() not in lower_names:
        raise text.at(f"stream '{name}': {unknown('column', time.name, [c for c, _ in columns])}", time)
    taken = {lowered["format"], lowered.get("path", "")}
    return StreamDefinition(
        name,
        values[lowered["format"]],
        values[lowered["path"]] if "path" in lowered else None,
        tuple(columns),
        time.name if time is not None else None,
        {key: value for key, value in values.items() if key not in taken},
        span_of(node.this),
    )


def _told(value: object) -> str:
    """As Spark's options take it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
