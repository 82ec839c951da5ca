"""PROB: keeps the rows whose key arrives often on the other streams (Memory, section 3.3).

A stored row u of stream i finds, per second,  sum over j of r_j f_j(v)  rows of the other streams with its
value v. With m streams sharing a key a result also needs a row of each further stream l in its window, of
which there are about r_l f_l(v) T_l: so the rate is  sum over j of r_j f_j(v) prod over l of r_l f_l(v) T_l.
Where a row takes part in several equalities the factors of each are multiplied; streams it is not compared
with directly count the same for all its rows and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windrow.errors import QueryError
from windrow.eviction.context import Context
from windrow.eviction.forecast import StreamModel, groups
from windrow.eviction.models.key_sketch import CountSketch, DecayedTime
from windrow.eviction.models.row_sampling import RecentSizes
from windrow.eviction.ranking import MemoryBudget, Ranking
from windrow.eviction.window_view import WindowView
from windrow.memory_models.age_curve import AgeCurve
from windrow.model.policies.learned import Frequency
from windrow.model.stateful import Stateful

Array = np.ndarray
SOME = 64
"""Rows of a sub-batch whose rates are remembered for forecasts."""


SETTLED = 1 / 16
"""The part of the longest window after which rates are known."""


class KeyRates(Stateful):
    """How often the values of each equality come on each stream, lately."""

    saved = ("_sketches", "_passed", "_until", "_spans")
    clocks = ("_until",)

    def __init__(self, context: Context, width: int, half_life: float) -> None:
        self._at = [
            [(c, words.index(w)) for c, members in enumerate(context.classes) for w in members if w in words]
            for words in context.join_columns
        ]
        """Per stream: (class, number of the word); a stream may have several words of a class."""
        self._streams = [sorted({w.stream for w in members}) for members in context.classes]
        self._sketches = {
            (c, s): CountSketch(width) for c, streams in enumerate(self._streams) for s in streams
        }
        self._half_life = half_life
        self._passed = DecayedTime()
        self._until: int | None = None
        self._spans = [0.0] * len(context.join_columns)

    @property
    def known(self) -> bool:
        """Whether there is anything to go by."""
        return bool(self._sketches)

    def arrive(self, view: WindowView, every: int = 1) -> None:
        """Counts the new rows, or one in `every` of them for all."""
        self._spans[view.stream] = view.window_length / 1e6
        for c, word in self._first_words(view.stream):
            self._sketches[c, view.stream].add(view.join_columns[word][view.first_new :: every], every)

    def settle(self, now: int, counted: float | None = None) -> None:
        """Event time has come to `now`; rows of the last `counted` seconds were counted (None: of all)."""
        longest = max(self._spans)
        if self._until is not None and now > self._until and longest > 0:
            by = self._passed.advance((now - self._until) / 1e6, self._half_life * longest, counted)
            for sketch in self._sketches.values():
                sketch.fade(by)
        self._until = now if self._until is None else max(now, self._until)

    def rates(self, view: WindowView, rows: Array | slice = slice(None)) -> Array:
        """Rows per second that each row of the view (or some of them) can expect to meet, times what they
        meet in turn."""
        found = np.ones(len(view.ts[rows]) if isinstance(rows, slice) else len(rows))
        seconds = max(self._passed.seconds, 1e-6)
        for c, word in self._first_words(view.stream):
            others = [s for s in self._streams[c] if s != view.stream]
            words = view.join_columns[word][rows]
            if len(others) == 1:
                self._sketches[c, others[0]].multiply(words, 1 / seconds, found)
                continue
            coming = [self._sketches[c, s].estimate(words) / seconds for s in others]
            held = [rate * self._spans[s] for rate, s in zip(coming, others, strict=True)]
            found *= sum(
                rate * np.prod([h for k, h in enumerate(held) if k != j], axis=0)
                for j, rate in enumerate(coming)
            )
        return found

    @property
    def settled(self) -> bool:
        """Whether rates rest on some part of a window: before that they could be anything."""
        return self._passed.seconds >= SETTLED * max(self._spans)

    def rows_per_second(self, stream: int) -> float:
        """Of a stream that is compared by an equality; 0 of others."""
        seconds = max(self._passed.seconds, 1e-6)
        return max(
            (s.total / seconds for (_, who), s in self._sketches.items() if who == stream), default=0.0
        )

    def _first_words(self, stream: int) -> list[tuple[int, int]]:
        """One word per class: words of one class are equal in any row of a result."""
        return list({c: (c, w) for c, w in reversed(self._at[stream])}.values())


class FrequencyRanking(Ranking):
    saved = ("_keys", "_recent")
    priority_per_byte = True
    can_skip_sub_batches = True
    adapts_to_losses = False

    def __init__(self, policy: Frequency, context: Context) -> None:
        if not context.classes:
            raise QueryError(
                "shed: 'frequency' needs an equality in the predicate, such as a.k = b.k; use 'age' or 'auto'"
            )
        self._keys = KeyRates(context, policy.width, policy.half_life)
        self._recent = RecentSizes(len(context.join_columns))
        """Rates that rows had when they came: forecasts are of all rows, not of those that are kept."""

    def on_arrival(self, view: WindowView, rng: np.random.Generator) -> None:
        if view.learn_stride:
            if self._keys.settled:
                step = max(1, (len(view) - view.first_new) // SOME)
                self._recent.add(view.stream, self._keys.rates(view, slice(view.first_new, len(view), step)))
            self._keys.arrive(view, view.learn_stride)

    def end_sub_batch(self, views: Sequence[WindowView], room: MemoryBudget) -> None:
        if views[0].learn_stride:
            self._keys.settle(views[0].now, views[0].elapsed)

    def priorities(self, view: WindowView, rng: np.random.Generator) -> Array:
        return self._keys.rates(view)

    def scores(self, view: WindowView, rows: Array) -> Array:
        return self._keys.rates(view, rows)

    def stream_models(self, views: Sequence[WindowView], room: MemoryBudget) -> list[StreamModel] | None:
        known = []
        for view in views:
            rates = self._recent.of(view.stream)
            found, shares, edges = groups(rates, np.ones(len(rates)))
            span = view.window_length / 1e6
            rate = self._keys.rows_per_second(view.stream)
            cost = room.costs[view.stream]
            known.append(StreamModel(AgeCurve((span,), span), rate, cost, found, shares, edges))
        return known
