"""Recall by memory, and the allocation of memory between joins that maximises the lowest recall.

A recall curve is non-decreasing, so it can be inverted: the memory needed for a recall. The minimum over
joins is highest if all have the same recall, each divided by its weight (Memory s. 5, Theorem 5.1). Bisection
finds the highest common level whose total memory fits. A join that has all it can use stays there while the
others rise, so no memory is left unused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from windrow.errors import Option, QueryError, placed
from windrow.model.limits import MemoryLimit
from windrow.model.notebook import html_text, short_repr

Array = np.ndarray
Unit = Literal["bytes", "rows"]

POINTS = 129
"""Number of memory amounts at which a model's recall is computed."""
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
"""The recalls that a curve prints."""
_HALVINGS = 60
ALLOCATE = Option("allocate")


def checked_curve(amounts: Array, recall: Array, most: float = np.inf) -> tuple[Array, Array]:
    """The points of a non-decreasing curve of recall by an amount up to `most`, as floats."""
    amounts, recall = np.asarray(amounts, dtype=float), np.asarray(recall, dtype=float)
    if amounts.shape != recall.shape or amounts.ndim != 1 or not len(amounts):
        raise QueryError(f"one recall for each amount, got {amounts.shape}, {recall.shape}")
    if not (amounts >= 0).all() or (np.diff(amounts) <= 0).any():
        raise QueryError("the amounts must rise and not be negative")
    if not ((recall >= 0) & (recall <= 1)).all() or (np.diff(recall) < 0).any():
        raise QueryError("recall must lie in 0..1 and must not fall")
    if amounts[-1] > most:
        raise QueryError(f"the amounts must be at most {most:g}, got {amounts[-1]}")
    return amounts, recall


def amount_for(recall: float, amounts: Array, recalls: Array) -> float:
    """The least amount at which a curve, linear between its points, reaches a recall; infinite if it never
    does."""
    after = int(np.searchsorted(recalls, recall - 1e-12, side="left"))
    if after == len(recalls):
        return float("inf")
    if after == 0:
        return 0.0
    low, high = recalls[after - 1], recalls[after]
    part = min((recall - low) / (high - low), 1.0)
    return float(amounts[after - 1] + part * (amounts[after] - amounts[after - 1]))


@dataclass(frozen=True, eq=False)
class RecallCurve:
    """The expected recall by memory; linear between the points given.

    Parameters
    ----------
    memory
        Ascending amounts, in `unit`.
    recall
        The recall at each, from 0 to 1 and non-decreasing.
    """

    memory: Array
    recall: Array
    unit: Unit = "bytes"

    __repr__ = short_repr
    _repr_html_ = html_text

    def __post_init__(self) -> None:
        with placed(Option("recall curve")):
            memory, recall = checked_curve(self.memory, self.recall)
        object.__setattr__(self, "memory", memory)
        object.__setattr__(self, "recall", recall)

    def at(self, memory: float) -> float:
        """The recall with this much memory."""
        return float(np.interp(memory, self.memory, self.recall))

    def memory_for(self, recall: float) -> float:
        """The least memory that reaches a recall; infinite if none does."""
        return amount_for(recall, self.memory, self.recall)

    def through(self, measured: Mapping[float, float]) -> RecallCurve:
        """Shift the curve through recalls measured at some amounts of memory, and interpolate the shift
        between them. The end points, no memory and full memory, stay."""
        amounts = sorted(amount for amount in measured if 0 < amount < self.memory[-1])
        if not amounts:
            return self
        memory = np.unique(np.concatenate([self.memory, amounts]))
        by = [measured[amount] - self.at(amount) for amount in amounts]
        moved = np.interp(memory, [0.0, *amounts, memory[-1]], [0.0, *by, 0.0])
        recall = np.clip(np.interp(memory, self.memory, self.recall) + moved, 0.0, 1.0)
        # Measurements take precedence: with less memory the recall is at most the measured one.
        for amount in amounts:
            recall[memory < amount] = np.minimum(recall[memory < amount], measured[amount])
        return RecallCurve(memory, np.maximum.accumulate(recall), self.unit)

    def __str__(self) -> str:
        needed = {level: self.memory_for(level) for level in LEVELS}
        shown = {
            level: str(MemoryLimit(self.unit, round(memory))) if np.isfinite(memory) else "more than is known"
            for level, memory in needed.items()
        }
        return "\n".join(f"{100 * level:g} % needs {text}" for level, text in shown.items())


@dataclass(frozen=True)
class CurveAllocation:
    """Memory and recall by join, in the order given."""

    memory: tuple[float, ...]
    recall: tuple[float, ...]

    @property
    def worst(self) -> float:
        """The lowest recall of any join."""
        return min(self.recall)

    @classmethod
    def of(cls, curves: Sequence[RecallCurve], given: Array) -> CurveAllocation:
        """The recall of each join with the memory it is given."""
        recall = tuple(curve.at(float(memory)) for curve, memory in zip(curves, given, strict=True))
        return cls(tuple(map(float, given)), recall)


def allocate_max_min(
    curves: Sequence[RecallCurve], memory: float, weights: Sequence[float] | None = None
) -> CurveAllocation:
    """Divide memory between joins so that the lowest recall, each divided by its weight, is maximal.

    Parameters
    ----------
    curves
        One per join.
    memory
        For all joins together.
    weights
        How much each join matters: twice the weight gets twice the recall. Equal by default.
    """
    if not len(curves):
        raise QueryError("at least one join is needed, got none", ALLOCATE)
    if not 0 <= memory < np.inf:
        raise QueryError(f"memory must be a number from 0 up, got {memory}", ALLOCATE)
    if len({curve.unit for curve in curves}) > 1:
        raise QueryError("some curves count bytes and some rows; give all in one unit", ALLOCATE)
    w = np.ones(len(curves)) if weights is None else np.asarray(weights, dtype=float)
    if w.shape != (len(curves),) or not ((w > 0) & (w < np.inf)).all():
        raise QueryError(f"one positive weight for each of {len(curves)} joins, got {weights}", ALLOCATE)
    best = np.array([curve.recall[-1] for curve in curves])

    def needs(level: float) -> Array:
        recalls = np.minimum(level * w, best).tolist()
        return np.array([curve.memory_for(recall) for curve, recall in zip(curves, recalls, strict=True)])

    top = float((best / w).max())
    given = needs(_highest(lambda q: bool(needs(q).sum() <= memory), top))
    # On a flat curve the next level may cost much at once: the remainder goes to joins that lack memory.
    lacks = np.maximum(needs(top) - given, 0.0)
    left = max(memory - given.sum(), 0.0)
    given = given + lacks * (min(1.0, left / lacks.sum()) if lacks.sum() > 0 else 0.0)
    return CurveAllocation.of(curves, given)


def _highest(fits: Callable[[float], bool], top: float) -> float:
    """The highest value up to `top` that fits, if everything below a fitting value fits."""
    if fits(top):
        return top
    low, high = 0.0, top
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
