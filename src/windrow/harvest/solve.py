"""Chooses the harvest with the most output for a throttle fraction of the full cost (GrubJoin s. 4.2.2).

A method takes a model and a throttle fraction and returns the number of basic windows to probe, by direction
and hop. All methods stay within the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np

from windrow.errors import QueryError, unknown
from windrow.harvest.exhaustive import exhaustive
from windrow.harvest.greedy import double_sided, greedy, reverse
from windrow.harvest.knapsack import knapsack
from windrow.harvest.model import HarvestModel
from windrow.harvest.partial_windows import with_parts
from windrow.model.harvest import Harvest
from windrow.model.policies.time_policies import METHODS

Array = np.ndarray
Method = Callable[[HarvestModel, float], Array]

_FUNCTIONS: tuple[Method, ...] = (
    knapsack,
    greedy,
    partial(greedy, metric="BestOutput"),
    partial(greedy, metric="BestOutputPerCost"),
    reverse,
    double_sided,
    exhaustive,
)
SOLVERS: Mapping[str, Method] = MappingProxyType(dict(zip(METHODS, _FUNCTIONS, strict=True)))
DEFAULT = METHODS[0]


def solve(model: HarvestModel, z: float, method: str = DEFAULT, parts: bool = False) -> Harvest:
    """The harvest for a throttle fraction.

    Parameters
    ----------
    z
        The fraction of the full cost that may be spent; with 1 everything is probed.
    method
        A name in `METHODS`.
    parts
        Whether a basic window may be probed in part, to use the whole budget. The paper's methods probe only
        complete ones, and find nothing if even the cheapest does not fit.
    """
    if method not in METHODS:
        raise QueryError(f"harvest: {unknown('method', method, METHODS)}")
    if z >= 1:
        return model.harvest(model.counts, z, "everything")
    chosen = SOLVERS[method](model, z)
    if not parts:
        return model.harvest(chosen, z, method)
    return model.harvest(with_parts(model, z, chosen), z, method)
