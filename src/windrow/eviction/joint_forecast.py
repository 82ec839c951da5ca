"""Forecast of recall by memory for joins of three and more streams.

Rows of a stream fall into cells, by the group of their key and the age bin. A policy keeps the fraction
`kept` of the rows that could be in a cell. A result that stream k completes needs its row of every other
stream. With c_j the cell of its row of stream j at that time,

    recall  =  mean over results of the product over j != k of kept(c_j),

where the mean is over a sample of whole results (`ResultSample`). So the streams that complete results, and
the keys and ages that occur together, are those of the data. With two streams the product has one factor, and
this is the sum over cells of  kept  times the fraction of the results their rows find, as in `forecast`.

Cells fill the memory in descending order of the rate at which their rows can still find results; cells of
equal rates fill alike (the edges of a curve's concave envelope). A policy that learns from the results it
finds counts only those whose other rows are held. So what it keeps of one stream depends on what it keeps of
the others, and the forecast is a fixed point: starting from complete windows, each round moves `kept` part of
the way to what the rates call for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from windrow.eviction.forecast import RecallForecast, StreamModel
from windrow.kernels.rate_fit import best_mean_rates
from windrow.memory_models.allocation import RecallCurve, Unit

Array = np.ndarray
LEVELS = 32
"""Amounts of memory at which recall is computed."""
ROUNDS = 12
PRIOR = 32.0
"""Weight of the stream's mean in the estimate of each cell, in results."""


@dataclass(frozen=True, eq=False)
class JointForecast(RecallForecast):
    """
    Parameters
    ----------
    ages, scores
        Ages and scores of the rows in a sample of results, by result and stream. Ages are in seconds, NaN for
        the row that completed the result (`ResultSample`).
    weights
        How many results each sampled one represents.
    responds
        Whether the policy learns from the results it finds, so that rows whose partners were evicted rank
        lower.
    """

    streams: Sequence[StreamModel]
    ages: Array
    scores: Array
    weights: Array
    responds: bool

    def curve(self, unit: Unit) -> RecallCurve:
        amounts = np.linspace(0.0, max(self._whole, 1e-9), LEVELS + 1)
        recall = [self._recall(kept) for kept in self._kept(amounts[1:])]
        return RecallCurve(amounts, np.clip(np.maximum.accumulate([0.0, *recall]), 0.0, 1.0), unit)

    def shares(self, memory: float) -> tuple[float, ...]:
        amounts = np.linspace(0.0, max(self._whole, 1e-9), LEVELS + 1)[1:]
        amounts = np.append(np.minimum(memory, self._whole), amounts[amounts > memory])
        taken = self._kept(amounts)[0] * self._sizes
        return tuple(float(taken[part].sum()) for part in self._parts)

    # -- the cells ----------------------------------------------------------------------------------

    @cached_property
    def _shapes(self) -> list[tuple[int, int]]:
        """Number of groups and of age bins, by stream."""
        return [(len(known.ratios), len(known.curve.rates)) for known in self.streams]

    @cached_property
    def _parts(self) -> list[slice]:
        """The cells of each stream, group by group."""
        ends = np.cumsum([0, *(groups * parts for groups, parts in self._shapes)]).tolist()
        return [slice(a, b) for a, b in pairwise(ends)]

    @cached_property
    def _sizes(self) -> Array:
        """Memory of each cell when all its rows are kept."""
        sizes = []
        for known, (_, parts) in zip(self.streams, self._shapes, strict=True):
            rows = known.rate * known.shares * known.curve.width
            sizes.append(np.repeat(rows * known.cost, parts))
        return np.concatenate(sizes)

    @property
    def _whole(self) -> float:
        return float(self._sizes.sum())

    @cached_property
    def _rates(self) -> Array:
        """Results per second and unit of memory of a row of each cell when everything is kept."""
        rates = []
        for known in self.streams:
            by_part = np.array(known.curve.rates) / known.curve.width / max(known.cost, 1e-12)
            rates.append(np.outer(known.ratios, by_part).ravel())
        return np.concatenate(rates)

    @cached_property
    def _cells(self) -> Array:
        """The cell of each row, by result and stream. The row that completed the result gets an extra cell,
        after all others, that is always kept."""
        found = []
        for s, (known, (_, parts), own) in enumerate(
            zip(self.streams, self._shapes, self._parts, strict=True)
        ):
            ages, scores = self.ages[:, s], self.scores[:, s]
            group = np.searchsorted(known.edges, scores)
            part = np.clip(np.nan_to_num(ages) / known.curve.width, 0, parts - 1).astype(np.int64)
            found.append(np.where(np.isnan(ages), len(self._sizes), own.start + group * parts + part))
        return np.stack(found, axis=1)

    # -- the fixed point ----------------------------------------------------------------------------

    def _kept(self, amounts: Array) -> list[Array]:
        """The fraction of each cell that is kept, for ascending amounts of memory."""
        kept, found = np.ones(len(self._sizes)), []
        for memory in amounts[::-1]:
            for turn in range(ROUNDS if self.responds else 1):
                wanted = self._filled(self._priorities(kept), float(memory))
                # Ever shorter steps: whole ones would go back and forth between two allocations.
                kept = kept + (wanted - kept) * (2 / (turn + 2) if self.responds else 1.0)
            found.append(kept)
        return found[::-1]

    def _priorities(self, kept: Array) -> Array:
        """The lowest priority that rows of each cell have had up to its age: they are held only if it was
        high enough."""
        rates = self._rates * self._met(kept) if self.responds else self._rates
        found = []
        for own, shape in zip(self._parts, self._shapes, strict=True):
            found.append(np.minimum.accumulate(best_mean_rates(rates[own].reshape(shape)), axis=1).ravel())
        return np.concatenate(found)

    def _filled(self, priorities: Array, memory: float) -> Array:
        """The fraction of each cell that fits, by descending priority; cells of equal priority share."""
        levels, at = np.unique(-priorities, return_inverse=True)
        sizes = np.bincount(at, self._sizes, len(levels))
        before = np.cumsum(sizes) - sizes
        part: Array = np.clip((memory - before) / np.maximum(sizes, 1e-12), 0.0, 1.0)[at]
        return part

    def _met(self, kept: Array) -> Array:
        """The fraction of the results of each cell's rows whose other rows are kept."""
        present = np.append(kept, 1.0)[self._cells]
        weights, count = self.weights, len(kept) + 1
        met = np.empty(count)
        for s, own in enumerate(self._parts):
            cells = self._cells[:, s]
            others = np.delete(present, s, axis=1).prod(axis=1)
            stored = cells < count - 1
            total = float(weights[stored].sum())
            mean = float((weights * others)[stored].sum()) / max(total, 1e-300)
            prior = PRIOR * total / max(int(stored.sum()), 1)
            all_of, met_of = (np.bincount(cells, each, count)[own] for each in (weights, weights * others))
            met[own] = (met_of + prior * mean) / np.maximum(all_of + prior, 1e-300)
        return met[:-1]

    def _recall(self, kept: Array) -> float:
        found = np.append(kept, 1.0)[self._cells].prod(axis=1)
        return float((self.weights * found).sum() / max(self.weights.sum(), 1e-300))
