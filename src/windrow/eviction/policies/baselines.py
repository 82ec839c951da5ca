"""Baseline rankings, which learn nothing from the data."""

from __future__ import annotations

import numpy as np

from windrow.eviction.ranking import Ranking
from windrow.eviction.window_view import WindowView

Array = np.ndarray


class FifoRanking(Ranking):
    can_skip_sub_batches = True

    def priorities(self, view: WindowView) -> Array:
        return view.ts.astype(np.float64)


class RandomRanking(Ranking):
    can_skip_sub_batches = True

    def priorities(self, view: WindowView) -> Array:
        return view.rng.random(len(view))


class UntilExpiryRanking(Ranking):
    can_skip_sub_batches = True

    def priorities(self, view: WindowView) -> Array:
        return -view.ts.astype(np.float64)
