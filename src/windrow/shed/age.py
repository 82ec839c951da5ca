"""AGE: keep rows at the ages at which they find most (Memory, section 3.2; any curve, claim B1).

By priority the rows go that have the least to find per second of being kept from now on. By envelope a new
row is given one of two retention times, the ends of an edge of its curve's concave envelope, in turns such
that the mean retention fills the memory its stream has; rows past their time go first. On rows that come
evenly both find the optimum; priorities follow bursts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.model.learned import Age
from windrow.planning.age import AgeCurve, Retention, split
from windrow.shed.context import Context
from windrow.shed.curve import LearnedCurve
from windrow.shed.forecast import Known
from windrow.shed.ranking import Ranking, Room
from windrow.shed.view import Found, View

Array = np.ndarray
RETENTION = "retention"
"""Note: seconds the row is to be kept for."""
TINY = 1e-9


class AgeRanking(Ranking):
    per_byte = True
    responds = True

    def __init__(self, policy: Age, context: Context) -> None:
        self._policy = policy
        self._aliases = context.query.aliases
        self._learned = [LearnedCurve(policy.buckets, policy.half_life) for _ in self._aliases]
        self._curves: list[AgeCurve] = []
        self._retention = [Retention(0.0, float("inf"), 1.0) for _ in self._aliases]
        self._turn = [0.0] * len(self._aliases)
        self._until: int | None = None
        self._next_plan = -(1 << 62)
        self.learns = policy.curves is None
        self.notes = ((RETENTION, np.float64),) if policy.method == "envelope" else ()
        self.skips = not self.notes

    def arrive(self, view: View, rng: np.random.Generator) -> None:
        count = len(view) - view.fresh
        if view.learns:
            self._learned[view.stream].came(count)
        if self.notes:
            view.notes[RETENTION][view.fresh :] = self._deal(view.stream, count)

    def found(self, views: Sequence[View], found: Found) -> None:
        """Counts the results of stored rows by the age at which they came. Which rows are held depends on
        their age alone, so at any age those the policy kept are like those it would not have kept."""
        every = views[0].lesson
        if not views[0].learns:
            return
        some = found if every == 1 else Found([rows[::every] for rows in found.rows], views)
        for learned, view, rows, stored in zip(self._learned, views, some.rows, some.stored, strict=True):
            learned.found_by(rows, view.ts, some.newest, stored, every)

    def settle(self, views: Sequence[View], room: Room) -> None:
        now = views[0].now
        if views[0].learns:
            passed = views[0].passed if self._until is None else max(0, now - self._until) / 1e6
            self._until = now if self._until is None else max(now, self._until)
            for learned, view in zip(self._learned, views, strict=True):
                some = view.ts[:: view.sparse]
                weights = np.full(len(some), float(view.sparse))
                learned.lived(some, weights, now, min(view.passed, passed), passed, view.span / 1e6)
        self._curves = [self._curve(view) for view in views]
        if self.notes and now >= self._next_plan:
            self._next_plan = now + max(view.span for view in views) // self._policy.buckets
            means = self._means(room)
            self._retention = [c.retention(mean) for c, mean in zip(self._curves, means, strict=True)]

    def rank(self, view: View, rng: np.random.Generator) -> Array:
        ages = view.ages()
        # Of equals the oldest stay: where little is known yet, all ages are seen that way.
        rank = self._curves[view.stream].priority(ages) * (1 + TINY * ages / (view.span / 1e6))
        if self.notes:
            overdue = ages - view.notes[RETENTION]
            rank = np.where(overdue >= 0, -1.0 - overdue, rank)
        return rank

    def known(self, views: Sequence[View], room: Room) -> list[Known] | None:
        one = np.ones(1)
        return [
            Known(self._curve(view), self._learned[view.stream].rate, room.costs[view.stream], one, one)
            for view in views
        ]

    def curves(self) -> Sequence[AgeCurve]:
        return tuple(self._curves)

    def _means(self, room: Room) -> Sequence[float]:
        """How long rows of each stream can be kept on average, in the memory it has."""
        rates = [learned.rate for learned in self._learned]
        divided = self._policy.split
        if divided == "together":
            return split(self._curves, rates, room.size, room.costs).retention
        shares = [1.0 if isinstance(divided, str) else divided[alias] for alias in self._aliases]
        return [
            room.size * share / sum(shares) / max(rate * cost, 1e-9)
            for share, rate, cost in zip(shares, rates, room.costs, strict=True)
        ]

    def _deal(self, stream: int, count: int) -> Array:
        """Retention times of the next rows: the longer one in its share of turns, evenly spread."""
        planned = self._retention[stream]
        turns = self._turn[stream] + planned.share * np.arange(1, count + 1)
        before = np.concatenate(([self._turn[stream]], turns[:-1]))
        self._turn[stream] = float(turns[-1] % 1.0) if count else self._turn[stream]
        return np.where(np.floor(turns + 1e-9) > np.floor(before + 1e-9), planned.long, planned.short)

    def _curve(self, view: View) -> AgeCurve:
        if self._policy.curves is None:
            return self._learned[view.stream].curve()
        given = self._policy.curves.get(self._aliases[view.stream], (0.0,))
        return AgeCurve(tuple(given), view.span / 1e6 / len(given))

    def save(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        saved = [learned.save() for learned in self._learned]
        plain = {
            "learned": [p for p, _ in saved],
            "retention": [[r.short, r.long, r.share] for r in self._retention],
            "turn": self._turn,
            "until": self._until,
            "next": self._next_plan,
        }
        return plain, [part for _, part in saved]

    def load(self, plain: dict[str, Any], parts: Sequence[pa.RecordBatch]) -> None:
        for learned, saved, part in zip(self._learned, plain["learned"], parts, strict=True):
            learned.load(saved, part)
        self._retention = [Retention(*r) for r in plain["retention"]]
        self._turn, self._until, self._next_plan = list(plain["turn"]), plain["until"], plain["next"]
