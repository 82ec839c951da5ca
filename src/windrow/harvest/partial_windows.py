"""Harvests that use their budget to the last, by looking at one basic window in part."""

from __future__ import annotations

import numpy as np

from windrow.harvest.model import HarvestModel, between
from windrow.kernels.harvest import partial_windows, tables

Array = np.ndarray


def with_parts(model: HarvestModel, z: float, chosen: Array) -> Array:
    """Basic windows looked at, by direction and hop, of which one need not be whole.

    Either `chosen`, whole basic windows that fit, with what is left of the budget spent on a part of one
    more; or the way up from nothing, which ends with a part of the first step that does not fit. The second
    is better where the best step is too dear as a whole, so that complete windows leave it out.
    """
    _, work, fan = model.tables
    budget = model.budget(z)
    filled, climbed = np.empty(chosen.shape), np.empty(chosen.shape)
    tables.fill(budget, model.rates, model.counts, work, fan, chosen, filled)
    reached = partial_windows.climb(
        budget, model.rates, model.counts, work, fan, np.zeros_like(chosen), climbed
    )
    return climbed if reached > _output(model, fan, filled) else filled


def _output(model: HarvestModel, fan: Array, used: Array) -> float:
    output = 0.0
    for i, rate in enumerate(model.rates):
        partial = float(rate)
        for j in range(used.shape[1]):
            partial *= between(fan[i, j], float(used[i, j]))
        output += partial
    return output
