"""AUTO: ranks rows by expected results per second of residence, from their age and keys together.

A row's score is the predicted arrival rate of its keys on the other streams, from their recent arrivals on
all streams (`models/key_intensity.py`). Rows of the current sub-batch do not count yet, so a row's own
results never predict it. A second model learns what rows of each score and age really find
(`models/match_rates.py`). The priority is the highest rate at which a row can still find results, as in AGE,
times the row's importance if results differ in it.

If keys arrive evenly this is PROB, and if keys do not matter it is AGE. It adapts to keys that burst on one
stream or on all. Without an equality only ages count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windrow.eviction.forecast import StreamModel
from windrow.eviction.models.key_intensity import KeyIntensities
from windrow.eviction.models.match_rates import MatchRateModel, MatchRateModels, no_scores
from windrow.eviction.policies.row_importance import RowImportance
from windrow.eviction.ranking import MemoryBudget, Ranking
from windrow.eviction.window_view import LEARNING_ROWS, ProbeResults, WindowView
from windrow.memory_models.age_curve import AgeCurve
from windrow.model.policies.importance import check_by
from windrow.model.policies.learned import Auto
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
SCORE = "score"
"""Row state: results per second predicted from the row's keys, as of the end of a recent sub-batch."""
LARGE, TURNS = LEARNING_ROWS, 16
"""In windows of more than LARGE rows, one part in TURNS is rescored per sub-batch."""


class AutoRanking(Ranking):
    version = 2
    saved = ("importance", "_learned", "_keys", "_stored", "_turn")
    uses_results = True
    priority_per_byte = True
    adapts_to_losses = True

    def __init__(self, policy: Auto, bound: BoundQuery) -> None:
        self._keys = KeyIntensities(bound, policy.sketch_width, policy.half_life)
        self._scored = self._keys.known
        if policy.by is not None:
            self.importance = RowImportance(policy.name, check_by(policy.by), "min", bound)
        self.can_skip_sub_batches = self.importance is None
        valued = () if self.importance is None else self.importance.row_state
        self.row_state = (*(((SCORE, np.float32),) if self._scored else ()), *valued)
        # With three or more streams, the results of a row depend on which rows of the others are held. Scores
        # adjusted to that would evict ever more of them.
        steep = 1 if len(bound.join_columns) == 2 else 0
        self._learned = MatchRateModels(
            [
                MatchRateModel(policy.age_bins, policy.half_life, self._scored, steep)
                for _ in bound.join_columns
            ]
        )
        self._stored = [False] * len(bound.join_columns)
        """Per stream, whether the row state holds the scores of all rows."""
        self._turn = 0

    # -- the data flow ------------------------------------------------------------------------------

    def on_arrival(self, view: WindowView) -> None:
        if view.learn_stride:
            scores = self._score(view, slice(view.first_new, len(view), view.learn_stride), counted=False)
            if self._stored[view.stream] and view.learn_stride == 1:
                view.row_state[SCORE][view.new] = scores
            self._learned.on_arrival(view, scores)

    def on_results(self, found: ProbeResults) -> None:
        self._learned.on_results(found, self._recent_scores)

    def end_sub_batch(self, views: Sequence[WindowView], budget: MemoryBudget) -> None:
        every = views[0].learn_stride
        self._learned.end_sub_batch(views, self._recent_scores)
        if every and self._scored:
            self._keys.end_sub_batch(views, every)
        if every == 1 and self._scored:
            self._turn = (self._turn + 1) % TURNS
            for view in views:
                self._rescore(view)
        else:
            self._stored = [False] * len(views)

    def priorities(self, view: WindowView) -> Array:
        priority = self._fit(view.stream).priority(self._scores(view), view.ts, view.now)
        return priority if self.importance is None else priority * self.importance.of(view)

    def _fit(self, stream: int) -> MatchRateModel:
        learned = self._learned.models[stream]
        if self._scored and learned.needs_refit:
            learned.set_prior(self._keys.singleton_rate(stream, learned.ages))
        return learned

    def _score(self, view: WindowView, rows: Array | slice, counted: bool = True) -> Array:
        """Scores of some rows, as predicted now."""
        return self._keys.rates(view, rows, counted) if self._scored else no_scores(view, rows)

    def _recent_scores(self, view: WindowView, rows: Array | slice) -> Array:
        """Scores of some rows, as of a recent sub-batch where they are stored."""
        return self._scores(view)[rows] if view.learn_stride == 1 else self._score(view, rows)

    def _scores(self, view: WindowView) -> Array:
        """Scores of all rows, as stored."""
        if not self._scored:
            return no_scores(view, slice(None))
        if not self._stored[view.stream]:
            view.row_state[SCORE][:] = self._keys.rates(view)
            self._stored[view.stream] = True
        return view.row_state[SCORE]

    def _rescore(self, view: WindowView) -> None:
        """Updates the stored scores of all rows, or in a large window of one part in `TURNS`: rates change
        slowly compared with sub-batches."""
        if not self._stored[view.stream] or len(view) <= LARGE:
            self._stored[view.stream] = False
            self._scores(view)
            return
        # Contiguous rows, because scattered ones would cost a cache line each.
        some = slice(self._turn * len(view) // TURNS, (self._turn + 1) * len(view) // TURNS)
        view.row_state[SCORE][some] = self._keys.rates(view, some)

    # -- reports ------------------------------------------------------------------------------------

    def scores(self, view: WindowView, rows: Array) -> Array:
        return self._score(view, rows)

    def stream_models(self, views: Sequence[WindowView], budget: MemoryBudget) -> list[StreamModel] | None:
        return [
            StreamModel(learned.rates().curve, learned.rate, cost, *learned.groups())
            for learned, cost in zip(map(self._fit, range(len(views))), budget.costs, strict=True)
        ]

    def age_curves(self) -> Sequence[AgeCurve]:
        return tuple(learned.peek().curve for learned in self._learned.models)
