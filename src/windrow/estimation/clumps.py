"""Clumps: results come many to a row, and few rows have most of them.

Monitored rows, kept or not, are a fair sample of the clumps. Rows that lose results are assumed to find as
many as the monitored rows that found any. A policy that evicted the rows with the largest clumps would break
this, and would be a bad policy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from windrow.estimation.missed import gamma_quantile

TAIL = 0.025
"""Probability beyond each end of a 95 % interval."""
ERRORS = 2.0
"""Standard errors by which the mean clump may exceed its estimate."""


@dataclass(frozen=True)
class Clumps:
    """Monitored rows that found anything: their number, their results, and the sum of the squares."""

    rows: float = 0.0
    results: float = 0.0
    squares: float = 0.0

    @property
    def size(self) -> float:
        """Results per row, averaged over results: how many depend on the row of one of them."""
        return max(1.0, self.squares / self.results) if self.results else 1.0

    @property
    def dispersion(self) -> float:
        """The mean square of the results per row over the square of their mean: 1 if all rows are equal."""
        return max(1.0, self.squares * self.rows / self.results**2) if self.results else 1.0

    def unseen(self, weight: float) -> float:
        """Results that sampled rows of this weight miss for each row that they do not show.

        A sample that shows no row with lost results leaves room for about `weight` of them, with an
        exponential distribution, and each has a clump of its own. Of their sum, a gamma distribution has the
        mean and variance. Returned is the mean of the exponential distribution with the same upper bound.
        """
        if weight <= 1 or not self.results:
            return weight - 1
        mean = self.results / self.rows
        mean = min(self.size, mean + ERRORS * math.sqrt(mean * max(0.0, self.size - mean) / self.rows))
        expected = (weight - 1) * mean
        bound = gamma_quantile(expected, expected**2 + expected * self.size, 1 - TAIL)
        # Very unequal clumps are most likely small, and a gamma distribution then understates them.
        return max(expected, bound / -math.log(TAIL))
