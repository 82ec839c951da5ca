"""Policies as frozen descriptions, and what memory policies have in common: what to evict under a limit.

A description says which rows matter and what is known beforehand; `eviction/` builds the ranking from it. All
parameters have defaults, so a name is enough: shed="age" is shed=Age().
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar

from windrow.errors import Option, QueryError, placed, unknown
from windrow.model.policies.validation import check_kinds, is_amount

SPLITS = ("together", "equal")


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What all policies have in common: a name, validation, and a text without the defaults."""

    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        with placed(Option(policy=self.name)):
            self._validate()

    def _validate(self) -> None:
        """Refuses values that make no sense."""

    def __str__(self) -> str:
        values = {f.name: (getattr(self, f.name), f.default) for f in fields(self)}
        given = [f"{name}={value!r}" for name, (value, default) in values.items() if value != default]
        return f"{self.name}({', '.join(given)})"


@dataclass(frozen=True, kw_only=True)
class MemoryPolicy(Policy):
    """
    Parameters
    ----------
    split
        How the streams share the memory: "together" ranks the rows of all streams against each other,
        "equal" gives each stream the same, and a mapping from alias to a share gives each its own.
    monitor
        The part of the memory that may hold rows which are kept until they expire whatever their rank: what
        they join with tells the recall, and models learn from them. 0 for none.
    """

    samples: ClassVar[bool] = False
    """Whether results come as a sample, with weights."""
    split: str | Mapping[str, float] = "together"
    monitor: float = 0.05

    def _validate(self) -> None:
        check_kinds(self)
        if isinstance(self.split, str):
            if self.split not in SPLITS:
                raise QueryError(unknown("split", self.split, SPLITS))
        elif not isinstance(self.split, Mapping):
            raise QueryError(f"split must be one of {', '.join(SPLITS)}, or shares, got {self.split!r}")
        elif not self.split or any(not is_amount(share) or share == 0 for share in self.split.values()):
            raise QueryError(f"split must give each stream a share above 0, got {dict(self.split)}")
        else:
            object.__setattr__(self, "split", MappingProxyType(dict(self.split)))
        if not 0 <= self.monitor <= 0.5:
            raise QueryError(f"monitor is a part of the memory from 0 to 0.5, got {self.monitor}")

    def check(self, aliases: Sequence[str]) -> None:
        """Refuses a join it cannot serve."""
        return None

    def described(self) -> dict[str, Any]:
        """As plain values: what must be the same for a stored state to be used again. An importance may be
        another one, for that is how a query goes on that met a row its expression was not made for."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        if values.get("by") is not None:
            values["by"] = "given"
        plain = {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}
        return {"policy": self.name, **{k: repr(v) for k, v in plain.items() if k != "monitor"}}
