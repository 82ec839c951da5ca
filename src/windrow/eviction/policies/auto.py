"""AUTO: ranks rows by expected results per second of residence, from their age and key together.

A row's score is the rate at which rows of its key are expected on the other streams, from when they came
lately on any stream (recurrence.py); the rows of the sub-batch under way do not count, so that what a row
finds is never part of what predicts it. What rows of a score and age really find is learned on top of that
(calibration.py), and rows rank by the fastest rate at which they can still bring results, as in AGE; where
results differ in importance, times the row's own. Where keys come evenly this is PROB, where they do not
matter AGE; it follows keys that are in the news on one stream or on all, and where some keys do the one and
some the other it tells them apart, without being told. Without an equality only ages count.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windrow.errors import QueryError
from windrow.eviction.context import Context
from windrow.eviction.forecast import StreamModel
from windrow.eviction.models.key_intensity import KeyIntensities
from windrow.eviction.models.match_rates import MatchRateModel
from windrow.eviction.policies.importance_aware import IMPORTANCE, ImportanceAwareRanking
from windrow.eviction.ranking import MemoryBudget
from windrow.eviction.window_view import LEARNING_ROWS, STEADY_ROWS, ProbeResults, WindowView
from windrow.memory_models.age_curve import AgeCurve
from windrow.model.metrics import Quality
from windrow.model.policies.importance import check_by
from windrow.model.policies.learned import Auto

Array = np.ndarray
SCORE = "score"
"""Note: results per second that are predicted of the row by its keys, as of the end of a sub-batch lately."""
LARGE, TURNS = LEARNING_ROWS, 16
"""In windows of more rows than that, one part of so many is scored anew each sub-batch."""


class AutoRanking(ImportanceAwareRanking):
    saved = ("_learned", "_keys", "_noted", "_turn", "_until")
    clocks = ("_until",)
    priority_per_byte = True
    adapts_to_losses = True

    def __init__(self, policy: Auto, context: Context) -> None:
        super().__init__(policy.name, check_by(policy.by), "min", context)
        self._keys = KeyIntensities(context, policy.width, policy.half_life)
        self._scored, self._valued = self._keys.known, policy.by is not None
        self.can_skip_sub_batches = not self._valued
        score, importance = (SCORE, np.float32), (IMPORTANCE, np.float64)
        self.row_state = (*((score,) if self._scored else ()), *((importance,) if self._valued else ()))
        # With more streams what is found depends on what is held of the others: scores that are turned by it
        # would let go of ever more of them.
        steep = 1 if len(context.join_columns) == 2 else 0
        self._learned = [
            MatchRateModel(policy.buckets, policy.half_life, self._scored, steep)
            for _ in context.join_columns
        ]
        self._noted = [False] * len(context.join_columns)
        """Per stream, whether the notes hold scores of all rows."""
        self._turn = 0
        self._until: int | None = None

    # -- the data flow ------------------------------------------------------------------------------

    def on_arrival(self, view: WindowView, rng: np.random.Generator) -> None:
        super().on_arrival(view, rng)
        if view.learn_stride:
            scores = self._score(view, slice(view.first_new, len(view), view.learn_stride), counted=False)
            if self._noted[view.stream] and view.learn_stride == 1:
                view.row_state[SCORE][view.first_new :] = scores
            if view.learning:
                some = max(1, len(scores) // STEADY_ROWS)
                self._learned[view.stream].add_arrivals(scores[::some], view.learn_stride * some)

    def on_results(self, views: Sequence[WindowView], found: ProbeResults) -> Array | None:
        every = views[0].learn_stride
        if views[0].learning:
            some = found if every == 1 else ProbeResults([rows[::every] for rows in found.rows], views)
            for learned, view, rows, stored in zip(self._learned, views, some.rows, some.stored, strict=True):
                if every == 1:
                    learned.add_results(rows, self._scores(view), view.ts, some.newest, stored)
                else:
                    own = np.arange(len(rows))
                    learned.add_results(
                        own, self._score(view, rows), view.ts[rows], some.newest, stored, every
                    )
        return super().on_results(views, found) if self._valued else None

    def end_sub_batch(self, views: Sequence[WindowView], room: MemoryBudget) -> None:
        super().end_sub_batch(views, room)
        now, every = views[0].now, views[0].learn_stride
        if views[0].learning:
            passed = views[0].elapsed if self._until is None else max(0, now - self._until) / 1e6
            self._until = now if self._until is None else max(now, self._until)
            for learned, view in zip(self._learned, views, strict=True):
                rows = slice(0, len(view), view.exposure_stride)
                scores = self._scores(view)[rows] if every == 1 else self._score(view, rows)
                ts, seconds = view.ts[rows], min(view.elapsed, passed)
                learned.add_exposure(
                    scores, ts, now, seconds, passed, view.window_length / 1e6, view.exposure_stride
                )
        if every and self._scored:
            self._keys.end_sub_batch(views, now, views[0].elapsed, every)
        if every == 1 and self._scored:
            self._turn = (self._turn + 1) % TURNS
            for view in views:
                self._rescore(view)
        else:
            self._noted = [False] * len(views)

    def priorities(self, view: WindowView, rng: np.random.Generator) -> Array:
        rank = self._fit(view.stream).priority(self._scores(view), view.ts, view.now)
        return rank * self.importance(view) if self._valued else rank

    def change_importance(self, at: int, by: object) -> None:
        if not self._valued:
            raise QueryError(
                "control: importance can be changed where there is one from the start: Auto(by=...)"
            )
        super().change_importance(at, by)

    def _fit(self, stream: int) -> MatchRateModel:
        learned = self._learned[stream]
        if self._scored and learned.needs_refit:
            learned.set_prior(self._keys.singleton_rate(stream, learned.ages))
        return learned

    def _score(self, view: WindowView, rows: Array | slice, counted: bool = True) -> Array:
        """Of some rows."""
        if not self._scored:
            return np.zeros(len(view.ts[rows]), np.float32)
        return self._keys.rates(view, rows, counted)

    def _rescore(self, view: WindowView) -> None:
        """What was counted in this sub-batch comes into the scores: of all rows, or in a large window of one
        in `TURNS`. Rates change slowly against sub-batches."""
        if not self._noted[view.stream] or len(view) <= LARGE:
            self._noted[view.stream] = False
            self._scores(view)
            return
        # Side by side: rows here and there would cost a line of the cache each.
        some = slice(self._turn * len(view) // TURNS, (self._turn + 1) * len(view) // TURNS)
        view.row_state[SCORE][some] = self._keys.rates(view, some)

    def _scores(self, view: WindowView) -> Array:
        """Of all rows, as noted."""
        if not self._scored:
            return np.zeros(len(view), np.float32)
        if not self._noted[view.stream]:
            view.row_state[SCORE][:] = self._keys.rates(view)
            self._noted[view.stream] = True
        return view.row_state[SCORE]

    # -- what it tells ------------------------------------------------------------------------------

    def add_quality(self, known: Quality) -> Quality:
        return super().add_quality(known) if self._valued else known

    def scores(self, view: WindowView, rows: Array) -> Array:
        return self._score(view, rows)

    def stream_models(self, views: Sequence[WindowView], room: MemoryBudget) -> list[StreamModel] | None:
        return [
            StreamModel(learned.curve(), learned.rate, cost, *learned.groups())
            for learned, cost in zip(map(self._fit, range(len(views))), room.costs, strict=True)
        ]

    def age_curves(self) -> Sequence[AgeCurve]:
        return tuple(learned.peek() for learned in self._learned)
