"""The importance of rows and results to a ranking, by a function that may change during the run.

A new function takes effect at a given event time: in the sub-batch in which the newest event time reaches it,
the importance of all rows held is recomputed, and results found from then on use it. Rows of streams without
an importance of their own have the mean importance of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from windrow.errors import Option, QueryError, placed
from windrow.eviction.policies.importance_function import ImportanceFunction, combined
from windrow.eviction.window_view import ProbeResults, RowState, WindowView
from windrow.model.metrics import Quality
from windrow.model.policies.importance import By, by_to_plain, check_by
from windrow.model.stateful import Stateful
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
IMPORTANCE = "importance"
MOST_VERSIONS = 100


class RowImportance(Stateful):
    saved: ClassVar[tuple[str, ...]] = (
        "total", "missing", "_given", "_versions", "_version_of", "_now", "_sum", "_count",
    )  # fmt: skip
    formerly = (("_judged_by", "_version_of"),)
    clocks = ("_now",)
    row_state: RowState = ((IMPORTANCE, np.float64),)

    def __init__(self, name: str, by: By, combine: str, bound: BoundQuery) -> None:
        self.total = 0.0
        """Importance of all results so far."""
        self.missing = 0
        """Rows without an importance."""
        self._place = Option("by", policy=name)
        self._combine = combine
        self._bound = bound
        self._given = by_to_plain(by)
        """The query's own function, in effect until it is changed."""
        self._versions: list[Sequence[Any]] = [(None, self._given)]
        """Per function, the event time from which it is in effect (None: the start), and its plain values."""
        self._functions = [self._function(by)]
        """Those of `_versions`."""
        self._version_of = [0] * len(bound.schemas)
        """Per stream, the version by which its rows' importance was computed."""
        self._now: int | None = None
        self._sum, self._count = 0.0, 0

    def change(self, at: int, by: object) -> None:
        """Uses another function from event time `at` (microseconds) on. Of several functions whose time is
        reached, the latest is in effect. Raises an error if the function is invalid."""
        if len(self._versions) > MOST_VERSIONS:
            raise QueryError(f"{MOST_VERSIONS} changes of importance wait for their time already")
        function, place = self._function(by), self._taking_effect(at)
        self._versions.insert(place, (at, by_to_plain(check_by(by))))
        self._functions.insert(place, function)
        self._version_of = [k if k < place else k + 1 for k in self._version_of]

    # -- the data flow ------------------------------------------------------------------------------

    def on_arrival(self, view: WindowView) -> None:
        if not self._follow(view, view.first_new):
            self._compute(view, view.first_new, view.first_new)

    def on_results(self, found: ProbeResults) -> Array | None:
        """The importance of each result of a probe; None if all have the same."""
        for view in found.views:
            self._follow(view)
        valued = self._functions[self._version_of[0]].streams
        if not valued:
            self.total += len(found)
            return None
        rows = [found.views[s].row_state[IMPORTANCE][found.rows[s]] for s in valued]
        importance = combined(self._combine, rows)
        self.total += float(importance.sum())
        return importance

    def end_sub_batch(self, views: Sequence[WindowView]) -> None:
        for view in views:
            self._follow(view)
        done = min(self._version_of)
        self._versions, self._functions = self._versions[done:], self._functions[done:]
        self._version_of = [k - done for k in self._version_of]

    # -- for rankings -------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        """The newest event time so far; a sub-batch of late rows does not set it back."""
        return self._now or 0

    @property
    def mean(self) -> float:
        """Mean importance of rows."""
        return self._sum / self._count if self._count else 1.0

    def of(self, view: WindowView) -> Array:
        """The importance of each row of the view."""
        if view.stream in self._functions[self._version_of[view.stream]].streams:
            return view.row_state[IMPORTANCE]
        return np.full(len(view), self.mean)

    def add_quality(self, known: Quality) -> Quality:
        """Add the total importance, and its recall."""
        if known.importance_recall is None:
            known = replace(
                known,
                importance_recall=known.recall,
                importance_recall_low=known.recall_low,
                importance_recall_high=known.recall_high,
            )
        return replace(known, importance=self.total, rows_null_importance=self.missing)

    # -- inside -------------------------------------------------------------------------------------

    def _follow(self, view: WindowView, new: int | None = None) -> bool:
        """Recomputes the importance of a stream's rows if a newer function is in effect; returns whether it
        did. Rows from `new` on had no importance before."""
        now = self._now = view.now if self._now is None else max(self._now, view.now)
        newest = self._taking_effect(now) - 1
        if newest == self._version_of[view.stream]:
            return False
        if newest > max(self._version_of):
            self._sum, self._count = 0.0, 0
        self._version_of[view.stream] = newest
        self._compute(view, 0, len(view) if new is None else new)
        return True

    def _compute(self, view: WindowView, start: int, new: int) -> None:
        function = self._functions[self._version_of[view.stream]]
        if view.stream in function.streams and start < len(view):
            values, missing = function.of(view, start, new)
            view.row_state[IMPORTANCE][start:] = values
            self._sum, self._count = self._sum + float(values.sum()), self._count + len(values)
            self.missing += missing

    def _taking_effect(self, until: int) -> int:
        """How many functions take effect up to an event time."""
        return sum(at is None or at <= until for at, _ in self._versions)

    def restore(self, values: dict[str, Any]) -> None:
        if values["_given"] != self._given:
            # The query was restarted with another importance: it applies to all rows and overrides earlier
            # control messages.
            values |= {"_given": self._given, "_versions": self._versions}
            values |= {"_version_of": [-1] * len(self._version_of), "_sum": 0.0, "_count": 0}
        super().restore(values)
        self._functions = [self._function(by) for _, by in self._versions]

    def _function(self, by: object) -> ImportanceFunction:
        with placed(self._place):
            return ImportanceFunction(check_by(by), self._bound)


def apart(values: dict[str, Any]) -> dict[str, Any]:
    """The state of a ranking of version 1, which held the fields of its importance as its own."""
    before = {name: earlier for earlier, name in RowImportance.formerly}
    return values | {"importance": {n: values.pop(before.get(n, n)) for n in RowImportance.saved}}
