"""Selectivities by arriving and probed stream, learned from probes.

A selectivity belongs to a direction: the fraction of the rows of W_l that match a row arriving on S_i. If
streams lag, the two directions of a pair differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from windrow.errors import QueryError
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

    def __post_init__(self) -> None:
        for name in ("found", "tried"):
            array = np.asarray(getattr(self, name), dtype=float)
            if array.ndim != 2 or array.shape[0] != array.shape[1] or not (array >= 0).all():
                raise QueryError(
                    f"selectivities: {name} by stream and stream, from 0 up, got {array.tolist()}"
                )
            object.__setattr__(self, name, array)
        if not 0 < self.guess <= 1 or not self.prior > 0:
            raise QueryError(
                f"selectivities: a guess above 0 and up to 1 and a prior above 0 pairs, "
                f"got {self.guess} and {self.prior}"
            )

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
        if not 0 <= factor <= 1:
            raise QueryError(f"selectivities: the decay factor lies in 0..1, got {factor}")
        return replace(self, found=self.found * factor, tried=self.tried * factor)

    def by_hop(self, orders: Sequence[Sequence[int]]) -> Array:
        """By direction and hop (m, m-1), as the harvest model takes them."""
        return by_hop(self.matrix, orders)


def by_hop(matrix: Array, orders: Sequence[Sequence[int]]) -> Array:
    """A matrix by arriving and probed stream, as an array by direction and hop (m, m-1)."""
    return np.array([[matrix[i][s] for s in order] for i, order in enumerate(orders)], dtype=float)


def directional(
    matrix: Array, sizes: Sequence[float], scores: Array, orders: Sequence[Sequence[int]]
) -> Array:
    """Selectivities by direction and hop, computed from symmetric ones and lags.

    Rows of S_i and S_l in range of each other differ in time by -w_i to w_l. If a fraction sigma of all such
    pairs match, and S_i's row is last in a fraction p of these matches, then a row arriving on S_i finds
    sigma * p * lambda_l (w_i + w_l) matches among the lambda_l w_l rows of W_l.

    Parameters
    ----------
    matrix
        Symmetric (m, m): matches over pairs in range of each other, regardless of which row arrives first.
    sizes
        Sizes of the windows, in the time unit of the lags.
    scores
        Probabilities by direction, hop and basic window; those of a hop add up to p.
    """
    w = np.asarray(sizes, dtype=float)
    wider = (w[:, None] + w[None, :]) / w[None, :]
    return by_hop(np.asarray(matrix, dtype=float) * wider, orders) * scores.sum(axis=2)
