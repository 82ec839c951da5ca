"""Random harvest problems, and what they cost and find computed the slow way, from GrubJoin's formulas."""

from __future__ import annotations

from math import log2

import numpy as np

from windrow.harvest.model import CostFactors, HarvestModel
from windrow.model.harvest import BasicWindows


def random_model(
    rng, streams=3, windows=5, size=10.0, selectivity=0.01, access=None, charges=None, ragged=False
):
    """Rates of 100 to 500, bells of any centre and width for scores."""
    m = streams
    lengths = [size / windows] * m
    if ragged:
        lengths = [float(size / rng.uniform(0.6, windows)) if windows > 1 else size for _ in range(m)]
        lengths = [min(size, length) for length in lengths]
    cut = BasicWindows((size,) * m, tuple(lengths))
    n = max(cut.counts)
    rates = rng.uniform(100, 500, m)
    orders = tuple(tuple(int(s) for s in rng.permutation([s for s in range(m) if s != i])) for i in range(m))
    middles = (np.arange(n) + 0.5) * size / n
    centre, width = rng.uniform(0, size, (m, m - 1, 1)), rng.uniform(0.05 * size, 0.4 * size, (m, m - 1, 1))
    sigma = rng.uniform(0, selectivity, (m, m - 1))
    return HarvestModel(
        cut,
        rates,
        rates * size,
        orders,
        sigma,
        np.exp(-0.5 * ((middles - centre) / width) ** 2),
        access=access,
        drivers=sigma * 2,
        charges=charges or CostFactors(),
    )


def slow_cost_and_output(model, chosen):
    """C and O (s. 4.3) for whole numbers of basic windows, one term after the other."""
    cost, output = model.charges.arrival * model.rates.sum(), 0.0
    for i, order in enumerate(model.orders):
        entering = model.rates[i]
        for j, stream in enumerate(order):
            n, c = model.windows.counts[stream], int(chosen[i][j])
            length, size = model.windows.lengths[stream], model.windows.sizes[stream]
            scores = model.scores[i, j, :n]
            ranked = sorted(range(n), key=lambda k, scores=scores: (-scores[k], k))[:c]
            parts = [(min((k + 1) * length, size) - k * length) / size for k in ranked]
            rows = model.rows[stream]
            looked = rows * sum(parts)
            found = sum(scores[k] for k in ranked) / scores.sum()
            matches = found * model.selectivities[i, j] * rows
            path = model.access[i][j] if model.access else "scan"
            met = found * (model.selectivities if model.drivers is None else model.drivers)[i, j] * rows
            work = {
                "scan": looked,
                "sorted": min(
                    looked, model.charges.lookup * sum(log2(1 + rows * part) for part in parts) + met
                ),
                "hash": min(looked, model.charges.lookup * c + met),
            }[path]
            cost += entering * (work + model.charges.match * matches)
            entering *= matches
        output += entering
    return cost, output
