"""GrubJoin's greedy searches for harvest fractions, with its three metrics.

Upward from nothing (s. 5.1, Fig. 5), downward from everything ("greedy reverse", s. 6.1), or from the nearer
side ("greedy double-sided", s. 6.1).
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
    """Basic windows looked at, by direction and hop: from nothing, the best further one each time.

    Parameters
    ----------
    metric
        What is best: the output reached, the output per cost reached, or what is gained per further cost.
    """
    _, work, fan = model.tables
    chosen = np.zeros(model.counts.shape, dtype=np.int64)
    tables.greedy(model.budget(z), metric_number(metric), model.rates, model.counts, work, fan, chosen)
    return chosen


def metric_number(metric: str) -> int:
    """The number by which kernels know a metric."""
    if metric not in METRICS:
        raise QueryError(f"harvest: {unknown('metric', metric, METRICS)}")
    return METRICS[metric]


def reverse(model: HarvestModel, z: float, metric: str = BEST) -> Array:
    """Basic windows looked at, by direction and hop: of everything, the least missed one less each time."""
    _, work, fan = model.tables
    chosen = model.counts.copy()
    tables.reverse(model.budget(z), metric_number(metric), model.rates, work, fan, chosen)
    return chosen


def switch(streams: int) -> float:
    """The throttle fraction up to which the way up is shorter.

    The cost is about a product of m - 1 harvest fractions of which the last weighs most; with half of each
    window the cost is between 1/2 and 1/2^(m-1), and the paper takes the middle of the exponents.
    """
    return 0.5 ** ((streams - 1) / 2)


def double_sided(model: HarvestModel, z: float, metric: str = BEST) -> Array:
    """Basic windows looked at, by direction and hop."""
    return (greedy if z <= switch(len(model)) else reverse)(model, z, metric)
