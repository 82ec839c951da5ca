"""Rankings that know nothing of the data."""

from __future__ import annotations

import numpy as np

from windrow.shed.ranking import Ranking
from windrow.shed.view import View

Array = np.ndarray


class FifoRanking(Ranking):
    skips = True

    def rank(self, view: View, rng: np.random.Generator) -> Array:
        return view.ts.astype(np.float64)


class RandomRanking(Ranking):
    skips = True

    def rank(self, view: View, rng: np.random.Generator) -> Array:
        return rng.random(len(view))


class UntilExpiryRanking(Ranking):
    skips = True

    def rank(self, view: View, rng: np.random.Generator) -> Array:
        return -view.ts.astype(np.float64)
