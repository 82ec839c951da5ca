"""Forecast of recall by memory, from each stream's learned model.

Rows of a stream fall into groups that find more or less than others (by their key), and every group has its
curve's shape. Keeping a group's rows for an edge of the curve's concave envelope is an item: it takes memory
(rows per second x length of the edge) and brings results. The items that bring most per unit of memory come
first. With two streams results add up; with more, a result completed by one stream needs a row of each other
stream. Of what was learned from data that is in joint_forecast.py; here, where nothing but curves are known,
these rows are taken as independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from windrow.memory_models.age_curve import AgeCurve
from windrow.memory_models.allocation import POINTS, RecallCurve, Unit

Array = np.ndarray


@dataclass(frozen=True)
class StreamModel:
    """Of one stream."""

    curve: AgeCurve
    rate: float
    """Rows per second."""
    cost: float
    """Of a row, in the unit of memory."""
    ratios: Array
    """How much more than others each group of rows finds."""
    shares: Array
    """The part of the rows in each group."""
    edges: Array = field(default_factory=lambda: np.empty(0))
    """The scores between which the groups are, ascending: one less than groups."""

    def ratio(self, scores: Array) -> Array:
        """How much more than others rows of these scores find, told apart within groups too: from edge to
        edge it is a power of the score. Rows of the first group, which may have no score, are alike."""
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
        """As it is known, with finer groups, by `ratio`, and the parts of the rows in them as among rows of
        these scores."""
        ratios, shares, edges = groups(self.ratio(scores), np.ones(len(scores)))
        return replace(self, ratios=ratios, shares=shares, edges=edges)


@dataclass(frozen=True, eq=False)
class AdditiveForecast:
    """Of streams whose results add up, or of whose rows nothing is known together."""

    streams: Sequence[StreamModel]

    def curve(self, unit: Unit) -> RecallCurve:
        """Recall against memory, from nothing to complete windows."""
        size, gain, who = _items(self.streams)
        taken = np.concatenate(([0.0], np.cumsum(size)))
        found = np.zeros((len(self.streams), len(size) + 1))
        for stream in range(len(self.streams)):
            found[stream, 1:] = np.cumsum(np.where(who == stream, gain, 0.0))
        recall = _recall(found)
        amounts = np.linspace(0.0, max(taken[-1], 1e-9), POINTS)
        at = np.interp(amounts, taken, recall)
        return RecallCurve(amounts, np.clip(np.maximum.accumulate(at), 0.0, 1.0), unit)

    def binding_fraction(self, memory: float) -> float | None:
        """Not known of streams that are taken to be steady."""
        return None

    def shares(self, memory: float) -> tuple[float, ...]:
        """What the rows of each stream get of so much memory, where it is used as the curve takes it to
        be."""
        size, _, who = _items(self.streams)
        before = np.concatenate(([0.0], np.cumsum(size)[:-1]))
        taken = np.clip(memory - before, 0.0, size)
        return tuple(np.bincount(who, taken, len(self.streams)).tolist())


def _items(streams: Sequence[StreamModel]) -> tuple[Array, Array, Array]:
    """Memory, results per second and stream of each edge to keep a group for, the best first."""
    sizes, gains, owner = [], [], []
    for stream, known in enumerate(streams):
        ages, values = known.curve.envelope()
        for ratio, share in zip(known.ratios, known.shares, strict=True):
            rows = known.rate * share
            sizes.append(rows * known.cost * np.diff(ages))
            gains.append(rows * ratio * np.diff(values))
            owner.append(np.full(len(ages) - 1, stream))
    size, gain, who = np.concatenate(sizes), np.concatenate(gains), np.concatenate(owner)
    order = np.argsort(-gain / np.maximum(size, 1e-12), kind="stable")
    return size[order], gain[order], who[order]


def _recall(found: Array) -> Array:
    """Recall from the results each stream's rows bring (rows: streams), complete windows being all of
    them."""
    whole = found[:, -1]
    if whole.sum() <= 0:
        return np.ones(found.shape[1])
    if len(found) == 2:
        return found.sum(axis=0) / whole.sum()
    shares = np.where(whole[:, None] > 0, found / np.maximum(whole, 1e-300)[:, None], 1.0)
    others = np.stack([np.prod(np.delete(shares, k, axis=0), axis=0) for k in range(len(shares))])
    # Rows of a stream take part in all results but those it completes, and each has m - 1 that were stored.
    completed = np.maximum(whole.sum() / (len(whole) - 1) - whole, 0.0)
    together: Array = completed @ others / completed.sum()
    return together


def groups(ratios: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Ratios gathered into at most some dozens of groups, the part of the rows in each, and the ratios that
    lie between them."""
    if not len(ratios) or weights.sum() <= 0:
        return np.ones(1), np.ones(1), np.empty(0)
    steps, at = np.unique(np.rint(4 * np.log2(np.maximum(ratios, 2.0**-20))), return_inverse=True)
    rows = np.bincount(at, weights, len(steps))
    mean = np.bincount(at, weights * ratios, len(steps)) / rows
    return mean, rows / rows.sum(), 2.0 ** ((steps[1:] + steps[:-1]) / 8)
