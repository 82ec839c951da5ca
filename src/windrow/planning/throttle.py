"""The throttle: what part of the full work the join may do (GrubJoin s. 3).

One rule adapts it, once in an interval, in a batch or in a quantum: the fraction is multiplied by the
performance, which is what the join can do over what is asked of it, but never by more than the boost factor;
and it stays at most 1. Only how performance is measured differs:

- rows consumed over rows that arrived (s. 3.1). Consumption cannot exceed arrival for long, so from 1 on this
  says no more than "enough", and the fraction is boosted in full, as in the paper;
- time allowed over time taken, between micro-batches. This also tells how much would be enough, so the
  fraction is never raised past it;
- the same for the rest of a batch: time left for each row left over the time each row took.

Work that does not depend on the fraction (rows taken in and let go, results built) is told apart as `fixed`:
only the rest can be changed by changing the fraction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from windrow.errors import QueryError


@dataclass(frozen=True)
class Throttle:
    """The throttle fraction and how it is adapted.

    Parameters
    ----------
    fraction
        Of the full work (z): above 0 and up to 1. A join starts with 1 and learns.
    boost
        The most by which it is multiplied in one step (gamma).
    interval
        Seconds between two steps (Delta).
    floor
        The least it falls to. From 0 it could not be raised again.
    """

    fraction: float = 1.0
    boost: float = 1.2
    interval: float = 5.0
    floor: float = 1e-4

    def __post_init__(self) -> None:
        if not 0 < self.floor <= 1:
            raise QueryError(f"throttle: a floor above 0 and up to 1, got {self.floor}")
        if not self.floor <= self.fraction <= 1:
            raise QueryError(f"throttle: a fraction of {self.floor:g} to 1, got {self.fraction}")
        if not 1 < self.boost < inf:
            raise QueryError(f"throttle: the boost factor must be above 1, got {self.boost}")
        if not 0 < self.interval < inf:
            raise QueryError(f"throttle: the interval must be above 0 seconds, got {self.interval}")

    def __str__(self) -> str:
        return f"throttle {self.fraction:.3g} (boost {self.boost:g}, every {self.interval:g} s)"

    def to_plain(self) -> dict[str, Any]:
        """As values that JSON can hold."""
        return {
            "fraction": self.fraction,
            "boost": self.boost,
            "interval": self.interval,
            "floor": self.floor,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Throttle:
        """What `to_plain` gave."""
        return cls(**{name: float(plain[name]) for name in ("fraction", "boost", "interval", "floor")})


def adapted(throttle: Throttle, performance: float) -> Throttle:
    """The throttle after a step: its fraction times the performance, at most times the boost (s. 3.1).

    Parameters
    ----------
    performance
        What the join can do over what is asked of it (beta), from one of the functions below.
    """
    if not performance >= 0:
        raise QueryError(f"throttle: performance must be a number from 0 up, got {performance}")
    fraction = throttle.fraction * min(performance, throttle.boost)
    return replace(throttle, fraction=min(1.0, max(throttle.floor, fraction)))


def consumption(consumed: float, arrived: float) -> float:
    """Performance from rows taken out of the input buffers and rows put in, of all streams.

    Infinite from 1 on: how much faster the join could go cannot be seen from rows it did not get.
    """
    if not (consumed >= 0 and arrived >= 0):
        raise QueryError(f"throttle: rows must not be negative, got {consumed} consumed, {arrived} arrived")
    return inf if consumed >= arrived else consumed / arrived


def timeliness(spent: float, budget: float, fixed: float = 0.0) -> float:
    """Performance from the time a batch took and the time it may take.

    Parameters
    ----------
    spent
        Seconds taken by all of the work.
    budget
        Seconds allowed; 0 is given when even the fixed work takes more, and the floor is all that is left.
    fixed
        The seconds of `spent` that do not depend on the throttle.
    """
    if not (spent >= 0 and budget > 0 and fixed >= 0):
        raise QueryError(
            f"throttle: a budget above 0 and work not below 0, got {budget}, {spent} with {fixed} fixed"
        )
    return _over(max(0.0, budget - fixed), max(0.0, spent - fixed))


def pace(spent: float, done: float, left: float, budget: float, fixed: float = 0.0) -> float:
    """Performance inside a batch: the time left for each row left, over the time each row took.

    Parameters
    ----------
    spent, done
        Seconds taken lately, at the present fraction, and the rows they were taken for.
    left
        Rows of the batch that are still to come.
    budget
        Seconds left; below 0 where the batch is late already.
    fixed
        Seconds for each row that do not depend on the throttle.
    """
    if not (spent >= 0 and done > 0 and left >= 0 and fixed >= 0):
        raise QueryError(
            f"throttle: work and rows must not be negative, and some be done; got {spent} for {done}, "
            f"{left} left, {fixed} fixed"
        )
    if left == 0:
        return inf
    return _over(max(0.0, budget / left - fixed), max(0.0, spent / done - fixed))


def _over(can: float, asked: float) -> float:
    return can / asked if asked > 0 else inf
