"""Harvests that use their whole budget by probing a fraction of one basic window."""

from __future__ import annotations

import numpy as np

from windrow.harvest.model import HarvestModel, between
from windrow.kernels.harvest import partial_windows, tables

Array = np.ndarray


def with_parts(model: HarvestModel, z: float, chosen: Array) -> Array:
    """Basic windows to probe, by direction and hop, one of them in part.

    The better of two candidates: `chosen`, which fits, with the rest of the budget spent on a fraction of one
    more basic window; or a greedy search from nothing, which ends with a fraction of the first step that does
    not fit. The second is better if the best step is too expensive as a whole, so that `chosen` omits it.
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
