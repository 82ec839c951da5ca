"""A fractional knapsack: items with the most gain per unit of memory first.

Items of equal density are taken in equal parts, so that equal streams get equal memory. With fractional items
this is the optimum of the linear program, for every amount of memory at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

Array = np.ndarray

_SAME = 1e-12
"""Relative difference below which densities differ only by rounding."""


@dataclass(frozen=True, eq=False)
class Knapsack:
    """Items by size and gain; an item of size 0 does not exist."""

    sizes: Array
    gains: Array

    @cached_property
    def density(self) -> Array:
        """Gain per unit of memory."""
        return np.divide(self.gains, self.sizes, out=np.zeros(len(self.sizes)), where=self.sizes > 0)

    @cached_property
    def levels(self) -> tuple[Array, Array]:
        """The densities in descending order, and the memory of all items down to each."""
        order = np.argsort(-self.density, kind="stable")
        return self.density[order], np.cumsum(self.sizes[order])

    def take(self, memory: float) -> Array:
        """How much of each item to take, in units of memory."""
        densities, filled = self.levels
        if not len(filled) or memory >= filled[-1]:
            return self.sizes.astype(float)
        last = densities[np.searchsorted(filled, memory, side="right")]
        above = self.density > last * (1 + _SAME)
        equal = ~above & (self.density >= last * (1 - _SAME))
        taken = np.where(above, self.sizes, 0.0)
        share = (memory - taken.sum()) / self.sizes[equal].sum()
        return np.where(equal, self.sizes * min(max(share, 0.0), 1.0), taken)
