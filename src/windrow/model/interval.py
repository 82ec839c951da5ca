"""How often something is done: by rows arrived or event time passed."""

from __future__ import annotations

from dataclasses import dataclass

from windrow.errors import QueryError
from windrow.model.units import format_duration, parse_duration, parse_rows


@dataclass(frozen=True)
class Interval:
    """An interval in rows or in event time. Eager is every row."""

    rows: int | None = None
    time: int | None = None
    """Microseconds."""

    @classmethod
    def parse(cls, value: str | Interval | None) -> Interval | None:
        """Accepts "eager", "every 100 rows", "every 5 seconds" ("every" is optional)."""
        if value is None or isinstance(value, Interval):
            return value
        if not isinstance(value, str):
            raise QueryError(f"expected 'eager', 'every 100 rows' or 'every 5 seconds', got {value!r}")
        text = value.strip().removeprefix("every ").strip()
        if text == "eager":
            return cls(rows=1)
        if (rows := parse_rows(text)) is not None and not rows[1]:
            interval = cls(rows=rows[0])
        else:
            interval = cls(time=parse_duration(text))
        if (interval.rows or interval.time or 0) <= 0:
            raise QueryError(f"interval must be positive, got {value!r}")
        return interval

    def __str__(self) -> str:
        if self.rows == 1:
            return "eager"
        return f"every {self.rows} rows" if self.rows else f"every {format_duration(self.time or 0)}"
