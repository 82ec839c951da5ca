"""RandomDrop: drop rates of arriving rows by static optimisation (GrubJoin's baseline, s. 6.2).

A random fraction of each stream's rows is admitted. A result needs all its rows, so the output is the full
output times the product of the fractions, while the cost is a sum of products of fractions. In logarithms the
cost is convex for scans and the output is linear, so descent finds the best fractions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.errors import QueryError
from windrow.harvest.model import HarvestModel

Array = np.ndarray

_LEAST = 1e-6
"""The smallest fraction of a stream that is admitted."""


@dataclass(frozen=True)
class DropRates:
    """The fraction of each stream that is admitted, and the expected effect.

    Parameters
    ----------
    keep
        The fraction of each stream's rows that is admitted.
    cost, output
        Expected cost and output per second.
    """

    keep: tuple[float, ...]
    cost: float
    output: float

    @property
    def drop(self) -> tuple[float, ...]:
        """The fraction of each stream's rows that is dropped."""
        return tuple(1 - fraction for fraction in self.keep)

    def __str__(self) -> str:
        fractions = ", ".join(f"{fraction:.1%}" for fraction in self.keep)
        return f"admits {fractions} of the rows: cost {self.cost:.3g}/s, {self.output:.3g} results/s"


def drop_rates(model: HarvestModel, z: float) -> DropRates:
    """The drop rates with the most output for a throttle fraction of the full cost."""
    from scipy.optimize import minimize  # imported here because only RandomDrop needs scipy's optimiser

    if not 0 < z <= 1:
        raise QueryError(f"a throttle fraction is above 0 and at most 1, got {z}")
    m, budget = len(model), z * model.full[0]
    if z == 1 or budget <= 0:
        return DropRates((1.0,) * m, *model.full)

    def excess(logs: Array) -> float:
        return float(np.log(model.admitting(np.exp(logs))[0] / budget))

    # Bisection for the equal fraction of all streams that just fits: the start of the descent, and the
    # fallback.
    low, high = np.log(_LEAST), 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(np.full(m, middle)) <= 0 else (low, middle)
    start = np.full(m, low)
    found = minimize(
        lambda logs: -logs.sum(),
        start,
        jac=lambda logs: -np.ones(m),
        bounds=[(np.log(_LEAST), 0.0)] * m,
        constraints=[{"type": "ineq", "fun": lambda logs: -excess(logs)}],
        method="SLSQP",
        options={"ftol": 1e-9, "maxiter": 200},
    )
    best = np.clip(found.x, np.log(_LEAST), 0.0)
    over = excess(best)
    if over > 0:  # by rounding. Every term of the cost contains at least one fraction, so this is enough.
        best = best - over
    if best.sum() < start.sum() or not np.isfinite(best).all():
        best = start
    keep = np.exp(best)
    return DropRates(tuple(keep.tolist()), *model.admitting(keep))
