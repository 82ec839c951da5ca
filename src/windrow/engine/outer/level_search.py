"""Finds the rows of a level's stream that match combinations, which may lack some rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from windrow.engine.conditions import same_values
from windrow.engine.failed_combinations import FailedCombinations
from windrow.engine.index_search import IndexSearch
from windrow.engine.outer.row_flags import FLAGS, PASSED, column_flags
from windrow.engine.partial_matches import MISSING, PartialMatches
from windrow.engine.probe import Probe
from windrow.engine.windows import Windows
from windrow.expr.parse import references
from windrow.model.plan import Direction
from windrow.model.predicate import Equality
from windrow.planning.bound_query import BoundQuery
from windrow.planning.levels import LevelStep

Array = np.ndarray


@dataclass(frozen=True)
class JoinParts:
    """The parts of the join that an outer join uses."""

    bound: BoundQuery
    windows: Windows
    failed: FailedCombinations

    def flags(self, stream: int) -> Array:
        return self.windows[stream].column(FLAGS)

    def probe(self, direction: Direction) -> Probe:
        return Probe(direction, self.bound, self.windows, self.failed, self.windows.contain)

    def equal(self, pair: Equality, rows: Mapping[int, Array]) -> Array:
        """Mask of the rows whose values are equal, not only their hashes."""
        columns = self.windows.columns(rows, references(pair.left.node) | references(pair.right.node))
        return same_values(pair.columns, columns, len(rows[pair.left.stream]), self.bound.functions)


class LevelSearch:
    """Executes one level."""

    def __init__(
        self, plan: LevelStep, parts: JoinParts, core: tuple[int, ...], on_also_of: tuple[int, ...]
    ) -> None:
        self.plan = plan
        self._parts = parts
        stream = plan.step.stream
        self._probe = parts.probe(Direction(core[0], (core[0], stream), (plan.step,)))
        self._own = column_flags(parts.bound, stream, plan.own) | PASSED
        self.needed: dict[int, int] = dict.fromkeys(on_also_of, PASSED)
        """Flags that rows of earlier streams need for the level to be searched at all."""
        for stream in {column.stream for column in plan.bound}:
            self.needed[stream] = self.needed.get(stream, 0) | column_flags(parts.bound, stream, plan.bound)

    @property
    def searches(self) -> list[IndexSearch]:
        return self._probe.searches

    def possible(self, rows: Mapping[int, Array], count: int) -> Array:
        """Mask of the combinations that can have a match, as far as these streams show."""
        can = np.ones(count, bool)
        for stream, needed in self.needed.items():
            if stream in rows:
                there = rows[stream] != MISSING
                flags = self._parts.flags(stream)[rows[stream][there]]
                can[there] &= (flags & needed) == needed
                can[~there] = False
        return can

    def run(self, partials: PartialMatches) -> Iterator[tuple[Array, Array]]:
        """Matching pairs (combination, row of the level's stream), in batches."""
        assert partials.newest is not None and partials.latest is not None
        which = np.flatnonzero(self.possible(partials.rows, len(partials)))
        rows = {s: positions[which] for s, positions in partials.rows.items()}
        start = PartialMatches(rows, partials.newest[which], partials.latest[which], origin=which)
        stream, flags = self.plan.step.stream, self._parts.flags(self.plan.step.stream)
        for found in map(self._parts.windows.contain, self._probe.extend(start)):
            found = found.where((flags[found.rows[stream]] & self._own) == self._own)
            for pair in self.plan.hashed:
                found = found.where(self._parts.equal(pair, found.rows))
            found = self._probe.holding(self.plan.residuals, found)
            if len(found):
                assert found.origin is not None
                yield found.origin.copy(), found.rows[stream].copy()
