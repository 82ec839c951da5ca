"""GrubJoin's greedy searches for harvest fractions, with its three metrics.

They go upward from nothing (s. 5.1, Fig. 5), downward from everything ("greedy reverse", s. 6.1), or from the
nearer side ("greedy double-sided", s. 6.1).
"""

from __future__ import annotations

import numpy as np

from windrow.errors import QueryError, unknown
from windrow.harvest.model import HarvestModel
from windrow.kernels.harvest import tables

Array = np.ndarray

METRICS = {
    "BestOutput": tables.OUTPUT,
    "BestOutputPerCost": tables.OUTPUT_PER_COST,
    "BestDeltaOutputPerDeltaCost": tables.GAIN,
}
BEST = "BestDeltaOutputPerDeltaCost"
"""The paper's choice, by its Figure 7."""


def greedy(model: HarvestModel, z: float, metric: str = BEST) -> Array:
    """Basic windows to probe, by direction and hop: starts with none and always adds the best one.

    Parameters
    ----------
    metric
        The measure of a step: its total output, its output per cost, or its additional output per additional
        cost.
    """
    _, work, fan = model.tables
    chosen = np.zeros(model.counts.shape, dtype=np.int64)
    tables.greedy(model.budget(z), metric_number(metric), model.rates, model.counts, work, fan, chosen)
    return chosen


def metric_number(metric: str) -> int:
    """The number of a metric in the kernels."""
    if metric not in METRICS:
        raise QueryError(f"harvest: {unknown('metric', metric, METRICS)}")
    return METRICS[metric]


def reverse(model: HarvestModel, z: float, metric: str = BEST) -> Array:
    """Basic windows to probe, by direction and hop: starts with all and always removes the least useful
    one."""
    _, work, fan = model.tables
    chosen = model.counts.copy()
    tables.reverse(model.budget(z), metric_number(metric), model.rates, work, fan, chosen)
    return chosen


def switch(streams: int) -> float:
    """The throttle fraction up to which the search upward is shorter.

    The cost is roughly a product of m - 1 harvest fractions, dominated by the last. With half of each window
    it is between 1/2 and 1/2^(m-1); the paper takes the middle of the exponents.
    """
    return 0.5 ** ((streams - 1) / 2)


def double_sided(model: HarvestModel, z: float) -> Array:
    """Basic windows to probe, by direction and hop: searched from the nearer side."""
    return (greedy if z <= switch(len(model)) else reverse)(model, z)
