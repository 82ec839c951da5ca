"""Rankings that know what rows and results are worth, by a function that may change while the query runs.

A new function holds from a stated event time on: in the quantum in which the newest event time reaches it,
all rows held are judged by it anew, and so are all results found from then on. Rows of streams that have no
importance of their own are worth what other rows are worth on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.errors import QueryError
from windrow.model.importance import By, by_to_plain, check_by
from windrow.model.measurements import Quality
from windrow.shed.context import Context
from windrow.shed.importance_expression import ImportanceFunction, combined
from windrow.shed.ranking import Ranking, Room
from windrow.shed.view import Found, Notes, View

Array = np.ndarray
IMPORTANCE = "importance"
MOST_VERSIONS = 100


@dataclass(frozen=True)
class _Version:
    """A function, and the event time from which it holds; None: from the start."""

    at: int | None
    by: By
    function: ImportanceFunction


class ValuedRanking(Ranking):
    learns = True
    notes: Notes = ((IMPORTANCE, np.float64),)

    def __init__(self, name: str, by: By, combine: str, context: Context) -> None:
        self.total = 0.0
        """Importance of all results so far."""
        self.missing = 0
        """Rows without an importance."""
        self._where = f"shed {name}: by"
        self._combine = combine
        self._context = context
        self._given = by_to_plain(by)
        """The query's own function, which holds until it is changed."""
        self._versions = [_Version(None, by, ImportanceFunction(by, context, self._where))]
        self._judged_by = [0] * len(context.schemas)
        """Per stream, which version its rows were judged by."""
        self._now: int | None = None
        self._sum, self._count = 0.0, 0

    def change(self, at: int, by: object) -> None:
        """Judges by another function from event time `at` (microseconds) on. Of several functions whose time
        has come the newest holds. Wrong ones are refused here."""
        if len(self._versions) > MOST_VERSIONS:
            raise QueryError(f"control: {MOST_VERSIONS} changes of importance wait for their time already")
        checked = check_by(by, self._where)
        version = _Version(at, checked, ImportanceFunction(checked, self._context, self._where))
        place = sum(v.at is None or v.at <= at for v in self._versions)
        self._versions.insert(place, version)
        self._judged_by = [k if k < place else k + 1 for k in self._judged_by]

    # -- the data flow ------------------------------------------------------------------------------

    def arrive(self, view: View, rng: np.random.Generator) -> None:
        if not self._follow(view, view.fresh):
            self._judge(view, view.fresh, view.fresh)

    def found(self, views: Sequence[View], found: Found) -> Array | None:
        for view in views:
            self._follow(view)
        valued = self._versions[self._judged_by[0]].function.streams
        if not valued:
            self.total += len(found)
            return None
        worth = combined(self._combine, [views[s].notes[IMPORTANCE][found.rows[s]] for s in valued])
        self.total += float(worth.sum())
        return worth

    def settle(self, views: Sequence[View], room: Room) -> None:
        for view in views:
            self._follow(view)
        done = min(self._judged_by)
        self._versions = self._versions[done:]
        self._judged_by = [k - done for k in self._judged_by]

    # -- what rankings go by ------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The newest event time so far; a quantum of late rows does not turn it back."""
        return self._now or 0

    @property
    def mean(self) -> float:
        """Importance of rows, on average."""
        return self._sum / self._count if self._count else 1.0

    def importance(self, view: View) -> Array:
        """Of each row of the view."""
        if view.stream in self._versions[self._judged_by[view.stream]].function.streams:
            return view.notes[IMPORTANCE]
        return np.full(len(view), self.mean)

    def judge(self, known: Quality) -> Quality:
        if known.importance_recall is None:
            known = replace(
                known, importance_recall=known.recall, importance_low=known.low, importance_high=known.high
            )
        return replace(known, importance=self.total, importance_missing=self.missing)

    # -- inside -------------------------------------------------------------------------------------

    def _follow(self, view: View, new: int | None = None) -> bool:
        """Judges all rows of a stream anew if there is a newer function for them; returns whether. Those from
        `new` on were not judged before."""
        now = self._now = view.now if self._now is None else max(self._now, view.now)
        newest = sum(v.at is None or v.at <= now for v in self._versions) - 1
        if newest == self._judged_by[view.stream]:
            return False
        if newest > max(self._judged_by):
            self._sum, self._count = 0.0, 0
        self._judged_by[view.stream] = newest
        self._judge(view, 0, len(view) if new is None else new)
        return True

    def _judge(self, view: View, start: int, new: int) -> None:
        function = self._versions[self._judged_by[view.stream]].function
        if view.stream in function.streams and start < len(view):
            values, missing = function.of(view, start, new)
            view.notes[IMPORTANCE][start:] = values
            self._sum, self._count = self._sum + float(values.sum()), self._count + len(values)
            self.missing += missing

    # -- over a restart -----------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        plain = {
            "total": self.total,
            "missing": self.missing,
            "given": self._given,
            "versions": [[v.at, by_to_plain(v.by)] for v in self._versions],
            "judged_by": self._judged_by,
            "now": self._now,
            "mean": [self._sum, self._count],
        }
        return plain, []

    def load(self, plain: dict[str, Any], parts: Sequence[pa.RecordBatch]) -> None:
        self.total, self.missing, self._now = plain["total"], plain["missing"], plain["now"]
        if self._given != plain["given"]:
            # The query has another importance than it began with: it holds for all rows, whatever was said
            # while the query ran.
            self._judged_by = [-1] * len(self._judged_by)
            return
        self._sum, self._count = plain["mean"]
        self._judged_by = list(plain["judged_by"])
        self._versions = []
        for at, by in plain["versions"]:
            checked = check_by(by, self._where)
            function = ImportanceFunction(checked, self._context, self._where)
            self._versions.append(_Version(at, checked, function))
