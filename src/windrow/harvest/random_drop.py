"""RandomDrop: drop rates of arriving rows by static optimisation (GrubJoin's baseline, s. 6.2).

A part of each stream's rows, chosen at random, is let in. A result needs all its rows let in, so the output
is the product of the parts times the full output, while the cost is a sum of products of parts. In logarithms
the cost is convex and the output linear, so the best parts are found by descent, with certainty for scans.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windrow.errors import QueryError
from windrow.harvest.model import HarvestModel

Array = np.ndarray

_LEAST = 1e-6
"""No stream is let in less than this."""


@dataclass(frozen=True)
class DropRates:
    """What is dropped of each stream, and what that is expected to leave.

    Parameters
    ----------
    keep
        The part of each stream's rows that is let in.
    cost, output
        Expected per second.
    """

    keep: tuple[float, ...]
    cost: float
    output: float

    @property
    def drop(self) -> tuple[float, ...]:
        """The part of each stream's rows that is dropped."""
        return tuple(1 - part for part in self.keep)

    def __str__(self) -> str:
        parts = ", ".join(f"{part:.1%}" for part in self.keep)
        return f"lets in {parts} of the rows: cost {self.cost:.3g}/s, {self.output:.3g} results/s"


def drop_rates(model: HarvestModel, z: float) -> DropRates:
    """The parts that give the most output for a throttle fraction of the full cost."""
    from scipy.optimize import minimize  # only who drops needs it

    if not 0 < z <= 1:
        raise QueryError(f"random drop: a throttle fraction above 0 and up to 1, got {z}")
    m, budget = len(model), z * model.full[0]
    if z == 1 or budget <= 0:
        return DropRates((1.0,) * m, *model.full)

    def excess(logs: Array) -> float:
        return float(np.log(model.with_drop_rates(np.exp(logs)).full[0] / budget))

    # The same part of each stream that fits is where the descent starts, and what it falls back to.
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
    if over > 0:  # by rounding: every term of the cost has at least one part in it, so this is enough
        best = best - over
    if best.sum() < start.sum() or not np.isfinite(best).all():
        best = start
    keep = np.exp(best)
    return DropRates(tuple(keep.tolist()), *model.with_drop_rates(keep).full)
