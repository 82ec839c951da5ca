"""Small tables from text, and comparison of rows regardless of their order."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa

from windrow.errors import DataError

NULL = "-"
DAY = "2024-01-01"
"""The day of times without a date."""
Rows = pa.Table | Iterable[Mapping[str, Any]]


def table(text: str, time: str = "at") -> pa.Table:
    """A table from text: a line of names, then a line per row. Semicolons may replace line breaks.

    Values are separated by spaces. Put a value with spaces in quotes; `-` is null. The type of a column is
    the first that fits all its values: integer, float, boolean, string. The time column takes seconds
    ("1.5"), a time of 2024-01-01 ("12:00:05"), or a timestamp ("2024-05-01T12:00:05").

    Examples
    --------
    >>> rows = table('''
    ...     at        k  name
    ...     12:00:00  1  "a b"
    ...     12:00:05  -  c
    ... ''')
    >>> rows.column("k").to_pylist(), rows.column("name").to_pylist()
    ([1, None], ['a b', 'c'])
    >>> table("at k; 0 1; 2.5 2").column("at").to_pylist()[1].microsecond
    500000
    """
    lines = [shlex.split(line) for line in text.replace(";", "\n").splitlines() if line.strip()]
    if not lines:
        raise DataError("expected a line of column names, got an empty text")
    names, *rows = lines
    for row in rows:
        if len(row) != len(names):
            raise DataError(f"expected a value for each of {names}, got {row}")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(names, ())
    if time not in columns:
        raise DataError(f"there is no time column '{time}'; the columns are {names}")
    return pa.table(
        {name: _times(values) if name == time else _array(values) for name, values in columns.items()}
    )


def _times(values: Iterable[str]) -> pa.Array:
    return pa.array([None if v == NULL else _micros(v) for v in values], pa.timestamp("us"))


def _micros(text: str) -> int | datetime:
    try:
        return round(float(text) * 1e6)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text if "-" in text else f"{DAY}T{text}")
    except ValueError:
        raise DataError(f"expected seconds, a time or a timestamp, got {text!r}") from None


def _array(values: Iterable[str]) -> pa.Array:
    given = [None if value == NULL else value for value in values]
    words = {"true": True, "false": False}
    for read, kind in ((int, pa.int64()), (float, pa.float64()), (lambda v: words[v.lower()], pa.bool_())):
        try:
            return pa.array([None if v is None else read(v) for v in given], kind)
        except (ValueError, KeyError):
            continue
    return pa.array(given, pa.string())


def assert_same_rows(found: Any, wanted: Any) -> None:
    """Assert that two results have the same rows, equally often, in any order.

    Accepts tables, lists of dicts and Spark DataFrames. The error lists missing and surplus rows.

    Examples
    --------
    >>> assert_same_rows(table("at k; 0 1; 1 2"), table("at k; 1 2; 0 1"))
    >>> assert_same_rows([{"k": 1}], [{"k": 1}, {"k": 2}])
    Traceback (most recent call last):
    AssertionError: 1 row is missing: {'k': 2}
    """
    have, want = (Counter(map(_frozen, _listed(rows))) for rows in (found, wanted))
    shown = [
        f"{sum(rows.values())} row{' is' if sum(rows.values()) == 1 else 's are'} {what}: {_shown(rows)}"
        for what, rows in (("missing", want - have), ("too many", have - want))
        if rows
    ]
    assert not shown, "; ".join(shown)


def _listed(rows: Any) -> list[Mapping[str, Any]]:
    if hasattr(rows, "to_pylist"):
        return list(rows.to_pylist())
    if hasattr(rows, "collect"):
        rows = rows.collect()
    return [row.asDict(recursive=True) if hasattr(row, "asDict") else row for row in rows]


def _frozen(value: Any) -> Any:
    """A hashable copy, in which NaN equals NaN."""
    if isinstance(value, Mapping):
        return tuple((key, _frozen(each)) for key, each in value.items())
    if isinstance(value, list | tuple):
        return ("list", *map(_frozen, value))
    return "NaN" if value != value else value


def _shown(rows: Counter[Any]) -> str:
    some = [str(_thawed(row)) for row in list(rows.elements())[:5]]
    return ", ".join(some) + (", ..." if sum(rows.values()) > len(some) else "")


def _thawed(row: Any) -> Any:
    if isinstance(row, tuple) and all(isinstance(part, tuple) and len(part) == 2 for part in row):
        return {key: _thawed(value) for key, value in row}
    return row
