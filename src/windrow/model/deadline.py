"""How long a join may take: so much time for each call, or as long as rows take to come at a given rate."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from windrow.errors import QueryError
from windrow.model.units import SECOND, format_duration, parse_duration

_RATE = re.compile(
    r"\s*([+-]?(?:[\d_]+(?:\.\d*)?|\.\d+))\s*rows?\s*(?:/\s*s|/\s*second|per\s+second)\s*", re.IGNORECASE
)


@dataclass(frozen=True)
class Deadline:
    """Of one call of `process`, or of one partition's part of a micro-batch.

    Just one of both is given.
    """

    micros: int | None = None
    """Time for a call, in microseconds."""
    rate: float | None = None
    """Rows per second to keep up with, of all streams together."""

    @classmethod
    def parse(cls, value: str | timedelta | Deadline | None, where: str) -> Deadline | None:
        """Accepts "2 seconds", a timedelta, "50000 rows/s"; None is no limit."""
        if value is None or isinstance(value, Deadline):
            return value
        match = _RATE.fullmatch(value) if isinstance(value, str) else None
        if match is not None:
            deadline = cls(rate=float(match[1].replace("_", "")))
        else:
            deadline = cls(micros=parse_duration(value, where))
        if not (deadline.micros or deadline.rate or 0) > 0:
            raise QueryError(f"{where}: must be positive, got {value!r}; leave it out for no limit")
        return deadline

    def seconds(self, rows: int) -> float:
        """What a call with so many rows may take."""
        if self.rate is not None:
            return rows / self.rate
        assert self.micros is not None
        return self.micros / SECOND

    def __str__(self) -> str:
        return f"{self.rate:g} rows/s" if self.rate is not None else format_duration(self.micros or 0)
