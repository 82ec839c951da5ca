"""Greedy from the side that is nearer (GrubJoin s. 6.1, "greedy double-sided")."""

from __future__ import annotations

import numpy as np

from windrow.planning.harvest_greedy import BEST, greedy
from windrow.planning.harvest_model import HarvestModel
from windrow.planning.harvest_reverse import reverse

Array = np.ndarray


def switch(streams: int) -> float:
    """The throttle fraction up to which the way up is shorter.

    The cost is about a product of m - 1 harvest fractions of which the last weighs most; with half of each
    window the cost is between 1/2 and 1/2^(m-1), and the paper takes the middle of the exponents.
    """
    return 0.5 ** ((streams - 1) / 2)


def double_sided(model: HarvestModel, z: float, metric: str = BEST) -> Array:
    """Basic windows looked at, by direction and hop."""
    return (greedy if z <= switch(len(model)) else reverse)(model, z, metric)
