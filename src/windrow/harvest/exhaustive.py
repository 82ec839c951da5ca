"""Exhaustive search for harvest fractions (GrubJoin s. 4.4): a reference, too slow for regular use."""

from __future__ import annotations

from math import prod

import numpy as np

from windrow.errors import QueryError
from windrow.harvest.model import HarvestModel
from windrow.kernels.harvest.exhaustive import exhaust, list_settings

Array = np.ndarray

LIMIT = 10**10
"""Most combinations to try: about ten seconds of work."""


def exhaustive(model: HarvestModel, z: float) -> Array:
    """Basic windows to probe, by direction and hop: the best of all integer settings."""
    sizes = np.array([1 + prod(map(int, counts)) for counts in model.counts], dtype=np.int64)
    combinations = prod(map(int, sizes))
    if combinations > LIMIT:
        raise QueryError(
            f"harvest: 'exhaustive' would try {combinations:.1e} settings, more than {LIMIT:.0e}; "
            f"use fewer or longer basic windows, or the method 'knapsack'"
        )
    _, work, fan = model.tables
    costs, outputs = (np.zeros((len(model), int(sizes.max()))) for _ in range(2))
    list_settings(model.rates, model.counts, work, fan, costs, outputs)
    best = np.zeros(len(model), dtype=np.int64)
    exhaust(model.budget(z), sizes, costs, outputs, best)
    return np.array([_digits(int(s), counts) for s, counts in zip(best, model.counts, strict=True)])


def _digits(setting: int, counts: Array) -> list[int]:
    """The basic windows at each hop of a setting, as `list_settings` numbers them."""
    if setting == 0:
        return [0] * len(counts)
    return [int(digit) + 1 for digit in np.unravel_index(setting - 1, tuple(counts))]
