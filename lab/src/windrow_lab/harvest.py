"""Problems of window harvesting for experiments and benchmarks, from the model alone.

GrubJoin's s. 6.1 gives rates of U[100, 500] and "random" selectivities, and says nothing of the time
correlations. Here selectivities are U[0, top], symmetric, orders are by low selectivity first, and matches of
each hop lie in a bell over the window, of a centre and a width drawn for each, or evenly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windrow.harvest.model import HarvestModel
from windrow.harvest.selectivity import by_hop
from windrow.model.harvest import BasicWindows, Harvest

RATES = (100.0, 500.0)
WIDTHS = (0.05, 0.4)
"""Standard deviations of the bells, in windows."""


def random_problem(
    seed: int, streams: int = 3, windows: int = 10, size: float = 10.0, top: float = 0.01, flat: bool = False
) -> HarvestModel:
    """A problem of nested loops.

    Parameters
    ----------
    windows
        Basic windows of each window.
    size
        Of each window, in seconds.
    top
        The greatest selectivity of a pair.
    flat
        Whether matches lie evenly in the windows.
    """
    random, m = np.random.default_rng(seed), streams
    rates = random.uniform(*RATES, m)
    pairs = np.triu(random.uniform(0, top, (m, m)), 1)
    pairs += pairs.T
    orders = [[int(s) for s in np.argsort(pairs[i], kind="stable") if s != i] for i in range(m)]
    centres = random.uniform(0, size, (m, m - 1, 1))
    widths = random.uniform(*WIDTHS, (m, m - 1, 1)) * size
    ages = (np.arange(windows) + 0.5) * size / windows
    return HarvestModel(
        BasicWindows.equal((size,) * m, windows),
        rates,
        rates * size,
        tuple(map(tuple, orders)),
        by_hop(pairs, orders),
        np.ones((m, m - 1, windows)) if flat else np.exp(-0.5 * ((ages - centres) / widths) ** 2),
    )


def first_hops(model: HarvestModel) -> float:
    """The part of the full cost that first hops have: rows that arrive, compared with a window each."""
    work = model.tables.work
    directions = np.arange(len(model))
    return float(model.rates @ work[directions, 0, model.counts[:, 0]] / model.full[0])


def greedy_opening_wide(model: HarvestModel, z: float) -> float:
    """Output per second of BestDeltaOutputPerDeltaCost for three streams if it opens a direction with as much
    of the second window as pays best, where the paper's opens it with one basic window of each."""
    work, fan = model.tables.work, model.tables.fan
    rates, n = model.rates[:, None, None], model.scores.shape[2]
    costs = rates * (work[:, 0, :, None] + fan[:, 0, :, None] * work[:, 1, None, :])
    outputs = rates * fan[:, 0, :, None] * fan[:, 1, None, :]
    at, left = [(0, 0)] * 3, model.budget(z)
    while True:
        best, gain = None, 0.0
        for i, (first, second) in enumerate(at):
            further = [(1, b) for b in range(1, n + 1)] if first == 0 else [(first + 1, second)]
            for to in [*further, (first, second + 1)] if first else further:
                if max(to) > n:
                    continue
                cost = costs[i][to] - costs[i][at[i]]
                found = outputs[i][to] - outputs[i][at[i]]
                if cost <= left and found > gain * cost:
                    best, gain = (i, to), found / cost
        if best is None:
            return float(sum(outputs[i][place] for i, place in enumerate(at)))
        i, to = best
        left -= costs[i][to] - costs[i][at[i]]
        at[i] = to


def realised(truth: HarvestModel, harvest: Harvest) -> tuple[float, float]:
    """Cost and output per second of a harvest of whole basic windows by nested loops, where scores are those
    of `truth` and not those it was chosen by."""
    cost, output = 0.0, 0.0
    for i, direction in enumerate(harvest.directions):
        entering = float(truth.rates[i])
        for j, hop in enumerate(direction.hops):
            rows, scores = truth.rows[hop.stream], truth.scores[i, j]
            looked = list(hop.probed)
            cost += entering * rows * hop.fraction
            entering *= float(truth.selectivities[i, j] * rows * scores[looked].sum() / scores.sum())
        output += entering
    return cost, output


def directional(
    matrix: np.ndarray, sizes: Sequence[float], scores: np.ndarray, orders: Sequence[Sequence[int]]
) -> np.ndarray:
    """Selectivities by direction and hop, computed from symmetric ones and lags.

    Rows of S_i and S_l in range of each other differ in time by -w_i to w_l. If a fraction sigma of all such
    pairs match, and S_i's row is last in a fraction p of these matches, then a row arriving on S_i finds
    sigma * p * lambda_l (w_i + w_l) matches among the lambda_l w_l rows of W_l.

    Parameters
    ----------
    matrix
        Symmetric (m, m): matches over pairs in range of each other, regardless of which row arrives first.
    sizes
        Sizes of the windows, in the time unit of the lags.
    scores
        Probabilities by direction, hop and basic window; those of a hop add up to p.
    """
    w = np.asarray(sizes, dtype=float)
    wider = (w[:, None] + w[None, :]) / w[None, :]
    return by_hop(np.asarray(matrix, dtype=float) * wider, orders) * scores.sum(axis=2)
