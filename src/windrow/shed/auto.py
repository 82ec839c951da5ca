"""AUTO: the results a row is expected to bring per second of being kept, from its age and its key together.

A row's score is the rate at which rows of its key are expected on the other streams, from when they came
lately on any stream (recurrence.py); the rows of the quantum under way do not count, so that what a row finds
is never part of what foretells it. What rows of a score and age really find is learned on top of that
(calibration.py), and rows rank by the fastest rate at which they can still bring results, as in AGE; where
results differ in importance, times the row's own. Where keys come evenly this is PROB, where they do not
matter AGE; it follows keys that are in the news on one stream or on all, and where some keys do the one and
some the other it tells them apart, without being told. Without an equality only ages count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.errors import QueryError
from windrow.model.importance import check_by
from windrow.model.learned import Auto
from windrow.model.measurements import Quality
from windrow.planning.age import AgeCurve
from windrow.shed.calibration import Calibration
from windrow.shed.context import Context
from windrow.shed.forecast import Known
from windrow.shed.ranking import Room
from windrow.shed.recurrence import Recurrence
from windrow.shed.view import LESSON, SOME, Found, View
from windrow.shed.worth import IMPORTANCE, ValuedRanking

Array = np.ndarray
SCORE = "score"
"""Note: results per second that are foretold of the row by its keys, as of the end of a quantum lately."""
LARGE, TURNS = LESSON, 16
"""In windows of more rows than that, one part of so many is scored anew each quantum."""


class AutoRanking(ValuedRanking):
    per_byte = True
    responds = True

    def __init__(self, policy: Auto, context: Context) -> None:
        super().__init__(policy.name, check_by(policy.by, "shed auto: by"), "min", context)
        self._keys = Recurrence(context, policy.width, policy.half_life)
        self._scored, self._valued = self._keys.known, policy.by is not None
        self.skips = not self._valued
        score, importance = (SCORE, np.float32), (IMPORTANCE, np.float64)
        self.notes = (*((score,) if self._scored else ()), *((importance,) if self._valued else ()))
        # With more streams what is found depends on what is held of the others: scores that are turned by it
        # would let go of ever more of them.
        steep = 1 if len(context.words) == 2 else 0
        self._learned = [
            Calibration(policy.buckets, policy.half_life, self._scored, steep) for _ in context.words
        ]
        self._noted = [False] * len(context.words)
        """Per stream, whether the notes hold scores of all rows."""
        self._turn = 0
        self._until: int | None = None

    # -- the data flow ------------------------------------------------------------------------------

    def arrive(self, view: View, rng: np.random.Generator) -> None:
        super().arrive(view, rng)
        if view.lesson:
            scores = self._score(view, slice(view.fresh, len(view), view.lesson), counted=False)
            if self._noted[view.stream] and view.lesson == 1:
                view.notes[SCORE][view.fresh :] = scores
            if view.learns:
                some = max(1, len(scores) // SOME)
                self._learned[view.stream].came(scores[::some], view.lesson * some)

    def found(self, views: Sequence[View], found: Found) -> Array | None:
        every = views[0].lesson
        if views[0].learns:
            some = found if every == 1 else Found([rows[::every] for rows in found.rows], views)
            for learned, view, rows, stored in zip(self._learned, views, some.rows, some.stored, strict=True):
                if every == 1:
                    learned.found(rows, self._scores(view), view.ts, some.newest, stored)
                else:
                    own = np.arange(len(rows))
                    learned.found(own, self._score(view, rows), view.ts[rows], some.newest, stored, every)
        return super().found(views, found) if self._valued else None

    def settle(self, views: Sequence[View], room: Room) -> None:
        super().settle(views, room)
        now, every = views[0].now, views[0].lesson
        if views[0].learns:
            passed = views[0].passed if self._until is None else max(0, now - self._until) / 1e6
            self._until = now if self._until is None else max(now, self._until)
            for learned, view in zip(self._learned, views, strict=True):
                rows = slice(0, len(view), view.sparse)
                scores = self._scores(view)[rows] if every == 1 else self._score(view, rows)
                ts, seconds = view.ts[rows], min(view.passed, passed)
                learned.lived(scores, ts, now, seconds, passed, view.span / 1e6, view.sparse)
        if every and self._scored:
            self._keys.settle(views, now, views[0].passed, every)
        if every == 1 and self._scored:
            self._turn = (self._turn + 1) % TURNS
            for view in views:
                self._rescore(view)
        else:
            self._noted = [False] * len(views)

    def rank(self, view: View, rng: np.random.Generator) -> Array:
        rank = self._fit(view.stream).priority(self._scores(view), view.ts, view.now)
        return rank * self.importance(view) if self._valued else rank

    def change(self, at: int, by: object) -> None:
        if not self._valued:
            raise QueryError(
                "control: importance can be changed where there is one from the start: Auto(by=...)"
            )
        super().change(at, by)

    def _fit(self, stream: int) -> Calibration:
        learned = self._learned[stream]
        if self._scored and learned.due:
            learned.foretell(self._keys.lone(stream, learned.ages))
        return learned

    def _score(self, view: View, rows: Array | slice, counted: bool = True) -> Array:
        """Of some rows."""
        if not self._scored:
            return np.zeros(len(view.ts[rows]), np.float32)
        return self._keys.rates(view, rows, counted)

    def _rescore(self, view: View) -> None:
        """What was counted in this quantum comes into the scores: of all rows, or in a large window of one in
        `TURNS`. Rates change slowly against quanta."""
        if not self._noted[view.stream] or len(view) <= LARGE:
            self._noted[view.stream] = False
            self._scores(view)
            return
        # Side by side: rows here and there would cost a line of the cache each.
        some = slice(self._turn * len(view) // TURNS, (self._turn + 1) * len(view) // TURNS)
        view.notes[SCORE][some] = self._keys.rates(view, some)

    def _scores(self, view: View) -> Array:
        """Of all rows, as noted."""
        if not self._scored:
            return np.zeros(len(view), np.float32)
        if not self._noted[view.stream]:
            view.notes[SCORE][:] = self._keys.rates(view)
            self._noted[view.stream] = True
        return view.notes[SCORE]

    # -- what it tells ------------------------------------------------------------------------------

    def judge(self, known: Quality) -> Quality:
        return super().judge(known) if self._valued else known

    def scores(self, view: View, rows: Array) -> Array:
        return self._score(view, rows)

    def known(self, views: Sequence[View], room: Room) -> list[Known] | None:
        return [
            Known(learned.curve(), learned.rate, cost, *learned.groups())
            for learned, cost in zip(map(self._fit, range(len(views))), room.costs, strict=True)
        ]

    def curves(self) -> Sequence[AgeCurve]:
        return tuple(learned.look() for learned in self._learned)

    # -- over a restart -----------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        saved = [learned.save() for learned in self._learned]
        keys, sketches = self._keys.save()
        valued, _ = super().save()
        plain: dict[str, Any] = {"valued": valued, "learned": [p for p, _ in saved], "keys": keys}
        plain |= {"until": self._until, "noted": self._noted, "turn": self._turn}
        return plain, [*(part for _, part in saved), *sketches]

    def load(self, plain: dict[str, Any], parts: Sequence[pa.RecordBatch]) -> None:
        super().load(plain["valued"], ())
        count = len(self._learned)
        for learned, saved, part in zip(self._learned, plain["learned"], parts[:count], strict=True):
            learned.load(saved, part)
        self._keys.load(plain["keys"], parts[count:])
        self._until, self._noted, self._turn = plain["until"], list(plain["noted"]), plain["turn"]
