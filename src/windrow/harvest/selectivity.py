"""Selectivities by arriving and probed stream, learned from probes.

A selectivity belongs to a direction: the fraction of the rows of W_l that match a row arriving on S_i. If
streams lag, the two directions of a pair differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from windrow.model.stateful import Stateful

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Selectivities(Stateful):
    """Matches found and pairs tried, by arriving and probed stream (m, m). Immutable.

    Parameters
    ----------
    found, tried
        From probes of window shredding, which the harvest does not bias.
    guess
        The selectivity assumed before any pair is tried.
    prior
        Number of pairs that the assumption counts for.
    """

    found: Array
    tried: Array
    guess: float = 0.01
    prior: float = 100.0

    @classmethod
    def unknown(cls, streams: int, guess: float = 0.01, prior: float = 100.0) -> Selectivities:
        """Nothing learned."""
        return cls(np.zeros((streams, streams)), np.zeros((streams, streams)), guess, prior)

    @property
    def matrix(self) -> Array:
        """(matches found + those assumed) / (pairs tried + those assumed)."""
        return (self.found + self.guess * self.prior) / (self.tried + self.prior)

    def add(self, found: Array, tried: Array) -> Selectivities:
        """The selectivities with further probes, by arriving and probed stream."""
        return replace(self, found=self.found + found, tried=self.tried + tried)

    def decayed(self, factor: float) -> Selectivities:
        """The selectivities with all counts multiplied by `factor`, to follow changes of the streams."""
        return replace(self, found=self.found * factor, tried=self.tried * factor)


def by_hop(matrix: Array, orders: Sequence[Sequence[int]]) -> Array:
    """A matrix by arriving and probed stream, as an array by direction and hop (m, m-1)."""
    return np.array([[matrix[i][s] for s in order] for i, order in enumerate(orders)], dtype=float)
