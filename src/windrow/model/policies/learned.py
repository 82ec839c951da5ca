"""Policies that keep the most results, from what was learned of the streams (Memory, section 3).

Parameters that are not given are learned while the query runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windrow.errors import Option, QueryError, placed, unknown
from windrow.model.policies.base import MemoryPolicy
from windrow.model.policies.importance import By, check_by
from windrow.model.policies.validation import (
    MOST_BUCKETS,
    MOST_COUNTERS,
    check_curves,
    check_half_life,
    check_most,
)

AGE_METHODS = ("priority", "envelope")


@dataclass(frozen=True, kw_only=True)
class Age(MemoryPolicy):
    """Keeps rows at the ages at which they find most (Memory, section 3.2), for any age curve.

    Parameters
    ----------
    buckets
        How finely ages are told apart: parts of the window.
    curves
        Alias to results per row in each of equally long parts of its window, youngest first, where they are
        known; a stream that is not named finds nothing when stored. None: learned.
    method
        "priority" lets those rows go that find least per second of being kept from now on, which adapts to
        bursts; "envelope" gives each row one of two retention times beforehand, which is the optimum for
        rows that come evenly.
    half_life
        Of what was learned, in windows.
    """

    name = "age"
    buckets: int = 40
    curves: Mapping[str, tuple[float, ...]] | None = None
    method: str = "priority"
    half_life: float = 4.0

    def _validate(self) -> None:
        super()._validate()
        if self.buckets < 1:
            raise QueryError(f"buckets must be a number from 1, got {self.buckets}")
        check_most("buckets", self.buckets, MOST_BUCKETS)
        if self.method not in AGE_METHODS:
            raise QueryError(unknown("method", self.method, AGE_METHODS))
        check_half_life(self.half_life)
        if self.curves is not None:
            check_curves(self.curves)
        elif self.monitor == 0:
            raise QueryError("without monitored rows nothing can be learned; give curves, or monitor")

    def check(self, aliases: Sequence[str]) -> None:
        for alias in self.curves or ():
            if alias not in aliases:
                raise QueryError(unknown("stream", str(alias), aliases), Option("curves"))


@dataclass(frozen=True, kw_only=True)
class Frequency(MemoryPolicy):
    """Keeps rows whose key comes often on the other streams (PROB; Memory, section 3.3).

    Parameters
    ----------
    width
        Counters per stream and key; values beyond that share them.
    half_life
        Of the counts, in windows.
    """

    name = "frequency"
    width: int = 8192
    half_life: float = 4.0

    def _validate(self) -> None:
        super()._validate()
        if self.width < 16:
            raise QueryError(f"width must be a number from 16, got {self.width}")
        check_most("width", self.width, MOST_COUNTERS)
        check_half_life(self.half_life)


@dataclass(frozen=True, kw_only=True)
class Auto(MemoryPolicy):
    """Keeps the rows that are expected to find most per byte, from age, key and importance together.

    Parameters
    ----------
    by
        What makes a result important, as in `Importance`; None: all results count the same.
    buckets, width, half_life
        As in `Age` and `Frequency`.
    """

    name = "auto"
    by: By = None
    buckets: int = 40
    width: int = 8192
    half_life: float = 4.0

    def _validate(self) -> None:
        super()._validate()
        if self.buckets < 1 or self.width < 16:
            raise QueryError(f"buckets from 1 and width from 16, got {self.buckets}, {self.width}")
        with placed(Option("by")):
            object.__setattr__(self, "by", check_by(self.by))
        check_most("buckets", self.buckets, MOST_BUCKETS)
        check_most("width", self.width, MOST_COUNTERS)
        check_half_life(self.half_life)


POLICIES: tuple[type[MemoryPolicy], ...] = (Age, Frequency, Auto)
