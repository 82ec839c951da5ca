"""Finds the rows of a level's stream that match combinations, which may lack some rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windrow.engine.failed_combinations import FailedCombinations
from windrow.engine.outer.missing_rows import MISSING, gather_or_null
from windrow.engine.outer.row_flags import FLAGS, PASSED, column_flags
from windrow.engine.partial_matches import PartialMatches
from windrow.engine.probe import Probe
from windrow.engine.windows import Windows
from windrow.expr.join_columns import column_values
from windrow.expr.parse import Reference, references
from windrow.expr.values import as_mask
from windrow.model.plan import Direction
from windrow.model.predicate import Equality
from windrow.planning.bound_query import BoundQuery
from windrow.planning.levels import LevelStep

Array = np.ndarray
_ORIGIN = -1
"""Pseudo-stream of a partial match that holds the combination it grew from."""


@dataclass(frozen=True)
class JoinParts:
    """The parts of the join that an outer join uses."""

    bound: BoundQuery
    windows: Windows
    failed: FailedCombinations

    def flags(self, stream: int) -> Array:
        return self.windows[stream].column(FLAGS)

    def probe(self, direction: Direction) -> Probe:
        bound, inside = self.bound, self.windows.contain
        return Probe(direction, self.windows, bound.query.aliases, bound.functions, self.failed, inside)

    def columns(self, rows: Mapping[int, Array], needed: frozenset[Reference]) -> dict[Reference, pa.Array]:
        """Payload columns of rows, null where a row is missing."""
        found: dict[Reference, pa.Array] = {}
        for stream, alias in enumerate(self.bound.query.aliases):
            names = sorted(name for a, name in needed if a == alias)
            if names:
                gathered = gather_or_null(self.windows[stream], rows[stream], names)
                found.update({(alias, n): c for n, c in zip(names, gathered, strict=True)})
        return found

    def equal(self, pair: Equality, rows: Mapping[int, Array]) -> Array:
        """Mask of the rows whose values are equal, not only their hashes."""
        needed = references(pair.left.node) | references(pair.right.node)
        columns, count = self.columns(rows, needed), len(rows[pair.left.stream])
        values = [column_values(column, columns, count, self.bound.functions) for column in pair.columns]
        return as_mask(pc.equal(*values))


class LevelSearch:
    """Executes one level."""

    def __init__(self, plan: LevelStep, parts: JoinParts, on_also_of: tuple[int, ...]) -> None:
        self.plan = plan
        self._parts = parts
        self._probe = parts.probe(Direction(_ORIGIN, (plan.step.stream,), (plan.step,)))
        self._own = column_flags(parts.bound, plan.step.stream, plan.own) | PASSED
        self.needed: dict[int, int] = dict.fromkeys(on_also_of, PASSED)
        """Flags that rows of earlier streams need for the level to be searched at all."""
        for stream in {column.stream for column in plan.bound}:
            self.needed[stream] = self.needed.get(stream, 0) | column_flags(parts.bound, stream, plan.bound)

    @property
    def comparisons(self) -> int:
        return self._probe.comparisons

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
        if len(which) == 0:
            return
        rows = {s: positions[which] for s, positions in partials.rows.items()}
        start = PartialMatches({_ORIGIN: which, **rows}, partials.newest[which], partials.latest[which])
        stream, flags = self.plan.step.stream, self._parts.flags(self.plan.step.stream)
        for found in self._probe.extend(start, self._parts.windows):
            found = self._parts.windows.contain(found)
            found = found.where((flags[found.rows[stream]] & self._own) == self._own)
            for pair in self.plan.hashed:
                found = found.where(self._parts.equal(pair, found.rows))
            found = self._probe.holding(self.plan.residuals, self._parts.windows, found)
            if len(found):
                yield found.rows[_ORIGIN].copy(), found.rows[stream].copy()
