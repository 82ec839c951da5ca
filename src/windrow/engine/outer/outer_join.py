"""Outer, semi, anti and as-of joins: combinations of the core are parked until no later row can match them,
then decided level by level.

A combination is complete with regard to a stream once that stream's watermark has passed `latest`, the
earliest end of its rows' windows. Until then it is parked. If the kind of join allows it, the inner join
finds results with a row of every stream as rows arrive, and only results with missing rows are decided late.
In a join of two streams what it finds also shows which rows have a match; only the others stay parked.
A combination's own rows do not expire before it is complete: they expire when all other streams have passed
the end of their windows, which is no earlier. Rows of the levels are kept while a parked combination may need
them.

Under a limit, a decision that a shed row could have changed is uncertain (`losses.py`). Decisions always
probe whole windows: a deadline sheds rows, and probes and results of the inner join, but no decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from windrow.engine.failed_combinations import FailedCombinations
from windrow.engine.index_search import IndexSearch
from windrow.engine.outer.as_of import NearestRows
from windrow.engine.outer.level_search import JoinParts, LevelSearch
from windrow.engine.outer.losses import Losses
from windrow.engine.outer.parked import Parked
from windrow.engine.outer.row_flags import WHOLE
from windrow.engine.partial_matches import MISSING, PartialMatches
from windrow.engine.probe import Probe
from windrow.engine.row_windows import NEVER, OUT
from windrow.engine.watermarks import EARLIEST, END
from windrow.engine.windows import Windows
from windrow.model.plan import Step
from windrow.model.predicate import Equality
from windrow.model.stateful import Stateful
from windrow.planning.bound_query import BoundQuery
from windrow.planning.levels import ShapePlan

Array = np.ndarray
AT_ONCE = 1 << 13
"""Number of combinations decided together."""
Decided = tuple[PartialMatches, Array]
"""Results, and a mask of those that no shed row could have changed."""


class Decider(Stateful):
    """Finds, parks and decides the combinations of one shape."""

    saved = ("parked", "losses", "unmatched", "uncertain", "given_up")

    def __init__(self, plan: ShapePlan, parts: JoinParts, eager: bool) -> None:
        self.plan = plan
        self.core = plan.shape.core
        self._parts = parts
        self._eager = eager
        on_also_of = () if plan.shape.filters_core else self.core
        self._levels = [LevelSearch(level, parts, self.core, on_also_of) for level in plan.levels]
        self._probes = {d.arriving: parts.probe(d) for d in plan.directions}
        self._hashed = [
            Equality(members[0], other)
            for members in plan.classes
            if members[0].kind == "hash"
            for other in members[1:]
        ]
        self.parked = Parked.none(self.core)
        self.losses = [Losses(level) for level in plan.levels]
        self.unmatched = 0
        """Results returned that have a missing row, or that depend on the absence of one."""
        self.uncertain = 0
        """Results returned that a shed row could have changed."""
        self.given_up = 0
        """Combinations whose own rows were evicted before they were decided."""

    @property
    def searches(self) -> list[IndexSearch]:
        found: list[Probe | LevelSearch] = [*self._levels, *self._probes.values()]
        return [search for each in found for search in each.searches]

    def arrived(self, stream: int, start: int) -> Iterator[PartialMatches]:
        """Park the combinations that new rows complete; yield those that nothing can match."""
        if stream not in self.core:
            return
        for found in self._combinations(stream, start):
            undecided = np.zeros(len(found), bool)
            for level in self._levels:
                undecided |= level.possible(found.rows, len(found))
            unmatched = found.where(~undecided)
            if len(unmatched):
                yield from self._decide(unmatched, 0)
            found = found.where(undecided)
            assert found.newest is not None and found.latest is not None
            numbers = {s: self._parts.windows[s].number(p) for s, p in found.rows.items()}
            self.parked = self.parked.plus(Parked(numbers, found.newest, found.latest))

    def matched(self, pairs: PartialMatches) -> Iterator[PartialMatches]:
        """The inner join has found pairs of two streams: their rows are no longer parked. Yield those that
        are results because they have a match."""
        (stream,) = self.core
        window = self._parts.windows[stream]
        numbers, first = np.unique(window.number(pairs.rows[stream]), return_index=True)
        parked = self.parked.rows[stream]  # ascending, as rows are numbered when they are stored
        at = np.searchsorted(parked, numbers)
        waits = at < len(parked)
        waits[waits] = parked[at[waits]] == numbers[waits]
        at, first = at[waits], first[waits]
        # One pair per row is verified. If it is a collision, the row is decided later.
        for pair in self.plan.levels[0].hashed:
            true = self._parts.equal(pair, {s: rows[first] for s, rows in pairs.rows.items()})
            at, first = at[true], first[true]
        if len(at) == 0:
            return
        if self.plan.levels[0].level.role == "exists":
            yield PartialMatches({stream: pairs.rows[stream][first]})
        stays = np.ones(len(parked), bool)
        stays[at] = False
        self.parked = self.parked.where(stays)

    def release(self, earliest: Sequence[int | None]) -> Iterator[PartialMatches]:
        """Decide the combinations that are complete when later rows are no older than `earliest`."""
        if len(self.parked) == 0:
            return
        done = np.ones(len(self.parked), bool)
        settled = True
        for level in self.plan.levels:
            reached = earliest[level.level.stream]
            if reached is None:
                reached = EARLIEST
            # Newer rows matter to a combination's last match only if an earlier level can add one.
            settled = settled and (level.level.match == "last" or level.level.role in ("exists", "absent"))
            only_before = settled and level.level.match == "last"
            if reached < END:
                done &= (self.parked.newest if only_before else self.parked.latest) < reached
        done |= self._displaced()
        if not done.any():
            return
        complete, self.parked = self.parked.where(done), self.parked.where(~done)
        for at in range(0, len(complete), AT_ONCE):
            part = slice(at, at + AT_ONCE)
            rows = {s: self._parts.windows[s].position(numbers[part]) for s, numbers in complete.rows.items()}
            yield from self._decide(PartialMatches(rows, complete.newest[part], complete.latest[part]), 0)

    def _positions(self) -> dict[int, Array]:
        windows = self._parts.windows
        return {s: windows[s].position(numbers) for s, numbers in self.parked.rows.items()}

    def _displaced(self) -> Array:
        """Mask of the parked combinations with a row that has left its row window: as rows are processed in
        the order of all streams, no later one can match them."""
        found = np.zeros(len(self.parked), bool)
        for stream, rows in self._positions().items():
            if self._parts.windows.row_windows[stream] is not None:
                found |= self._parts.windows[stream].column(OUT)[rows] < NEVER
        return found

    def first_seq(self) -> int:
        """Least place, among parked combinations, of the newest row in the order of all streams."""
        return int(self._parts.windows.newest_seq(self._positions()).min())

    def _combinations(self, stream: int, start: int) -> Iterator[PartialMatches]:
        windows = self._parts.windows
        if len(self.core) == 1:
            if start < (end := windows[stream].end):
                yield PartialMatches.of_rows(stream, windows[stream], np.arange(start, end))
            return
        for found in map(windows.contain, self._probes[stream].run(start)):
            for pair in self._hashed:
                found = found.where(self._parts.equal(pair, found.rows))
            if len(found) == 0:
                continue
            rows = {s: found.rows[s].copy() for s in self.core}
            times = [windows[s].ts[rows[s]] for s in self.core]
            ends = [windows[s].ts[rows[s]] + windows[s].time_span for s in self.core]
            yield PartialMatches(rows, np.maximum.reduce(times), np.minimum.reduce(ends))

    def _decide(self, partials: PartialMatches, k: int) -> Iterator[PartialMatches]:
        """Results of these combinations from level `k` on, except those the inner join finds."""
        if k == len(self._levels):
            yield partials
            return
        search, level = self._levels[k], self.plan.levels[k].level
        matched = np.zeros(len(partials), bool)
        if level.role in ("exists", "absent"):
            for which, _ in search.run(partials):
                matched[which] = True
            kept = partials.where(matched if level.role == "exists" else ~matched)
            if len(kept):
                yield from self._decide(kept, k + 1)
            return
        if level.match is not None:
            assert partials.newest is not None
            nearest = NearestRows(level.match, self._parts.windows[level.stream], partials.newest)
            for which, rows in search.run(partials):
                nearest.add(which, rows)
            matched[nearest.which] = True
            if len(nearest.which):
                chosen = self._extended(partials, level.stream, nearest.which, nearest.rows)
                yield from self._decide(chosen, k + 1)
        else:
            wanted = self._wanted(partials, k)
            for which, rows in search.run(partials):
                matched[which] = True
                if wanted is not None:
                    which, rows = which[wanted[which]], rows[wanted[which]]
                if len(which):
                    yield from self._decide(self._extended(partials, level.stream, which, rows), k + 1)
        if level.role == "optional" and not matched.all():
            lacking = partials.where(~matched)
            rows = np.full(len(lacking), MISSING)
            lacking = PartialMatches({**lacking.rows, level.stream: rows}, lacking.newest, lacking.latest)
            yield from self._decide(lacking, k + 1)

    def _wanted(self, partials: PartialMatches, k: int) -> Array | None:
        """Mask of the combinations whose matches at level `k` are followed; None for all. If the inner join
        returns complete results, combinations without a missing row need no match at the last level."""
        if not self._eager or k < len(self._levels) - 1:
            return None
        lacking = [partials.rows[level.level.stream] == MISSING for level in self.plan.levels[:k]]
        return np.logical_or.reduce(lacking) if lacking else np.zeros(len(partials), bool)

    def _extended(self, partials: PartialMatches, stream: int, which: Array, rows: Array) -> PartialMatches:
        window = self._parts.windows[stream]
        return partials.extend(stream, which, rows, window.ts[rows], window.time_span)

    def certain(self, results: PartialMatches) -> Array:
        """Mask of the results that no shed row could have changed."""
        windows = self._parts.windows
        newest = np.maximum.reduce([windows[s].ts[results.rows[s]] for s in self.core])
        found = np.ones(len(results), bool)
        for each, losses in zip(self.plan.levels, self.losses, strict=True):
            level = each.level
            if level.role == "exists" or not losses.any:
                continue
            last = losses.last(windows, results.rows, len(results))
            touched = newest - windows[level.stream].time_span <= last
            if level.match is None and level.role == "optional":
                touched = touched & (results.rows[level.stream] == MISSING)
            found &= ~touched
        return found

    def lose(self, stream: int, ts: Array, columns: Mapping[str, Array]) -> None:
        """Rows of a stream are shed."""
        for each, losses in zip(self.plan.levels, self.losses, strict=True):
            if each.level.stream == stream:
                losses.add(ts, columns)

    def count(self, results: PartialMatches, certain: Array) -> None:
        lacking = np.full(len(results), any(x.level.role == "absent" for x in self.plan.levels))
        for each in self.plan.levels:
            if each.level.role == "optional":
                lacking |= results.rows[each.level.stream] == MISSING
        self.unmatched += int(np.count_nonzero(lacking))
        self.uncertain += int(len(certain) - np.count_nonzero(certain))

    def evicted(self, stream: int, alive: Array) -> None:
        """Rows of a stream are about to be evicted where `alive` is false, which renumbers the others."""
        if stream not in self.core or len(self.parked) == 0:
            return
        window = self._parts.windows[stream]
        at = window.position(self.parked.rows[stream]) - window.first
        kept = alive[at]
        self.given_up += int(len(kept) - np.count_nonzero(kept))
        # The rows that stay are stored anew, behind all rows so far.
        renumbered = window.number(window.end) + np.cumsum(alive) - 1
        self.parked = self.parked.with_rows(stream, renumbered[at]).where(kept)

    def dump(self) -> dict[str, Any]:
        """Row numbers are relative to the first stored row."""
        return super().dump() | {"parked": self._shifted(-1)}

    def restore(self, values: dict[str, Any]) -> None:
        super().restore(values)
        self.parked = self._shifted(1)

    def _shifted(self, sign: int) -> Parked:
        found = self.parked
        for stream in self.core:
            window = self._parts.windows[stream]
            start = window.segments[0].start if window.segments else 0
            found = found.with_rows(stream, found.rows[stream] + sign * start)
        return found


class OuterJoin(Stateful):
    """The part of a join that goes beyond inner results."""

    saved = ("_deciders", "shed")

    def __init__(self, bound: BoundQuery, windows: Windows, failed: FailedCombinations) -> None:
        parts = JoinParts(bound, windows, failed)
        self.eager = bound.query.kind.eager
        self._pairwise = bound.query.kind.pairwise
        self._counts_rows = bound.query.counts_rows
        self._parts = parts
        self._deciders = [Decider(plan, parts, self.eager) for plan in bound.shapes]
        self.searches = [search for decider in self._deciders for search in decider.searches]
        """Executed beside those of the plan."""
        self.shed = False
        """Whether any row was ever shed."""

    @property
    def steps(self) -> list[Step]:
        """Steps that the windows' indexes must serve in addition to the plan."""
        return [step for decider in self._deciders for step in decider.plan.steps]

    @property
    def probes_inner(self) -> bool:
        """Whether the results of the inner join are of use."""
        return self.eager or self._pairwise

    @property
    def counts(self) -> Mapping[str, int]:
        deciders = self._deciders
        return {
            "results_unmatched": sum(d.unmatched for d in deciders),
            "results_uncertain": sum(d.uncertain for d in deciders),
            "combinations_given_up": sum(d.given_up for d in deciders),
            "combinations_parked": sum(len(d.parked) for d in deciders),
        }

    def nbytes(self, stream: int) -> int:
        """Memory of parked combinations, charged to the first stream of their core."""
        return sum(decider.parked.nbytes for decider in self._deciders if decider.core[0] == stream)

    def whole(self, partials: PartialMatches) -> PartialMatches:
        """Only inner results: drop those with a row that is stored although a join column has no value."""
        for stream in partials.rows:
            partials = partials.where((self._parts.flags(stream)[partials.rows[stream]] & WHOLE) == WHOLE)
        return partials

    def arrived(self, stream: int, start: int) -> Iterator[Decided]:
        """Process new rows; yield results that nothing can change any more."""
        for decider in self._deciders:
            yield from self._with_certainty(decider, decider.arrived(stream, start))

    def matched(self, found: PartialMatches) -> Iterator[Decided]:
        """Process results of the inner join; yield results that they decide."""
        for decider in self._deciders if self._pairwise else ():
            yield from self._with_certainty(decider, decider.matched(found))

    def release(self, earliest: Sequence[int | None]) -> Iterator[Decided]:
        """Results that are decided when later rows of each stream are no older than `earliest`."""
        for decider in self._deciders:
            yield from self._with_certainty(decider, decider.release(earliest))

    def bounded(self, horizons: Sequence[int | None], seq: int) -> tuple[list[int | None], int]:
        """Expiry horizons, and the place up to which displaced rows go, lowered to keep the rows that parked
        combinations may need."""
        found = list(horizons)
        for decider in self._deciders:
            if len(decider.parked) == 0:
                continue
            newest = int(decider.parked.newest.min())
            for each in decider.plan.levels:
                stream = each.level.stream
                horizon = found[stream]
                if horizon is not None:
                    found[stream] = min(horizon, newest - self._parts.windows[stream].time_span)
            if self._counts_rows:
                seq = min(seq, decider.first_seq())
        return found, seq

    def waits_before(self, time: int) -> bool:
        """Whether a parked combination has only rows before a time."""
        return any(bool((decider.parked.newest < time).any()) for decider in self._deciders)

    def lose(self, stream: int, ts: Array, columns: Mapping[str, Array]) -> None:
        """Rows of a stream with these times and join columns are shed."""
        self.shed = True
        for decider in self._deciders:
            decider.lose(stream, ts, columns)

    def evicted(self, stream: int, leaving: Array) -> None:
        """Rows of a stream are about to be evicted."""
        window = self._parts.windows[stream]
        if leaving.any():
            rows = np.flatnonzero(leaving) + window.first
            columns = self._parts.bound.join_columns[stream]
            self.lose(stream, window.ts[rows], {w.name: window.column(w.name)[rows] for w in columns})
            for decider in self._deciders:
                decider.evicted(stream, ~leaving)

    def _with_certainty(self, decider: Decider, found: Iterator[PartialMatches]) -> Iterator[Decided]:
        for results in found:
            certain = decider.certain(results)
            decider.count(results, certain)
            yield results, certain
