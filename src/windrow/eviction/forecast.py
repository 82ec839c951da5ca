"""Forecast of recall by memory, from each stream's learned model.

Rows of a stream fall into groups by their keys. Groups differ in how much their rows find, but all have an
age curve of the same shape. Keeping the rows of a group for one edge of the curve's concave envelope is an
item of a knapsack: it takes memory (rows per second times the length of the edge) and yields results. Items
with the most results per unit of memory come first. With two streams results add up. With more, a result
completed by one stream needs a row of each other stream; this module assumes that those rows are kept
independently of each other, and joint_forecast.py uses a sample of results instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from windrow.memory_models.age_curve import AgeCurve, joint_recall
from windrow.memory_models.allocation import POINTS, RecallCurve, Unit
from windrow.memory_models.knapsack import Knapsack

Array = np.ndarray


class RecallForecast(ABC):
    """Expected recall as a function of memory."""

    @abstractmethod
    def curve(self, unit: Unit) -> RecallCurve:
        """Recall against memory, from nothing to complete windows."""

    @abstractmethod
    def shares(self, memory: float) -> tuple[float, ...]:
        """How this much memory is divided between the streams."""

    def binding_fraction(self, memory: float) -> float | None:
        """The fraction of time in which complete windows would take more; None if unknown, as for models that
        assume steady streams."""
        return None


@dataclass(frozen=True)
class StreamModel:
    """The learned model of one stream."""

    curve: AgeCurve
    rate: float
    """Rows per second."""
    cost: float
    """Memory of a row."""
    ratios: Array
    """Results of a row of each group, relative to the mean."""
    shares: Array
    """The fraction of the rows in each group."""
    edges: Array = field(default_factory=lambda: np.empty(0))
    """The scores between the groups, ascending."""

    def ratio(self, scores: Array) -> Array:
        """Results of rows with these scores, relative to the mean. Within a group the ratio is a power of the
        score; rows of the first group, which may have no score, share one ratio."""
        by_group = self.ratios[np.searchsorted(self.edges, scores)]
        inner = self.edges > 0
        if inner.sum() < 2:
            return by_group
        rise = np.log2(np.maximum(self.ratios, 1e-300))
        at_edges = (rise[:-1] + rise[1:])[inner] / 2
        logs = np.log2(np.maximum(scores.astype(np.float64), 1e-300))
        between = np.interp(logs, np.log2(self.edges[inner]), at_edges)
        return np.where(scores <= self.edges[0], by_group, 2.0**between)

    def regrouped(self, scores: Array) -> StreamModel:
        """The same model with finer groups, by `ratio`, whose shares are those among rows of these scores."""
        ratios, shares, edges = groups(self.ratio(scores), np.ones(len(scores)))
        return replace(self, ratios=ratios, shares=shares, edges=edges)


@dataclass(frozen=True, eq=False)
class AdditiveForecast(RecallForecast):
    """Forecast from the streams' models alone: exact for two streams, whose results add up."""

    streams: Sequence[StreamModel]

    def curve(self, unit: Unit) -> RecallCurve:
        items, owner = self._items
        order = np.argsort(-items.density, kind="stable")
        held = np.append(0.0, np.cumsum(items.sizes[order]))
        gains = [np.where(owner == stream, items.gains, 0.0)[order] for stream in range(len(self.streams))]
        found = np.pad(np.cumsum(gains, axis=1), ((0, 0), (1, 0)))
        stored = found[:, -1]
        shares = np.divide(found.T, stored, out=np.ones(found.T.shape), where=stored > 0)
        amounts = np.linspace(0.0, max(held[-1], 1e-9), POINTS)
        recall = np.interp(amounts, held, joint_recall(shares, stored))
        return RecallCurve(amounts, np.clip(np.maximum.accumulate(recall), 0.0, 1.0), unit)

    def shares(self, memory: float) -> tuple[float, ...]:
        items, owner = self._items
        return tuple(np.bincount(owner, items.take(memory), len(self.streams)).tolist())

    @cached_property
    def _items(self) -> tuple[Knapsack, Array]:
        """Memory and results per second of keeping a group for an edge of its curve, and its stream."""
        sizes, gains, owner = [], [], []
        for stream, known in enumerate(self.streams):
            ages, values = known.curve.envelope
            for ratio, share in zip(known.ratios, known.shares, strict=True):
                rows = known.rate * share
                sizes.append(rows * known.cost * np.diff(ages))
                gains.append(rows * ratio * np.diff(values))
                owner.append(np.full(len(ages) - 1, stream))
        return Knapsack(np.concatenate(sizes), np.concatenate(gains)), np.concatenate(owner)


def groups(ratios: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Groups similar ratios: their means, the fraction of the rows in each, and the edges between them."""
    if not len(ratios) or weights.sum() <= 0:
        return np.ones(1), np.ones(1), np.empty(0)
    steps, at = np.unique(np.rint(4 * np.log2(np.maximum(ratios, 2.0**-20))), return_inverse=True)
    rows = np.bincount(at, weights, len(steps))
    mean = np.bincount(at, weights * ratios, len(steps)) / rows
    return mean, rows / rows.sum(), 2.0 ** ((steps[1:] + steps[:-1]) / 8)
