"""When lag histograms by pair pay against GrubJoin's m by stream (s. 5.2.2), whose equation 2 assumes that
the lags of two streams behind the first are independent.

S_2 and S_3 report the same events within a quarter of a second; S_1 reports them at some other time, spread
as swept. The lags behind S_1 are then nearly equal, the less independent the more S_1 is spread. Harvests are
chosen by scores learned from so many results, and what they find is computed from the true lags; the throttle
is set so that the true cost of each is the same. Nothing is claimed: this shows a choice.
"""

from __future__ import annotations

import numpy as np

from windrow.harvest.lags import PairLags, StreamLags
from windrow.harvest.model import HarvestModel
from windrow.harvest.solve import solve
from windrow.model.harvest import BasicWindows
from windrow_lab.experiment import Row
from windrow_lab.harvest import directional, realised
from windrow_lab.plots import Lines
from windrow_lab.sweep import swept

WINDOWS = BasicWindows((10.0,) * 3, (1.0,) * 3)
ORDERS = ((1, 2), (2, 0), (1, 0))
RATE, SELECTIVITY, CLOSE = 200.0, 0.002, 0.25
TRUE = 30_000
"""Results that the true scores are counted from."""


def measure(spread: float, learned: int, z: float, seed: int) -> list[Row]:
    random = np.random.default_rng(seed)
    true = PairLags.empty(WINDOWS.sizes, 400, prior=0.0).add(_results(random, spread, TRUE))
    truth = _model(true.scores(WINDOWS, ORDERS))
    sample = _results(random, spread, learned)
    best = _found(truth, truth.scores, z)
    rows = []
    for kind, lags in (("stream", StreamLags), ("pair", PairLags)):
        scores = lags.empty(WINDOWS.sizes).add(sample).scores(WINDOWS, ORDERS)
        rows.append({"lags": f"by {kind}, {learned} results", "found": _found(truth, scores, z) / best})
    return rows


def _results(random: np.random.Generator, spread: float, count: int) -> np.ndarray:
    """Times of the rows of results: all within the windows of each other."""
    times = random.normal(0.0, (spread, CLOSE, CLOSE), (4 * count, 3))
    return times[np.ptp(times, axis=1) <= WINDOWS.sizes[0]][:count]


def _model(scores: np.ndarray) -> HarvestModel:
    selectivities = directional(np.full((3, 3), SELECTIVITY), WINDOWS.sizes, scores, ORDERS)
    rates = np.full(3, RATE)
    return HarvestModel(WINDOWS, rates, rates * WINDOWS.sizes[0], ORDERS, selectivities, scores)


def _found(truth: HarvestModel, scores: np.ndarray, z: float) -> float:
    """Output of the harvest chosen by `scores` at the largest throttle whose true cost is within z."""
    belief = HarvestModel(WINDOWS, truth.rates, truth.rows, ORDERS, truth.selectivities, scores)
    low, high, best = 0.0, 1.0, 0.0
    for _ in range(20):
        middle = (low + high) / 2
        cost, output = realised(truth, solve(belief, middle))
        if cost <= z * truth.full[0]:
            low, best = middle, max(best, output)
        else:
            high = middle
    return best


EXPERIMENT = swept(
    "grubjoin-pair-lags",
    "Lags by pair or by stream",
    (),
    measure,
    full={
        "spread": (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0),
        "learned": (30, 300, 3000),
        "z": (0.05, 0.2),
        "seed": range(8),
    },
    quick={"spread": (0.25, 4.0), "learned": 300, "z": 0.2, "seed": range(2)},
    assess=lambda rows: [],
    plot=Lines("spread", "found", "lags", "z", "spread of S_1, seconds", "output, of that with true scores"),
    fixed={"rate": RATE, "selectivity": SELECTIVITY, "spread of S_2 and S_3": CLOSE},
)
