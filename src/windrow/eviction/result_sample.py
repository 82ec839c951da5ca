"""A sample of recent results, with the age of each stored row when the result was found.

With two streams a result needs one stored row, so it is enough to count the results of rows of each kind.
With more it needs a stored row of every stream but the one that completed it, and these are not independent:
rows of one key are kept or evicted together, and if streams lag behind each other, the age of one row
determines those of the others. So whole results are sampled, until the first row is evicted: after that,
results that lost two rows would hardly ever be seen, and the sample would look as if nothing were lost.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from windrow.eviction.window_view import ProbeResults, WindowView
from windrow.model.stateful import Stateful

Array = np.ndarray
MOST_RESULTS = 4096
"""Results that are kept."""
SOME = 64
"""Maximum number of results kept per probe."""


class ResultSample(Stateful):
    saved = ("ages", "weights", "scores")

    def __init__(self, streams: int) -> None:
        self.ages = np.empty((0, streams))
        """Seconds, by result and stream; NaN for the row that completed the result."""
        self.weights = np.empty(0)
        """How many results each represents."""
        self.scores = np.empty((0, streams))
        """By result and stream: the score of the row before the policy learned from this result."""

    def __len__(self) -> int:
        return len(self.weights)

    def add(self, found: ProbeResults, score: Callable[[WindowView, Array], Array]) -> None:
        """Keeps some results of a probe, with the scores of their rows."""
        which = np.arange(len(found) // SOME // 2, len(found), max(1, len(found) // SOME))
        ages, scores = [], []
        for view, rows, stored in zip(found.views, found.rows, found.stored, strict=True):
            own = rows[which]
            ages.append(np.where(stored[which], (found.newest[which] - view.ts[own]) / 1e6, np.nan))
            scores.append(score(view, own))
        self.ages = _most_recent(self.ages, np.stack(ages, axis=1))
        self.scores = _most_recent(self.scores, np.stack(scores, axis=1))
        self.weights = _most_recent(self.weights, np.full(len(which), len(found) / len(which)))


def _most_recent(before: Array, new: Array) -> Array:
    return np.concatenate([before, new])[-MOST_RESULTS:]
