"""GrubJoin's greedy search for harvest fractions (s. 5.1, Fig. 5), with its three metrics."""

from __future__ import annotations

import numpy as np

from windrow.errors import QueryError, unknown
from windrow.kernels import harvesting
from windrow.planning.harvest_model import HarvestModel

Array = np.ndarray

METRICS = {
    "BestOutput": harvesting.OUTPUT,
    "BestOutputPerCost": harvesting.OUTPUT_PER_COST,
    "BestDeltaOutputPerDeltaCost": harvesting.GAIN,
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
    harvesting.greedy(model.budget(z), metric_number(metric), model.rates, model.counts, work, fan, chosen)
    return chosen


def metric_number(metric: str) -> int:
    """The number by which kernels know a metric."""
    if metric not in METRICS:
        raise QueryError(f"harvest: {unknown('metric', metric, METRICS)}")
    return METRICS[metric]
