"""Limits of a join: the memory its windows may take, and the time a call may take."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from windrow.errors import QueryError
from windrow.model.stateful import Stateful
from windrow.model.units import SECOND, format_duration, parse_duration, parse_rows

_BYTES = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*([KMGT]?i?B?)\s*", re.IGNORECASE)
_SCALE = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
UNLIMITED = "unlimited"


@dataclass(frozen=True)
class MemoryLimit(Stateful):
    """Memory limit of all windows of a join together, with their payloads and indexes."""

    kind: Literal["bytes", "rows"]
    size: int

    @classmethod
    def parse(cls, value: str | int | MemoryLimit | None) -> MemoryLimit | None:
        """Accepts "256 MiB", "64 kB", "100000 rows" or a number of bytes; None for no limit."""
        if value is None:
            return None
        limit = value if isinstance(value, MemoryLimit) else cls._read(value)
        if limit.size <= 0:
            raise QueryError(f"the limit must be positive, got {value!r}")
        return limit

    @classmethod
    def _read(cls, value: str | int) -> MemoryLimit:
        if isinstance(value, int) and not isinstance(value, bool):
            return cls("bytes", value)
        if isinstance(value, str):
            rows = parse_rows(value)
            if rows is not None and not rows[1]:
                return cls("rows", rows[0])
            match = _BYTES.fullmatch(value)
            if match is not None:
                # As "MiB" is binary and "MB" decimal, so are "Mi" and "M".
                unit = match[2].lower().removesuffix("b")
                scale = _BINARY[unit[0]] if unit.endswith("i") and len(unit) == 2 else _SCALE.get(unit)
                if scale is not None:
                    return cls("bytes", round(float(match[1]) * scale))
        raise QueryError(f"expected '256 MiB', '100000 rows' or a number of bytes, got {value!r}")

    @property
    def is_unlimited(self) -> bool:
        return self.size >= _ENDLESS

    def __str__(self) -> str:
        if self.is_unlimited:
            return UNLIMITED
        if self.kind == "rows":
            return f"{self.size} rows"
        for unit in ("g", "m", "k"):
            if self.size >= _BINARY[unit]:
                return f"{self.size / _BINARY[unit]:.4g} {unit.upper()}iB"
        return f"{self.size} bytes"


_ENDLESS = 1 << 60
"""Bytes that no disk has, and that can still be added to a memory limit in 64 bits."""


def read_disk_limit(value: str | int | MemoryLimit | None) -> MemoryLimit | None:
    """Accepts "20 GiB", a number of bytes, or "unlimited"; None keeps windows in memory."""
    limit = MemoryLimit("bytes", _ENDLESS) if value == UNLIMITED else MemoryLimit.parse(value)
    if limit is not None and limit.kind == "rows":
        raise QueryError(f"expected bytes such as '20 GiB', or '{UNLIMITED}', got {value!r}")
    return limit


def memory_text(memory: MemoryLimit | None, disk: MemoryLimit | None) -> str | None:
    """What windows may hold, in memory and on disk.

    >>> memory_text(MemoryLimit.parse("2 GiB"), MemoryLimit.parse("20 GiB"))
    '2 GiB and 20 GiB on disk'
    """
    return None if memory is None else f"{memory} and {disk} on disk" if disk else str(memory)


_RATE = re.compile(
    r"\s*([+-]?(?:[\d_]+(?:\.\d*)?|\.\d+))\s*rows?\s*(?:/\s*s|/\s*second|per\s+second)\s*", re.IGNORECASE
)


@dataclass(frozen=True)
class Deadline:
    """Time limit of one call of `process`, or of one partition's part of a micro-batch.

    Exactly one of the two is given.
    """

    micros: int | None = None
    """Time for a call, in microseconds."""
    rate: float | None = None
    """Rows per second to keep up with, of all streams together."""

    @classmethod
    def parse(cls, value: str | timedelta | Deadline | None) -> Deadline | None:
        """Accepts "2 seconds", a timedelta, "50000 rows/s"; None for no limit."""
        if value is None or isinstance(value, Deadline):
            return value
        match = _RATE.fullmatch(value) if isinstance(value, str) else None
        if match is not None:
            deadline = cls(rate=float(match[1].replace("_", "")))
        else:
            deadline = cls(micros=parse_duration(value))
        if not (deadline.micros or deadline.rate or 0) > 0:
            raise QueryError(f"must be positive, got {value!r}; leave it out for no limit")
        return deadline

    def seconds(self, rows: int) -> float:
        """Seconds that a call with this many rows may take."""
        if self.rate is not None:
            return rows / self.rate
        assert self.micros is not None
        return self.micros / SECOND

    def __str__(self) -> str:
        return f"{self.rate:g} rows/s" if self.rate is not None else format_duration(self.micros or 0)
