"""Rankings by importance (iJoin): SIZE, GREEDY and IJOIN.

All say which of equal rows goes: of SIZE and IJOIN the oldest, of GREEDY the newest. That is done by adding
a part of the age too small to matter otherwise, so that ranks of different streams can still be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.kernels import priority
from windrow.model.importance import Greedy, Importance, Size
from windrow.model.measurements import Quality
from windrow.shed.context import Context
from windrow.shed.importance_expression import ImportanceFunction
from windrow.shed.ranking import Ranking, Room
from windrow.shed.schedule import Schedule
from windrow.shed.turnover import Turnover
from windrow.shed.view import Found, Notes, View
from windrow.shed.worth import IMPORTANCE, ValuedRanking

Array = np.ndarray
MATCHES = "matches"
"""Note: matches of a row, each counting less as it lies back; as of its last match."""
MATCHED = "matched"
"""Note: the time of its last match, or its own if there was none."""
PRIORITY = "priority"
TINY = 1e-9
IMMATURE = 1e200
"""Above every priority."""
MATURITY, UNPRODUCTIVE = 0.4, 0.6
"""Parts of the time rows can stay, as in the paper's Table 5: 2 and 3 of 5 seconds."""
DECAY = 0.5
"""A match counts 1/e after twice the time rows can stay."""
PENALTY = 5.0
"""What a row loses that had no match for as long as rows can stay, where 1 is the priority of a row of mean
importance with one match in that time."""


class SizeRanking(Ranking):
    learns = True
    notes: Notes = ((MATCHES, np.int32),)

    def found(self, views: Sequence[View], found: Found) -> None:
        for view, rows in zip(views, found.rows, strict=True):
            priority.count_matches(rows, view.notes[MATCHES])

    def rank(self, view: View, rng: np.random.Generator) -> Array:
        return view.notes[MATCHES] - TINY * _part_of_window(view, view.now)


class GreedyRanking(ValuedRanking):
    def __init__(self, policy: Greedy, context: Context) -> None:
        super().__init__(policy.name, policy.by, policy.combine, context)

    def rank(self, view: View, rng: np.random.Generator) -> Array:
        return self.importance(view) + TINY * self.mean * _part_of_window(view, self.now)


class ImportanceRanking(ValuedRanking):
    per_byte = True

    def __init__(self, policy: Importance, context: Context) -> None:
        super().__init__(policy.name, policy.by, policy.combine, context)
        self._policy = policy
        self._schedule = Schedule(policy.recompute, policy.k, policy.tolerance, len(context.schemas))
        self._keeps_priorities = policy.recompute != "successive"
        kept = (IMPORTANCE, MATCHES, MATCHED, *([PRIORITY] if self._keeps_priorities else []))
        self.notes = tuple((name, np.float64) for name in kept)
        self._initial = (
            None
            if isinstance(policy.initial, int | float)
            else ImportanceFunction(policy.initial, context, "shed importance: initial")
        )
        self._turnover = Turnover(len(context.schemas))
        self._judged = 0.0
        """Importance of the results up to the last evaluation."""

    # -- the data flow ------------------------------------------------------------------------------

    def arrive(self, view: View, rng: np.random.Generator) -> None:
        super().arrive(view, rng)
        view.notes[MATCHED][view.fresh :] = view.ts[view.fresh :]
        if self._keeps_priorities:
            view.notes[PRIORITY][view.fresh :] = self._first_priority(view)

    def found(self, views: Sequence[View], found: Found) -> Array | None:
        for view, rows in zip(views, found.rows, strict=True):
            self._match(view, rows, found.newest)
        return super().found(views, found)

    def settle(self, views: Sequence[View], room: Room) -> None:
        super().settle(views, room)
        self._turnover.settle(views, self.now)
        self._schedule.evaluated(self.total - self._judged)
        self._judged = self.total

    def rank(self, view: View, rng: np.random.Generator) -> Array:
        # Where too few are mature, the oldest of the others go.
        out, maturity = np.empty(len(view)), self._maturity(view) * 1e6
        due = self._schedule.due(view.stream)
        if not self._keeps_priorities:
            priority.per_second_sparing_young(*self._terms(view), maturity, IMMATURE, out)
            return out
        if due:
            priority.per_second(*self._terms(view), view.notes[PRIORITY])
        priority.spare_young(view.ts, view.notes[PRIORITY], self.now, maturity, IMMATURE, out)
        return out

    def judge(self, known: Quality) -> Quality:
        return replace(super().judge(known), recomputations=self._schedule.recomputed)

    # -- the paper's formulas -----------------------------------------------------------------------

    def _match(self, view: View, rows: Array, times: Array) -> None:
        """Counts results of these rows at these times (eq. 7; Algorithm 1)."""
        d = self._decay(view)
        priority.match(rows, times, d / 1e6, view.notes[MATCHES], view.notes[MATCHED])

    def _terms(self, view: View) -> tuple[Any, ...]:
        """Of the residence priority: P = imp x matches' / age, less the penalty c (t' - prevmatch) for a row
        unproductive for at least Delta (eq. 5 to 8; Algorithm 2). As the kernels take them."""
        c, d, delta = self._penalty(view), self._decay(view), self._unproductive(view)
        imp, matches, matched = self.importance(view), view.notes[MATCHES], view.notes[MATCHED]
        tie = TINY * self.mean / view.span
        return view.ts, imp, matches, matched, self.now, d / 1e6, delta * 1e6, c, tie

    # -- parameters: as given, or from how long rows can stay -----------------------------------------

    def _maturity(self, view: View) -> float:
        given = self._policy.maturity
        return MATURITY * self._turnover.seconds(view) if given is None else _seconds(given)

    def _unproductive(self, view: View) -> float:
        given = self._policy.unproductive
        return UNPRODUCTIVE * self._turnover.seconds(view) if given is None else _seconds(given)

    def _decay(self, view: View) -> float:
        given = self._policy.decay
        return DECAY / max(self._turnover.seconds(view), 1e-6) if given is None else given

    def _penalty(self, view: View) -> float:
        given = self._policy.penalty
        return PENALTY * self.mean / max(self._turnover.seconds(view), 1e-6) ** 2 if given is None else given

    def _first_priority(self, view: View) -> Array | float:
        """Of the new rows."""
        if isinstance(self._policy.initial, int | float):
            return self._policy.initial
        if self._initial is not None and view.stream in self._initial.streams:
            return self._initial.of(view, view.fresh, view.fresh)[0]
        return self.importance(view)[view.fresh :]

    # -- over a restart -----------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        plain, parts = super().save()
        more = {"schedule": self._schedule.save(), "turnover": self._turnover.save(), "judged": self._judged}
        return plain | more, parts

    def load(self, plain: dict[str, Any], parts: Sequence[pa.RecordBatch]) -> None:
        super().load(plain, parts)
        self._schedule.load(plain["schedule"])
        self._turnover.load(plain["turnover"])
        self._judged = plain["judged"]


def _part_of_window(view: View, now: int) -> Array:
    """Each row's age, as a part of the window."""
    return (now - view.ts) / view.span


def _seconds(duration: object) -> float:
    assert isinstance(duration, int)
    return duration / 1e6


RANKINGS: dict[str, Callable[[Any, Context], Ranking]] = {
    Size.name: lambda policy, context: SizeRanking(),
    Greedy.name: GreedyRanking,
    Importance.name: ImportanceRanking,
}
