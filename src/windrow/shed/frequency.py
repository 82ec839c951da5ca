"""PROB: keep the rows whose key comes often on the other streams (Memory, section 3.3).

A stored row u of stream i finds, per second,  sum over j of r_j f_j(v)  rows of the other streams with its
value v. With m streams sharing a key a result also needs a row of each further stream l in its window, of
which there are about r_l f_l(v) T_l: so the rate is  sum over j of r_j f_j(v) prod over l of r_l f_l(v) T_l.
Where a row takes part in several equalities the factors of each are multiplied; streams it is not compared
with directly count the same for all its rows and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.errors import QueryError
from windrow.model.learned import Frequency
from windrow.planning.age import AgeCurve
from windrow.shed.context import Context
from windrow.shed.drawing import Recent
from windrow.shed.forecast import Known, groups
from windrow.shed.ranking import Ranking, Room
from windrow.shed.sketch import CountSketch, Passed
from windrow.shed.view import View

Array = np.ndarray
SOME = 64
"""Rows of a quantum whose rates are remembered for forecasts."""


SETTLED = 1 / 16
"""The part of the longest window after which rates are known."""


class KeyRates:
    """How often the values of each equality come on each stream, lately."""

    def __init__(self, context: Context, width: int, half_life: float) -> None:
        self._at = [
            [(c, words.index(w)) for c, members in enumerate(context.classes) for w in members if w in words]
            for words in context.words
        ]
        """Per stream: (class, number of the word); a stream may have several words of a class."""
        self._streams = [sorted({w.stream for w in members}) for members in context.classes]
        self._sketches = {
            (c, s): CountSketch(width) for c, streams in enumerate(self._streams) for s in streams
        }
        self._half_life = half_life
        self._passed = Passed()
        self._until: int | None = None
        self._spans = [0.0] * len(context.words)

    @property
    def known(self) -> bool:
        """Whether there is anything to go by."""
        return bool(self._sketches)

    def arrive(self, view: View, every: int = 1) -> None:
        """Counts the new rows, or one in `every` of them for all."""
        self._spans[view.stream] = view.span / 1e6
        for c, word in self._first_words(view.stream):
            self._sketches[c, view.stream].add(view.words[word][view.fresh :: every], every)

    def settle(self, now: int, counted: float | None = None) -> None:
        """Event time has come to `now`; rows of the last `counted` seconds were counted (None: of all)."""
        longest = max(self._spans)
        if self._until is not None and now > self._until and longest > 0:
            by = self._passed.go((now - self._until) / 1e6, self._half_life * longest, counted)
            for sketch in self._sketches.values():
                sketch.fade(by)
        self._until = now if self._until is None else max(now, self._until)

    def rates(self, view: View, rows: Array | slice = slice(None)) -> Array:
        """Rows per second that each row of the view (or some of them) can expect to meet, times what they
        meet in turn."""
        found = np.ones(len(view.ts[rows]) if isinstance(rows, slice) else len(rows))
        seconds = max(self._passed.seconds, 1e-6)
        for c, word in self._first_words(view.stream):
            others = [s for s in self._streams[c] if s != view.stream]
            words = view.words[word][rows]
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

    def save(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        saved = [s.save() for s in self._sketches.values()]
        plain = {
            "sketches": [p for p, _ in saved],
            "until": self._until,
            "spans": self._spans,
            "passed": self._passed.seconds,
        }
        return plain, [part for _, part in saved]

    def load(self, plain: dict[str, Any], parts: Sequence[pa.RecordBatch]) -> None:
        for key, saved, part in zip(self._sketches, plain["sketches"], parts, strict=True):
            self._sketches[key] = CountSketch.load(saved, part)
        self._until, self._spans = plain["until"], list(plain["spans"])
        self._passed.seconds = plain["passed"]


class FrequencyRanking(Ranking):
    per_byte = True
    skips = True
    responds = False

    def __init__(self, policy: Frequency, context: Context) -> None:
        if not context.classes:
            raise QueryError(
                "shed: 'frequency' needs an equality in the predicate, such as a.k = b.k; use 'age' or 'auto'"
            )
        self._keys = KeyRates(context, policy.width, policy.half_life)
        self._recent = Recent(len(context.words))
        """Rates that rows had when they came: forecasts are of all rows, not of those that are kept."""

    def arrive(self, view: View, rng: np.random.Generator) -> None:
        if view.lesson:
            if self._keys.settled:
                step = max(1, (len(view) - view.fresh) // SOME)
                self._recent.add(view.stream, self._keys.rates(view, slice(view.fresh, len(view), step)))
            self._keys.arrive(view, view.lesson)

    def settle(self, views: Sequence[View], room: Room) -> None:
        if views[0].lesson:
            self._keys.settle(views[0].now, views[0].passed)

    def rank(self, view: View, rng: np.random.Generator) -> Array:
        return self._keys.rates(view)

    def scores(self, view: View, rows: Array) -> Array:
        return self._keys.rates(view, rows)

    def known(self, views: Sequence[View], room: Room) -> list[Known] | None:
        known = []
        for view in views:
            rates = self._recent.of(view.stream)
            found, shares, edges = groups(rates, np.ones(len(rates)))
            span = view.span / 1e6
            rate = self._keys.rows_per_second(view.stream)
            cost = room.costs[view.stream]
            known.append(Known(AgeCurve((span,), span), rate, cost, found, shares, edges))
        return known

    def save(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        plain, parts = self._keys.save()
        return plain, [*self._recent.save(), *parts]

    def load(self, plain: dict[str, Any], parts: Sequence[pa.RecordBatch]) -> None:
        count = len(self._recent)
        self._recent.load(parts[:count])
        self._keys.load(plain, parts[count:])
