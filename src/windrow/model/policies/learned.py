"""Policies that keep the most results, by models learned from the streams (Memory, section 3).

Parameters that are not given are learned while the query runs.
"""

from __future__ import annotations

from collections.abc import Mapping

from windrow.model.policies.base import (
    MemoryPolicy,
    check_learnable,
    decay,
    known_age_curves,
    number_of_age_bins,
    policy,
    width_of_sketch,
)
from windrow.model.policies.importance import By, check_by
from windrow.model.settings import choice, setting

AGE_METHODS = ("priority", "envelope")


@policy
class Age(MemoryPolicy):
    """Keeps rows at the ages at which they find most (Memory, section 3.2), for any age curve."""

    name = "age"
    age_bins: int = number_of_age_bins()
    age_curves: Mapping[str, tuple[float, ...]] | None = known_age_curves()
    method: str = setting(
        choice("method", *AGE_METHODS),
        '"priority" evicts the rows that find least per second of being kept from now on, which adapts to '
        'bursts. "envelope" gives each row one of two retention times in advance, which is optimal for rows '
        "that arrive evenly.",
        default="priority",
    )
    half_life: float = decay()

    def _validate(self) -> None:
        super()._validate()
        check_learnable(self.age_curves, self.monitor_fraction)


@policy
class Frequency(MemoryPolicy):
    """Keeps rows whose key arrives often on the other streams (PROB; Memory, section 3.3)."""

    name = "frequency"
    sketch_width: int = width_of_sketch()
    half_life: float = decay()


@policy
class Auto(MemoryPolicy):
    """Keeps the rows that are expected to find most per byte, by age, key and importance together."""

    name = "auto"
    by: By = setting(
        check_by,
        "The importance of results, as in `Importance`; None: all results count the same.",
        default=None,
    )
    age_bins: int = number_of_age_bins()
    sketch_width: int = width_of_sketch()
    half_life: float = decay()
