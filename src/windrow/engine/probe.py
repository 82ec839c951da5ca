"""Probing in one direction: from arriving rows through all other windows to results.

Each step extends the partial matches through the next window's index inside the time bounds, then checks
every condition whose streams are now bound. It proceeds depth first over bounded batches, so memory does not
depend on the size of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from windrow.engine.age_intervals import AgeIntervals
from windrow.engine.conditions import alike, holds
from windrow.engine.failed_combinations import FailedCombinations
from windrow.engine.index_search import IndexSearch
from windrow.engine.partial_matches import PartialMatches
from windrow.engine.windows import Windows
from windrow.expr.evaluate import evaluate
from windrow.expr.failures import Failure, failed_rows
from windrow.expr.parse import Reference, references
from windrow.expr.values import as_mask
from windrow.kernels.similarity import common
from windrow.model.plan import BoundEquality, Condition, Direction
from windrow.model.predicate import Residual, SetSimilarity
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray


class ProbeScope(Protocol):
    """The part of the windows that a probe covers."""

    def extended(
        self, partials: PartialMatches, search: IndexSearch, direction: Direction, level: int
    ) -> Iterator[PartialMatches]:
        """Partial matches with a further row each: the one at this step of the direction."""


@dataclass(frozen=True)
class AgeScope:
    """Whole windows, or rows of some ages."""

    ages: tuple[AgeIntervals | None, ...] = ()
    """Age intervals per step of the direction; None or missing for whole windows."""
    arrived: int = 0
    """Position of the first arriving row, where a direction does not start with them."""

    def extended(
        self, partials: PartialMatches, search: IndexSearch, direction: Direction, level: int
    ) -> Iterator[PartialMatches]:
        assert partials.newest is not None and partials.latest is not None
        window, stream, arriving = search.window, search.step.stream, direction.arriving
        # If the direction begins with another stream, the arriving one is a step like others. Then only its
        # new rows count: earlier ones were found when they arrived.
        first = self.arrived if stream == arriving else window.first
        bounds = (partials.newest - window.time_span, partials.latest)
        if self.ages and (ages := self.ages[level]) is not None:
            anchor = search.windows[arriving].ts[partials.rows[arriving]]
            pairs = ages.search(search, partials, bounds, anchor, first)
        else:
            pairs = search.run(partials, bounds, first)
        # A complete match needs no time bounds for a further step.
        last = level == len(direction.steps) - 1
        for which, found in pairs:
            ts = None if last else window.ts[found]
            yield partials.extend(stream, which, found, ts, window.time_span)


FULL_WINDOWS = AgeScope()


@dataclass
class _Run:
    """A run of a probe; several may run at once, on several threads."""

    scope: ProbeScope
    step_counts: Array | None = None
    """Accumulates the number of partial matches that enter each step and, last, of results."""
    suspects: bool = False
    """Whether a condition has failed on a partial match."""


class Probe:
    """Executes one direction of a plan. `inside` restricts combinations to those that are results if all
    conditions hold; those on which one fails are counted in `failed`."""

    def __init__(
        self,
        direction: Direction,
        bound: BoundQuery,
        windows: Windows,
        failed: FailedCombinations,
        inside: Callable[[PartialMatches], PartialMatches],
    ) -> None:
        self.direction = direction
        self._windows, self._functions = windows, bound.functions
        self._failed, self._inside = failed, inside
        self.searches = [IndexSearch(step, windows) for step in direction.steps]

    def starting_rows(self, arrived: int) -> tuple[int, int]:
        """Positions, from and to, of the rows of the first stream that a run extends."""
        stream = self.direction.order[0]
        window = self._windows[stream]
        return arrived if stream == self.direction.arriving else window.first, window.end

    def run(
        self, arrived: int, step_counts: Array | None = None, starting: tuple[int, int] | None = None
    ) -> Iterator[PartialMatches]:
        """Results in whole windows that contain a row of the arriving stream at position `arrived` or later;
        with `starting`, only those that extend this part of the starting rows."""
        stream = self.direction.order[0]
        rows = starting or self.starting_rows(arrived)
        start = PartialMatches.start(stream, self._windows[stream], *rows)
        return self.extend(start, AgeScope(arrived=arrived), step_counts)

    def run_rows(
        self, rows: Array, ages: tuple[AgeIntervals | None, ...] = (), step_counts: Array | None = None
    ) -> Iterator[PartialMatches]:
        """Results that contain one of these rows of the arriving stream."""
        arriving = self.direction.arriving
        start = PartialMatches.of_rows(arriving, self._windows[arriving], rows)
        return self.extend(start, AgeScope(ages), step_counts)

    def extend(
        self, partials: PartialMatches, scope: ProbeScope = FULL_WINDOWS, step_counts: Array | None = None
    ) -> Iterator[PartialMatches]:
        """Extend partial matches of any streams through all steps."""
        return self._expand(partials, 0, _Run(scope, step_counts)) if len(partials) else iter(())

    def _expand(self, partials: PartialMatches, level: int, run: _Run) -> Iterator[PartialMatches]:
        if run.step_counts is not None:
            run.step_counts[level] += len(partials)
        if level == len(self.searches):
            # Only once all rows are there it is known whether another condition excludes a match on which one
            # has failed.
            yield self._complete(partials) if run.suspects else partials
            return
        search = self.searches[level]
        for longer in run.scope.extended(partials, search, self.direction, level):
            for condition in search.step.checks:
                longer = longer.where(self._check(condition, longer))
            for residual in search.step.residuals:
                longer = longer.where(self._possible(residual, longer, run))
            if len(longer):
                yield from self._expand(longer, level + 1, run)

    def _complete(self, partials: PartialMatches) -> PartialMatches:
        """The results among matches that have passed the checks of all steps, some with a failure."""
        residuals = [residual for search in self.searches for residual in search.step.residuals]
        return self._checked(residuals, self._inside(partials))

    def holding(self, residuals: Sequence[Residual], partials: PartialMatches) -> PartialMatches:
        """The combinations on which conditions hold that no step checks. Rows may be missing."""
        run = _Run(FULL_WINDOWS)
        for residual in residuals:
            partials = partials.where(self._possible(residual, partials, run))
        return self._checked(residuals, partials) if run.suspects else partials

    def _check(self, condition: Condition, partials: PartialMatches) -> Array:
        pair = (condition.own, condition.bound) if isinstance(condition, BoundEquality) else condition.columns
        left, right = (partials.values(w.stream, self._windows[w.stream].column(w.name)) for w in pair)
        return holds(condition, left, right)

    def _check_sets(self, similarity: SetSimilarity, partials: PartialMatches) -> Array:
        """Check the sets in the windows; a list is encoded when its row is stored."""
        x, y = (self._windows[w.stream].sets(w.name, partials.rows[w.stream]) for w in similarity.columns)
        return alike(similarity, common(*x, *y), x[1], y[1])

    def _possible(self, residual: Residual, partials: PartialMatches, run: _Run) -> Array:
        """Mask of the partial matches on which a condition holds, or fails: these are judged at the end."""
        holds, failures, _ = self._evaluated(residual, partials)
        if not failures:
            return holds
        run.suspects = True
        return holds | failed_rows(failures, len(partials))

    def _checked(self, residuals: Sequence[Residual], partials: PartialMatches) -> PartialMatches:
        """The combinations on which all conditions hold; those on which some fail are counted. On each of the
        given combinations every condition holds or fails."""
        found = np.ones(len(partials), bool)
        failures: list[Failure] = []
        columns: dict[Reference, pa.Array] = {}
        for residual in residuals:
            holds, more, given = self._evaluated(residual, partials)
            found &= holds
            failures += more
            columns |= given
        self._failed.add(failures, columns, len(partials))
        return partials.where(found)

    def _evaluated(
        self, residual: Residual, partials: PartialMatches
    ) -> tuple[Array, list[Failure], dict[Reference, pa.Array]]:
        """Mask of the matches on which a condition holds, its failures, and the columns it reads."""
        failures: list[Failure] = []
        if residual.similarity is not None:
            return self._check_sets(residual.similarity, partials), failures, {}
        columns = self._windows.columns(partials.rows, references(residual.node))
        holds = evaluate(residual.node, columns, len(partials), self._functions, failures)
        return as_mask(holds), failures, columns
