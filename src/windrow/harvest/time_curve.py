"""Expected recall as a function of the fraction of the full work.

The full work is that of the exact join. Its duration is known if rows were timed; otherwise only its number
of comparisons. The curve omits work in the way of the query's time policy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from windrow.errors import Option, placed
from windrow.harvest.model import HarvestModel
from windrow.harvest.random_drop import drop_rates
from windrow.harvest.solve import DEFAULT, solve
from windrow.memory_models.allocation import LEVELS, amount_for, checked_curve
from windrow.model.notebook import html_text, short_repr

Array = np.ndarray
POINTS = 41


@dataclass(frozen=True, eq=False)
class TimeCurve:
    """Expected recall at fractions of the full work, linear between the points.

    Parameters
    ----------
    work
        Ascending fractions of the full work, from 0 to 1.
    recall
        The recall at each, from 0 to 1 and never falling.
    comparisons
        Comparisons of the full work, per second of the streams.
    seconds
        Time of one core for the full work, per second of the streams; None if nothing was timed.
    """

    work: Array
    recall: Array
    comparisons: float
    seconds: float | None = None

    def __post_init__(self) -> None:
        with placed(Option("time curve")):
            work, recall = checked_curve(self.work, self.recall, most=1.0)
        object.__setattr__(self, "work", work)
        object.__setattr__(self, "recall", recall)

    @classmethod
    def of_harvest(
        cls, model: HarvestModel, seconds: float | None = None, method: str = DEFAULT, parts: bool = True
    ) -> TimeCurve:
        """The curve of a join that probes the parts of windows with the highest yield."""
        return cls._of_output(lambda z: solve(model, z, method, parts).output, model, seconds)

    @classmethod
    def of_drop(cls, model: HarvestModel, seconds: float | None = None) -> TimeCurve:
        """The curve of a join that drops arriving rows."""
        return cls._of_output(lambda z: drop_rates(model, z).output, model, seconds)

    @classmethod
    def _of_output(
        cls, output: Callable[[float], float], model: HarvestModel, seconds: float | None
    ) -> TimeCurve:
        cost, full = model.full
        # More points at low fractions, where the curve bends most.
        work = np.linspace(0.0, 1.0, POINTS) ** 1.5
        found = [0.0, *(output(float(z)) for z in work[1:-1]), full]
        recall = np.array(found) / full if full > 0 else np.ones(POINTS)
        return cls(work, np.clip(np.maximum.accumulate(recall), 0.0, 1.0), cost, seconds)

    def at(self, work: float) -> float:
        """The recall at this fraction of the full work."""
        return float(np.interp(work, self.work, self.recall))

    def work_for(self, recall: float) -> float:
        """The smallest fraction of the work that reaches a recall; infinite if none does."""
        return amount_for(recall, self.work, self.recall)

    def amount(self, work: float) -> str:
        """A fraction of the work as text: in time if that is known, else in percent."""
        if not np.isfinite(work):
            return "more than is known"
        if self.seconds is None:
            return f"{100 * work:.3g} % of the work"
        return f"{format_seconds(work * self.seconds)} a second"

    __repr__ = short_repr
    _repr_html_ = html_text

    def __str__(self) -> str:
        return "\n".join(f"{100 * level:g} % needs {self.amount(self.work_for(level))}" for level in LEVELS)


def format_seconds(seconds: float) -> str:
    """A duration as text.

    >>> format_seconds(5400), format_seconds(1.5), format_seconds(0.0021), format_seconds(4e-5)
    ('1.5 hours', '1.5 s', '2.1 ms', '40 µs')
    """
    for scale, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 1.5 * scale:
            return f"{seconds / scale:.3g} {unit}"
    for fraction, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= fraction:
            return f"{seconds / fraction:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
