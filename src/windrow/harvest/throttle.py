"""The throttle: the fraction of the full work that the join may do (GrubJoin s. 3).

Each step multiplies the fraction by the performance, but by no more than the boost factor, and keeps it at
most 1. Performance is rows consumed over rows arrived (s. 3.1). Consumption cannot exceed arrival for long,
so a performance of 1 only shows that the join keeps up; the fraction is then multiplied by the full boost
factor, as in the paper. Between the sub-batches of a call `engine/limits/deadline_controller.py` sets the
fraction from the time left and the rows left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from windrow.errors import QueryError
from windrow.model.stateful import Stateful


@dataclass(frozen=True)
class Throttle(Stateful):
    """The throttle fraction and how it is adapted.

    Parameters
    ----------
    fraction
        The throttle fraction (z), above 0 and up to 1. A join starts with 1.
    boost
        The boost factor (gamma).
    interval
        The adaptation interval (Delta), in seconds.
    floor
        The smallest fraction. From 0 no factor could raise it again.
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


def adapted(throttle: Throttle, performance: float) -> Throttle:
    """The throttle after a step: its fraction times the performance, at most times the boost (s. 3.1).

    Parameters
    ----------
    performance
        The performance (beta), from `consumption`.
    """
    if not performance >= 0:
        raise QueryError(f"throttle: performance must be a number from 0 up, got {performance}")
    fraction = throttle.fraction * min(performance, throttle.boost)
    return replace(throttle, fraction=min(1.0, max(throttle.floor, fraction)))


def consumption(consumed: float, arrived: float) -> float:
    """Performance from rows taken out of the input buffers and rows put in, over all streams.

    Infinite from 1 on: rows that did not arrive cannot show how much faster the join could be.
    """
    if not (consumed >= 0 and arrived >= 0):
        raise QueryError(f"throttle: rows must not be negative, got {consumed} consumed, {arrived} arrived")
    return inf if consumed >= arrived else consumed / arrived
