"""Probing in one direction: from arriving rows through all other windows to results.

Each step extends the partial matches through the next window's index inside the time bounds, then checks
every condition whose streams are now bound. It proceeds depth first over bounded batches, so memory does not
depend on the size of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from windrow.engine.age_intervals import AgeIntervals
from windrow.engine.conditions import alike, holds
from windrow.engine.failed_combinations import FailedCombinations
from windrow.engine.index_search import IndexSearch
from windrow.engine.outer.missing_rows import gather_or_null
from windrow.engine.partial_matches import PartialMatches
from windrow.expr.evaluate import evaluate
from windrow.expr.failures import Failure, failed_rows
from windrow.expr.parse import Reference, references
from windrow.expr.values import as_mask
from windrow.kernels.similarity import common
from windrow.model.plan import BoundEquality, Condition, Direction, Step
from windrow.model.predicate import Residual, SetSimilarity
from windrow.model.query import Function
from windrow.window.window_store import WindowStore

Array = np.ndarray


@dataclass(frozen=True)
class ProbeScope:
    """How much of the windows a probe covers."""

    ages: tuple[AgeIntervals | None, ...] = ()
    """Age intervals per step of the direction; None or missing for whole windows."""
    step_counts: Array | None = None
    """Accumulates the number of partial matches that enter each step and, last, of results."""


FULL_WINDOWS = ProbeScope()


@dataclass
class ProbeRun:
    """A run of a probe; several may run at once, on several threads."""

    windows: Sequence[WindowStore]
    arrived: int = 0
    """Position of the first arriving row."""
    look: ProbeScope = FULL_WINDOWS
    suspects: bool = False
    """Whether a condition has failed on a partial match."""


class Probe:
    """Executes one direction of a plan.

    Parameters
    ----------
    failed
        Counts the combinations on which a condition fails.
    inside
        Restricts combinations to those that are results if all conditions hold.
    """

    def __init__(
        self,
        direction: Direction,
        windows: Sequence[WindowStore],
        aliases: tuple[str, ...],
        functions: Mapping[str, Function],
        failed: FailedCombinations,
        inside: Callable[[PartialMatches], PartialMatches],
    ) -> None:
        self.direction = direction
        self._aliases = aliases
        self._functions = functions
        self._failed = failed
        self._inside = inside
        self.searches = [IndexSearch(step, windows) for step in direction.steps]

    @property
    def comparisons(self) -> int:
        """Rows compared so far."""
        return sum(search.comparisons for search in self.searches)

    def starting_rows(self, windows: Sequence[WindowStore], arrived: int) -> tuple[int, int]:
        """Positions, from and to, of the rows of the first stream that a run extends."""
        stream = self.direction.order[0]
        window = windows[stream]
        return arrived if stream == self.direction.arriving else window.first, window.end

    def run(
        self,
        windows: Sequence[WindowStore],
        arrived: int,
        look: ProbeScope = FULL_WINDOWS,
        starting: tuple[int, int] | None = None,
    ) -> Iterator[PartialMatches]:
        """Results that contain a row of the arriving stream at position `arrived` or later; with `starting`,
        only those that extend this part of the starting rows."""
        stream = self.direction.order[0]
        rows = starting or self.starting_rows(windows, arrived)
        start = PartialMatches.start(stream, windows[stream], *rows)
        yield from self._expand(start, 0, ProbeRun(windows, arrived, look))

    def run_rows(
        self, windows: Sequence[WindowStore], rows: Array, look: ProbeScope
    ) -> Iterator[PartialMatches]:
        """Results that contain one of these rows of the arriving stream."""
        if len(rows):
            start = PartialMatches.of_rows(self.direction.arriving, windows[self.direction.arriving], rows)
            yield from self._expand(start, 0, ProbeRun(windows, look=look))

    def extend(self, partials: PartialMatches, windows: Sequence[WindowStore]) -> Iterator[PartialMatches]:
        """Extend partial matches of any streams through all steps."""
        return self._expand(partials, 0, ProbeRun(windows))

    def _expand(self, partials: PartialMatches, level: int, run: ProbeRun) -> Iterator[PartialMatches]:
        windows, look = run.windows, run.look
        if look.step_counts is not None:
            look.step_counts[level] += len(partials)
        if level == len(self.searches):
            yield self.complete(partials, run)
            return
        search = self.searches[level]
        step = search.step
        window = windows[step.stream]
        arriving = self.direction.arriving
        first = run.arrived if step.stream == arriving else window.first
        last = level == len(self.searches) - 1
        ages = look.ages[level] if look.ages else None
        anchor = None if ages is None else windows[arriving].ts[partials.rows[arriving]]
        for which, found in search.run(partials, windows, first, ages, anchor):
            longer = partials.extend(step.stream, window, which, found, last)
            for check in self.checks(step, run):
                longer = longer.where(check(longer))
            if len(longer):
                yield from self._expand(longer, level + 1, run)

    def checks(self, step: Step, run: ProbeRun) -> Iterator[Callable[[PartialMatches], Array]]:
        """Conditions that a step makes checkable, each as a function that returns a mask."""
        for condition in step.checks:
            yield partial(self._check, condition, run.windows)
        for residual in step.residuals:
            yield partial(self._possible, residual, run)

    def complete(self, partials: PartialMatches, run: ProbeRun) -> PartialMatches:
        """The results among matches that have passed the checks of all steps."""
        if not run.suspects:
            return partials
        residuals = [residual for search in self.searches for residual in search.step.residuals]
        return self._judged(residuals, run.windows, self._inside(partials))

    def holding(
        self, residuals: Sequence[Residual], windows: Sequence[WindowStore], partials: PartialMatches
    ) -> PartialMatches:
        """The combinations on which conditions hold that no step checks. Rows may be missing."""
        run = ProbeRun(windows)
        for residual in residuals:
            partials = partials.where(self._possible(residual, run, partials))
        return self._judged(residuals, windows, partials) if run.suspects else partials

    def _check(self, condition: Condition, windows: Sequence[WindowStore], partials: PartialMatches) -> Array:
        pair = (condition.own, condition.bound) if isinstance(condition, BoundEquality) else condition.columns
        left, right = (partials.values(w.stream, windows[w.stream].column(w.name)) for w in pair)
        return holds(condition, left, right)

    def _check_sets(
        self, likeness: SetSimilarity, partials: PartialMatches, windows: Sequence[WindowStore]
    ) -> Array:
        """Check the sets in the windows; a list is encoded when its row is stored."""
        x, y = (windows[w.stream].sets(w.name, partials.rows[w.stream]) for w in likeness.columns)
        return alike(likeness, common(*x, *y), x[1], y[1])

    def _possible(self, residual: Residual, run: ProbeRun, partials: PartialMatches) -> Array:
        """Mask of the partial matches on which a condition holds, or fails: these are judged at the end."""
        holds, failures, _ = self._evaluated(residual, run.windows, partials)
        if not failures:
            return holds
        run.suspects = True
        return holds | failed_rows(failures, len(partials))

    def _judged(
        self, residuals: Sequence[Residual], windows: Sequence[WindowStore], partials: PartialMatches
    ) -> PartialMatches:
        """The combinations on which all conditions hold; those on which some fail are counted. On each of the
        given combinations every condition holds or fails."""
        found = np.ones(len(partials), bool)
        failures: list[Failure] = []
        columns: dict[Reference, pa.Array] = {}
        for residual in residuals:
            holds, more, given = self._evaluated(residual, windows, partials)
            found &= holds
            failures += more
            columns |= given
        self._failed.add(failures, columns, len(partials))
        return partials.where(found)

    def _evaluated(
        self, residual: Residual, windows: Sequence[WindowStore], partials: PartialMatches
    ) -> tuple[Array, list[Failure], dict[Reference, pa.Array]]:
        """Mask of the matches on which a condition holds, its failures, and the columns it reads."""
        columns: dict[Reference, pa.Array] = {}
        failures: list[Failure] = []
        if residual.similarity is not None:
            return self._check_sets(residual.similarity, partials, windows), failures, columns
        needed = references(residual.node)
        for stream in residual.streams:
            alias = self._aliases[stream]
            names = sorted(name for a, name in needed if a == alias)
            gathered = gather_or_null(windows[stream], partials.rows[stream], names)
            columns.update({(alias, name): array for name, array in zip(names, gathered, strict=True)})
        holds = evaluate(residual.node, columns, len(partials), self._functions, failures)
        return as_mask(holds), failures, columns
