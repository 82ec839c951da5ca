"""Quantities as people write them: durations ("5 minutes"), row counts ("1000 rows per key").

Internally, time is always int64 microseconds.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

from windrow.errors import QueryError

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY
LONGEST = 1 << 58
"""Maximum in microseconds or rows: sums of a few of these and of event times stay well inside 64 bits."""

UNITS = {
    "microsecond": MICROSECOND,
    "millisecond": MILLISECOND,
    "second": SECOND,
    "minute": MINUTE,
    "hour": HOUR,
    "day": DAY,
    "week": WEEK,
}
_SHORT = {"us": MICROSECOND, "µs": MICROSECOND, "ms": MILLISECOND, "s": SECOND, "sec": SECOND}
_SHORT |= {"m": MINUTE, "min": MINUTE, "h": HOUR, "d": DAY, "w": WEEK}
_DURATION = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*([a-zµ]+)\s*", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS = re.compile(r"\s*([+-]?[\d_]+)\s*rows?(\s+per\s+key)?\s*", re.IGNORECASE)


def unit_micros(name: str) -> int | None:
    """Microseconds of a unit of time, in singular or plural, or short; None for others.

    >>> unit_micros("Minutes"), unit_micros("ms"), unit_micros("months")
    (60000000, 1000, None)
    """
    known, name = UNITS | _SHORT, name.lower()
    return known.get(name) or known.get(name.removesuffix("s"))


def parse_duration(value: str | timedelta) -> int:
    """Microseconds of a duration.

    >>> parse_duration("1.5 minutes")
    90000000
    """
    if isinstance(value, timedelta):
        return round(value.total_seconds() * SECOND)
    if not isinstance(value, str):
        raise QueryError(f"expected a duration such as '5 minutes', got {value!r}")
    rest, total, sign = value, 0.0, 1.0
    while rest.strip():
        match = _DURATION.match(rest)
        if match is None:
            raise QueryError(f"expected a duration such as '5 minutes', got {value!r}")
        scale = unit_micros(match[2])
        if scale is None:
            raise QueryError(f"unknown unit {match[2]!r} in {value!r}; use seconds, minutes, hours, days")
        if match[1].startswith("-"):
            sign = -1.0  # of the whole: "-1 minute 30 seconds" is -90 seconds
        total += abs(float(match[1])) * scale
        rest = rest[match.end() :]
    if not value.strip():
        raise QueryError("expected a duration such as '5 minutes', got an empty text")
    if total > LONGEST:
        raise QueryError(f"longer than {LONGEST // WEEK} weeks: {value[:40]!r}")
    return round(sign * total)


def positive_duration(value: str | timedelta) -> int:
    """Microseconds of a duration that must not be zero."""
    micros = parse_duration(value)
    if micros <= 0:
        raise QueryError(f"must be positive, got {value}")
    return micros


def parse_rows(value: str) -> tuple[int, bool] | None:
    """(rows, per key) of text like "100 rows per key"; None if it is not a row count."""
    match = _ROWS.fullmatch(value)
    if match is None:
        return None
    digits = match[1].replace("_", "")
    if len(digits) > len(str(LONGEST)) or not digits.strip("+-"):
        raise QueryError(f"expected a number of rows such as '1000 rows', got {value[:40]!r}")
    return int(digits), match[2] is not None


def format_duration(micros: int) -> str:
    """The shortest exact text: 90000000 -> '90 seconds'.

    >>> format_duration(300_000_000)
    '5 minutes'
    """
    for name, scale in reversed(UNITS.items()):
        if scale >= SECOND and micros and micros % scale == 0:
            count = micros // scale
            return f"{count} {name}" if count == 1 else f"{count} {name}s"
    return f"{micros / SECOND:g} seconds"


def format_time(micros: int | None) -> str:
    """A time in UTC; empty without one.

    >>> format_time(1_700_000_000_000_000), format_time(None)
    ('2023-11-14 22:13:20', '')
    """
    return "" if micros is None else f"{_EPOCH + timedelta(microseconds=micros):%Y-%m-%d %H:%M:%S}"


def format_bytes(size: float) -> str:
    """
    >>> format_bytes(300), format_bytes(48 * 1024), format_bytes(2.5 * 2**20)
    ('300 bytes', '48.0 KiB', '2.5 MiB')
    """
    for scale, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= scale:
            return f"{size / scale:,.1f} {unit}"
    return f"{size:.0f} bytes"


def json_value(value: Any, digits: int | None = None) -> Any:
    """A value for JSON: arrays as lists, numbers rounded to `digits`, and None for NaN and infinities.

    >>> json_value({"a": [1.23456, float("inf")]}, 3)
    {'a': [1.23, None]}
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: json_value(each, digits) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(each, digits) for each in value]
    if not isinstance(value, float):
        return value
    if not isfinite(value):
        return None
    return value if digits is None else float(f"{value:.{digits}g}")


def short_number(value: float) -> str:
    """
    >>> short_number(1234567), short_number(0.25)
    ('1.23M', '0.25')
    """
    for scale, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:.3g}{unit}"
    return f"{value:.3g}"
