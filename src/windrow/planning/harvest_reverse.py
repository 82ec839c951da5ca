"""The greedy search the other way round: from everything down (GrubJoin s. 6.1, "greedy reverse")."""

from __future__ import annotations

import numpy as np

from windrow.kernels import harvesting
from windrow.planning.harvest_greedy import BEST, metric_number
from windrow.planning.harvest_model import HarvestModel

Array = np.ndarray


def reverse(model: HarvestModel, z: float, metric: str = BEST) -> Array:
    """Basic windows looked at, by direction and hop: of everything, the least missed one less each time."""
    _, work, fan = model.tables
    chosen = model.counts.copy()
    harvesting.reverse(model.budget(z), metric_number(metric), model.rates, work, fan, chosen)
    return chosen
