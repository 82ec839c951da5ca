"""How a window is searched for the rows that match."""

from __future__ import annotations

from dataclasses import dataclass

from windrow.errors import QueryError, unknown

PATHS = ("hash", "sorted", "inverted", "scan")


@dataclass(frozen=True)
class Access:
    """How a window is searched: one of `PATHS`; `hash` with so many buckets, or as many as needed."""

    path: str
    buckets: int | None = None

    @classmethod
    def parse(cls, value: str | Access | None) -> Access | None:
        """Accepts one of `PATHS`, or "hash(30)", or an Access; None leaves it to the planner."""
        if value is None or isinstance(value, Access):
            access = value
        else:
            name, _, rest = value.replace(" ", "").partition("(")
            if rest and (name != "hash" or not rest.rstrip(")").isdigit()):
                raise QueryError(f"expected 'hash(number of buckets)', got {value!r}")
            access = cls(name, int(rest.rstrip(")")) if rest else None)
        if access is None:
            return None
        if access.path not in PATHS:
            raise QueryError(unknown("access path", access.path, PATHS))
        if access.buckets is not None and (access.path != "hash" or access.buckets < 1):
            raise QueryError(f"buckets must be a positive number for a hash path, got {access.buckets}")
        return access

    def __str__(self) -> str:
        return f"{self.path}({self.buckets})" if self.buckets else self.path
