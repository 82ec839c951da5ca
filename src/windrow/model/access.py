"""How a window is searched for matching rows."""

from __future__ import annotations

from dataclasses import dataclass

from windrow.errors import QueryError, unknown

PATHS = ("hash", "sorted", "inverted", "scan")


@dataclass(frozen=True)
class Access:
    """Access path of a window: one of `PATHS`; `hash` optionally with a number of buckets."""

    path: str
    buckets: int | None = None

    @classmethod
    def parse(cls, value: str | Access | None) -> Access | None:
        """Accepts one of `PATHS`, "hash(30)" or an Access; None leaves it to the planner."""
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
