"""Models that an operator has learned, small enough to report with every micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windrow.model.harvest import Harvest
from windrow.model.units import json_value

MOST_SPANS = 64
"""Maximum spans of a reported curve or histogram."""
DIGITS = 4


@dataclass(frozen=True)
class Histogram:
    """A curve or histogram: a value per span of equal width, from `low` up."""

    low: float
    width: float
    values: tuple[float, ...]

    @classmethod
    def of_rates(cls, low: float, width: float, values: Sequence[float]) -> Histogram:
        """Average neighbours until there are few enough."""
        together = -(-len(values) // MOST_SPANS)
        return cls(low, width * together, tuple(sum(v) / len(v) for v in _groups(values, together)))

    @classmethod
    def of_counts(cls, low: float, width: float, values: Sequence[float]) -> Histogram:
        """Sum neighbours until there are few enough."""
        together = -(-len(values) // MOST_SPANS)
        return cls(low, width * together, tuple(sum(v) for v in _groups(values, together)))


@dataclass(frozen=True)
class LagHistogram:
    """How much newer one stream's row is than another's in results, in seconds."""

    of: str
    behind: str
    counts: Histogram


@dataclass(frozen=True)
class LearnedModels:
    """Learned models of one operator.

    Parameters
    ----------
    on, windows, memory, deadline, shed
        The query, as text.
    plan
        The current plan as text, without the harvest.
    ages
        By stream: results per second of a stored row, by its age in seconds; for policies that learn it.
    lags
        Only with a deadline and harvesting.
    harvest
        The last harvest when time was short; None if it never was.
    """

    on: str
    windows: Mapping[str, str]
    memory: str | None
    deadline: str | None
    shed: str
    plan: str | None
    ages: Mapping[str, Histogram]
    lags: tuple[LagHistogram, ...]
    harvest: Harvest | None

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON, with few digits."""
        found: dict[str, Any] = {
            "on": self.on,
            "windows": dict(self.windows),
            "memory": self.memory,
            "deadline": self.deadline,
            "shed": self.shed,
            "plan": self.plan,
            "ages": {alias: vars(spans) for alias, spans in self.ages.items()},
            "lags": [{"of": g.of, "behind": g.behind, **vars(g.counts)} for g in self.lags],
            "harvest": None if self.harvest is None else self.harvest.to_dict(),
        }
        shown: dict[str, Any] = json_value(found, DIGITS)
        return shown


def _groups(values: Sequence[float], size: int) -> list[Sequence[float]]:
    return [values[k : k + size] for k in range(0, len(values), max(size, 1))]
