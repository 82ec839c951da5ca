"""Selectivities by arriving and probed stream, learned from probes.

A selectivity is that of a direction: of the rows of W_l that are tried with something that came from S_i, the
part that match. Where streams lag, those of the two directions of a pair differ.
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
    """Matches found and pairs tried, by arriving and probed stream (m, m). A value: adding gives another.

    Parameters
    ----------
    found, tried
        Of probes that are not biased by the harvest: those of window shredding.
    guess
        The selectivity assumed where nothing was tried.
    prior
        How many pairs tried that assumption is worth.
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
        """With further probes, by arriving and probed stream."""
        return replace(self, found=self.found + found, tried=self.tried + tried)

    def decayed(self, factor: float) -> Selectivities:
        """With what was learned so far counting less, so that changes are followed."""
        if not 0 <= factor <= 1:
            raise QueryError(f"selectivities: fading keeps a part of 0..1, got {factor}")
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
    """Selectivities by direction and hop from symmetric ones, where lags are known.

    Rows of S_i and S_l that are in range of each other differ in time by -w_i to w_l. If a part sigma of all
    such pairs match, and a part p of these matches has S_i's row last, then an arriving row of S_i finds
    sigma * p * lambda_l (w_i + w_l) matches among the lambda_l w_l rows of W_l.

    Parameters
    ----------
    matrix
        Symmetric (m, m): matches over pairs in range of each other, whichever came first.
    sizes
        Of the windows, in the unit of time of the lags.
    scores
        By direction, hop and basic window, as chances, so that those of a hop add up to p.
    """
    w = np.asarray(sizes, dtype=float)
    wider = (w[:, None] + w[None, :]) / w[None, :]
    return by_hop(np.asarray(matrix, dtype=float) * wider, orders) * scores.sum(axis=2)
