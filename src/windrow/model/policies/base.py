"""Policies as frozen descriptions: what they have in common, and readers of settings that several have.

`eviction/` builds the ranking from a description. All settings have defaults, so a name is enough: shed="age"
is shed=Age().
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from math import inf
from numbers import Real
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar, dataclass_transform

from windrow.errors import Option, QueryError, placed, unknown
from windrow.model.settings import keep_read_values, number, optional, setting, settings_class

SPLITS = ("shared", "equal")
BY_ALIAS = ("age_curves", "expected")
"""Settings that map from aliases."""


def is_amount(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < inf


def read_age_curves(curves: Any) -> Any:
    if not isinstance(curves, Mapping) or not curves:
        raise QueryError(f"expected results by alias, such as {{'a': (2, 1)}}, got {curves!r}")
    for alias, curve in curves.items():
        numbers = tuple(curve) if isinstance(curve, Iterable) else ()
        if not numbers or not all(is_amount(n) for n in numbers):
            with placed(Option(stream=str(alias))):
                raise QueryError(f"expected numbers from 0, one for each part of the window, got {curve!r}")
    return curves


def number_of_age_bins() -> Any:
    """A setting: the number of age bins."""
    # With more bins, or counters, the statistics take more memory than the rows that they decide about.
    read = number("a whole number of at least 1", lambda n: n >= 1, whole=True, most=10_000)
    return setting(read, "Number of age bins: equal parts of the window.", default=40)


def width_of_sketch() -> Any:
    """A setting: the width of a count-min sketch of keys."""
    read = number("a whole number of at least 16", lambda n: n >= 16, whole=True, most=1 << 24)
    shared = "Counters per stream and key. If there are more key values, they share counters."
    return setting(read, shared, default=8192)


def known_age_curves() -> Any:
    """A setting: age curves that are known."""
    return setting(
        optional(read_age_curves),
        "Known age curves: alias to the results of a row in each of equally long parts of its window, "
        "youngest first. A stream that is not named finds nothing when stored. None: learned.",
        default=None,
    )


def check_learnable(age_curves: Mapping[str, Any] | None, monitor_fraction: float) -> None:
    """Refuse age curves that would have to be learned without the rows they are learned from."""
    if age_curves is None and monitor_fraction == 0:
        raise QueryError(
            "age curves cannot be learned without monitored rows; pass age_curves=... or set "
            "monitor_fraction above 0"
        )


def decay(default: float = 4.0, unit: str = "windows") -> Any:
    """A setting: how fast learned statistics are forgotten."""
    read = number("above 0 windows", lambda n: n > 0)
    return setting(read, f"Half-life of the learned statistics, in {unit}.", default=default)


T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(setting,))
def policy(cls: type[T]) -> type[T]:
    """Decorator of a policy: a frozen dataclass of settings, all of them keywords."""
    return settings_class(f"wr.policies.{cls.__name__}", kw_only=True)(cls)


@policy
class Policy:
    """Base of all policies: a name, validation, and a text without the defaults."""

    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        with placed(Option(policy=self.name)):
            self._validate()

    def _validate(self) -> None:
        """Refuse invalid values."""
        keep_read_values(self)

    def described(self) -> dict[str, Any]:
        """Plain values that must be equal for stored state to be restored."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}
        return {"policy": self.name, **{k: repr(v) for k, v in plain.items()}}

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


@policy
class MemoryPolicy(Policy):
    """Decides which rows to evict under a memory limit."""

    samples: ClassVar[bool] = False
    """Whether results are a sample, with weights."""
    split: str | Mapping[str, float] = setting(
        _split,
        'How the streams share the memory: "shared" ranks the rows of all streams against each other, '
        '"equal" gives each stream the same, and a mapping from alias to a share gives each its own.',
        default="shared",
    )
    monitor_fraction: float = setting(
        number("a fraction of the memory from 0 to 0.5", lambda n: 0 <= n <= 0.5),
        "The fraction of the memory that may hold monitored rows, which are kept until they expire, even "
        "when the policy evicts them. Their results measure the recall, and models learn from them. 0 for "
        "none.",
        default=0.05,
    )

    def check(self, aliases: Sequence[str]) -> None:
        """Refuse a join that the policy cannot serve."""
        for name in BY_ALIAS:
            for alias in getattr(self, name, None) or ():
                if alias not in aliases:
                    raise QueryError(unknown("stream", str(alias), aliases), Option(name))

    def described(self) -> dict[str, Any]:
        """As above, but how much is monitored may change, and so may the importance, so that a query can
        recover from a row that its expression cannot handle."""
        found = super().described() | {"monitor_fraction": repr(self.monitor_fraction > 0)}
        return found if getattr(self, "by", None) is None else found | {"by": repr("given")}
