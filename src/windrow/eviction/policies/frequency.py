"""FREQUENCY: keeps rows whose keys arrive most often on the other streams (PROB; Memory, section 3.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windrow.errors import QueryError
from windrow.eviction.forecast import StreamModel, groups
from windrow.eviction.models.key_rates import KeyRates
from windrow.eviction.models.row_sampling import RecentSizes
from windrow.eviction.ranking import MemoryBudget, Ranking
from windrow.eviction.window_view import WindowView
from windrow.memory_models.age_curve import AgeCurve
from windrow.model.policies.learned import Frequency
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
SOME = 64
"""Rows per sub-batch whose rates are kept for forecasts."""


class FrequencyRanking(Ranking):
    saved = ("_keys", "_recent")
    priority_per_byte = True
    can_skip_sub_batches = True
    adapts_to_losses = False

    def __init__(self, policy: Frequency, bound: BoundQuery) -> None:
        if not bound.classes:
            raise QueryError("needs an equality in the predicate, such as a.k = b.k; use 'age' or 'auto'")
        self._keys = KeyRates(bound, policy.sketch_width, policy.half_life)
        self._recent = RecentSizes(len(bound.join_columns))
        """Rates of rows on arrival: a forecast is about all rows, not only those that were kept."""

    def on_arrival(self, view: WindowView) -> None:
        if view.learn_stride:
            if self._keys.settled:
                step = max(1, view.new_count // SOME)
                self._recent.add(view.stream, self._keys.rates(view, slice(view.first_new, len(view), step)))
            self._keys.on_arrival(view, view.learn_stride)

    def end_sub_batch(self, views: Sequence[WindowView], budget: MemoryBudget) -> None:
        if views[0].learn_stride:
            self._keys.end_sub_batch(views[0].now, views[0].elapsed)

    def priorities(self, view: WindowView) -> Array:
        return self._keys.rates(view)

    def scores(self, view: WindowView, rows: Array) -> Array:
        return self._keys.rates(view, rows)

    def stream_models(self, views: Sequence[WindowView], budget: MemoryBudget) -> list[StreamModel] | None:
        known = []
        for view in views:
            rates = self._recent.of(view.stream)
            found, shares, edges = groups(rates, np.ones(len(rates)))
            span = view.window_length / 1e6
            rate = self._keys.rows_per_second(view.stream)
            cost = budget.costs[view.stream]
            known.append(StreamModel(AgeCurve((span,), span), rate, cost, found, shares, edges))
        return known
