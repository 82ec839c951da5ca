"""Policies as frozen descriptions, and the settings of all memory policies.

`eviction/` builds the ranking from a description. All settings have defaults, so a name is enough: shed="age"
is shed=Age().
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar

from windrow.errors import Option, QueryError, placed, unknown
from windrow.model.policies.validation import is_amount, number
from windrow.model.settings import keep_read_values, setting

SPLITS = ("together", "equal")
BY_ALIAS = ("curves", "expected")
"""Settings that map from aliases."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Base of all policies: a name, validation, and a text without the defaults."""

    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        with placed(Option(policy=self.name)):
            self._validate()

    def _validate(self) -> None:
        """Refuse invalid values."""
        keep_read_values(self)

    def __str__(self) -> str:
        values = {f.name: (getattr(self, f.name), f.default) for f in fields(self)}
        given = [f"{name}={value!r}" for name, (value, default) in values.items() if value != default]
        return f"{self.name}({', '.join(given)})"


def _split(split: Any) -> str | Mapping[str, float]:
    if isinstance(split, str):
        if split not in SPLITS:
            raise QueryError(unknown("split", split, SPLITS))
        return split
    if not isinstance(split, Mapping):
        raise QueryError(f"must be one of {', '.join(SPLITS)}, or shares, got {split!r}")
    if not split or any(not is_amount(share) or share == 0 for share in split.values()):
        raise QueryError(f"must give each stream a share above 0, got {dict(split)}")
    return MappingProxyType(dict(split))


@dataclass(frozen=True, kw_only=True)
class MemoryPolicy(Policy):
    """
    Parameters
    ----------
    split
        How the streams share the memory: "together" ranks the rows of all streams against each other,
        "equal" gives each stream the same, and a mapping from alias to a share gives each its own.
    monitor
        The fraction of the memory that may hold monitored rows, which are kept until they expire, even when
        the policy evicts them. Their results measure the recall, and models learn from them. 0 for none.
    """

    samples: ClassVar[bool] = False
    """Whether results are a sample, with weights."""
    split: str | Mapping[str, float] = field(default="together", metadata=setting(_split))
    monitor: float = field(
        default=0.05,
        metadata=setting(number(lambda n: 0 <= n <= 0.5, "a fraction of the memory from 0 to 0.5")),
    )

    def check(self, aliases: Sequence[str]) -> None:
        """Refuse a join that the policy cannot serve."""
        for name in BY_ALIAS:
            for alias in getattr(self, name, None) or ():
                if alias not in aliases:
                    raise QueryError(unknown("stream", str(alias), aliases), Option(name))

    def described(self) -> dict[str, Any]:
        """Plain values that must be equal for stored state to be restored. The importance may change, so that
        a query can recover from a row that its expression cannot handle."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        if values.get("by") is not None:
            values["by"] = "given"
        plain = {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}
        plain["monitor"] = self.monitor > 0
        return {"policy": self.name, **{k: repr(v) for k, v in plain.items()}}
