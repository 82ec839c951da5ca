"""Text files, CSV and JSON lines, read like Spark in its mode PERMISSIVE.

A value that does not fit its column's type is null. A CSV line with too few values ends in nulls; surplus
values are ignored. A line that is not JSON is a row of nulls. Times without a zone are in the session's zone.
Arrow's parsers are strict: a file is first parsed as a whole, and only refused lines are parsed one by one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as pcsv
from pyarrow import json as pjson
from pyarrow import types as pt

_ZONED = r"(Z|[+-]\d{2}(:?\d{2})?)$"
_REFUSED = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
_BLOCK = 1 << 24
"""Block size of the parsers, in bytes. A line must fit into it."""


@dataclass(frozen=True)
class CsvDialect:
    header: bool = False
    separator: str = ","


def read_csv(
    source: Any, stored: pa.Schema, wanted: Sequence[str], dialect: CsvDialect, zone: str
) -> pa.Table:
    """Columns are in the order of `stored`, regardless of the header, as in Spark."""
    # Spark escapes a quote inside quotes as \", Arrow as "".
    data = source.read().replace(b'\\"', b'""')
    odd: list[tuple[str, int]] = []

    def handle(row: pcsv.InvalidRow) -> str:
        odd.append((row.text, row.actual_columns))
        return "skip"

    def read(text: bytes, names: list[str], kinds: Mapping[str, pa.DataType], skip: int) -> pa.Table:
        return pcsv.read_csv(
            pa.BufferReader(text),
            pcsv.ReadOptions(column_names=names, skip_rows=skip, block_size=_BLOCK),
            pcsv.ParseOptions(
                delimiter=dialect.separator,
                invalid_row_handler=handle,
            ),
            pcsv.ConvertOptions(
                column_types=kinds,
                include_columns=[n for n in names if n in wanted] or None,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
                true_values=["true", "True", "TRUE"],
                false_values=["false", "False", "FALSE"],
            ),
        )

    if not data.strip():
        return stored.empty_table().select(list(wanted))
    texts = {f.name: pa.string() for f in stored}
    skip = 1 if dialect.header else 0
    try:
        typed = {f.name: pa.string() if _is_parsed(f.type) else f.type for f in stored}
        table = read(data, stored.names, typed, skip)
    except pa.ArrowInvalid:
        odd.clear()
        table = read(data, stored.names, texts, skip)
    tables = [_typed(table, stored, zone)]
    for text, count in odd:
        names = [*stored.names[:count], *(f"further value {k}" for k in range(len(stored), count))]
        line = read(text.encode(), names, dict.fromkeys(names, pa.string()), 0)
        for name in wanted:
            if name not in line.column_names:
                line = line.append_column(name, pa.nulls(line.num_rows, pa.string()))
        tables.append(_typed(line.select(list(wanted)), stored, zone))
    return pa.concat_tables([t.select(list(wanted)) for t in tables])


def read_json(source: Any, schema: pa.Schema, zone: str) -> pa.Table:
    """One document per line."""
    data = source.read()
    read = pa.schema([(f.name, pa.string() if _is_parsed(f.type) else f.type) for f in schema])

    def parse(text: bytes) -> pa.Table:
        table = pjson.read_json(
            pa.BufferReader(text),
            pjson.ReadOptions(block_size=max(_BLOCK, len(text))),
            pjson.ParseOptions(explicit_schema=read, unexpected_field_behavior="ignore"),
        )
        return table.select(read.names)

    def parse_lines(lines: Sequence[bytes]) -> list[pa.Table]:
        """Bisects the lines to isolate those that the parser refuses."""
        try:
            return [parse(b"\n".join(lines))]
        except _REFUSED:
            if len(lines) == 1:
                return [pa.table([parse_field(_document(lines[0]), f) for f in schema], schema=read)]
            half = len(lines) // 2
            return parse_lines(lines[:half]) + parse_lines(lines[half:])

    def parse_field(document: Mapping[str, Any], field: pa.Field) -> Any:
        """One value; null if it does not fit its type, as for Spark."""
        value = document.get(field.name)
        kind = read.field(field.name).type
        if value is not None:
            if pt.is_timestamp(field.type) and type(value) is int:  # seconds since 1970
                with suppress(ValueError, OverflowError, OSError):  # past the year 9999: null
                    value = f"{datetime.fromtimestamp(value, UTC):%Y-%m-%dT%H:%M:%S}Z"
            elif pt.is_string(kind) and not isinstance(value, str):
                value = str(value) if isinstance(value, Decimal) else json.dumps(value, default=float)
            with suppress(*_REFUSED):
                return parse(json.dumps({field.name: value}, default=float).encode()).column(field.name)
        return pa.nulls(1, kind)

    if not data.strip():
        return schema.empty_table()
    try:
        table = parse(data)
    except _REFUSED:
        # Arrow refuses the whole file for one line. Only the wrong values in that line become null.
        table = pa.concat_tables(parse_lines([line for line in data.splitlines() if line.strip()]))
    return _typed(table, schema, zone)


def _document(line: bytes) -> Mapping[str, Any]:
    """A line's document; empty if it is none."""
    try:
        document = json.loads(line, parse_float=Decimal)  # decimals keep all their digits
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _is_parsed(kind: pa.DataType) -> bool:
    """Whether values of a type are read as text and parsed here."""
    return pt.is_timestamp(kind) or pt.is_date(kind) or pt.is_decimal(kind) or pt.is_binary(kind)


def _typed(table: pa.Table, schema: pa.Schema, zone: str) -> pa.Table:
    columns = []
    for name in table.column_names:
        kind, column = schema.field(name).type, table.column(name)
        columns.append(column if column.type == kind else parsed_values(column, kind, zone))
    return pa.table(columns, table.column_names)


def parsed_values(texts: Any, kind: pa.DataType, zone: str) -> Any:
    """Texts as values of a type; null if they cannot be parsed."""
    try:
        return _parsed(texts, kind, zone)
    except pa.ArrowInvalid:
        chunk = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
        coded = chunk.dictionary_encode()
        values = [_parsed_one(value, kind, zone) for value in coded.dictionary]
        return pa.array(values, kind).take(coded.indices)


def _parsed_one(text: pa.Scalar, kind: pa.DataType, zone: str) -> Any:
    try:
        return _parsed(pa.array([text.as_py()], pa.string()), kind, zone)[0].as_py()
    except pa.ArrowInvalid:
        return None


def _parsed(texts: Any, kind: pa.DataType, zone: str) -> Any:
    if not pt.is_timestamp(kind):
        return texts.cast(kind)
    zoned = pc.match_substring_regex(texts, _ZONED)
    # A bare date, such as 2024-01-01, also ends like an offset.
    zoned = pc.and_(zoned, pc.greater(pc.binary_length(texts), 10))
    plain = pc.if_else(zoned, pa.scalar(None, pa.string()), texts).cast(pa.timestamp("us"))
    if kind.tz is None:
        # A column without zone keeps the digits of a time with an offset.
        marked = pc.if_else(zoned, texts, pa.scalar(None, pa.string()))
        digits = pc.replace_substring_regex(marked, _ZONED, "").cast(pa.timestamp("us"))
        return pc.if_else(zoned, digits, plain)
    local = pc.assume_timezone(plain, zone, ambiguous="earliest", nonexistent="latest")
    given = pc.if_else(zoned, texts, pa.scalar(None, pa.string())).cast(pa.timestamp("us", "UTC"))
    return pc.if_else(zoned, given.cast(kind), local.cast(kind))
