"""Models that an operator has learned, small enough to report with every micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
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
    def of(cls, low: float, width: float, values: Sequence[float], averaged: bool) -> Histogram:
        """Average or sum neighbours until there are few enough."""
        step = max(1, ceil(len(values) / MOST_SPANS))
        groups = [values[k : k + step] for k in range(0, len(values), step)]
        return cls(low, width * step, tuple(sum(g) / (len(g) if averaged else 1) for g in groups))


@dataclass(frozen=True)
class LagHistogram:
    """How much newer one stream's row is than another's in results, in seconds."""

    of: str
    behind: str
    counts: Histogram


@dataclass(frozen=True)
class LearnedModels:
    """Learned models of one operator."""

    on: str
    windows: Mapping[str, str]
    memory: str | None
    deadline: str | None
    shed: str
    """The query, as text."""
    plan: str | None
    """The current plan as text, without the harvest."""
    ages: Mapping[str, Histogram]
    """By stream: results per second of a stored row, by its age in seconds; for policies that learn it."""
    lags: tuple[LagHistogram, ...]
    """Only with a deadline and harvesting."""
    harvest: Harvest | None
    """The last harvest when time was short; None if it never was."""

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON, with few digits."""
        models = {
            "windows": dict(self.windows),
            "ages": {alias: vars(spans) for alias, spans in self.ages.items()},
            "lags": [{"of": g.of, "behind": g.behind, **vars(g.counts)} for g in self.lags],
            "harvest": self.harvest and self.harvest.to_dict(),
        }
        shown: dict[str, Any] = json_value(vars(self) | models, DIGITS)
        return shown
