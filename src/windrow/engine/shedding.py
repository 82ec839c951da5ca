"""Keeping the windows inside the memory they are given.

Between append and probe the policy gets to see new rows, after each probe the results, and at the end of a
quantum, if the windows hold more than the limit, the rows that rank lowest go. So the limit holds whenever
no quantum is under way; while one is, its own rows come on top, with the room arrays keep for growing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windrow.engine.holdings import Holdings
from windrow.errors import QueryError
from windrow.kernels.selecting import exempt, lifetimes, lowest
from windrow.model.limit import MemoryLimit
from windrow.model.measurements import Quality
from windrow.model.policy import Policy
from windrow.shed.coming import Coming
from windrow.shed.contents import ContentsOverTime
from windrow.shed.context import Context
from windrow.shed.drawing import limits
from windrow.shed.fairness import Fairness
from windrow.shed.monitor import WATCH, Monitor, Watched
from windrow.shed.needs import Needs
from windrow.shed.outlook import Outlook, outlook
from windrow.shed.ranking import Ranking, Room, Selection
from windrow.shed.recall import UNKNOWN
from windrow.shed.registry import make_ranking
from windrow.shed.view import LESSON, Found, Notes, View

if TYPE_CHECKING:
    from windrow.engine.join import Join
    from windrow.engine.partials import Partials

Array = np.ndarray
_TRIES = 4
KNOWN = 0.5
"""How wide the interval of a recall may be for forecasts to go by it."""
LESSONS = 0.125
"""The part of the quanta that is learned from where windows are large."""


class Shedder:
    """
    Parameters
    ----------
    limit
        May be changed between calls; on Spark each partition's share of the whole.
    """

    def __init__(self, policy: Policy, limit: MemoryLimit, context: Context) -> None:
        self.policy = policy
        self.limit = limit
        self._whole = limit
        self.ranking: Ranking = make_ranking(policy, context)
        watches = policy.monitor > 0 and not self.ranking.samples
        self.monitor = Monitor(len(context.schemas)) if watches else None
        self.notes: Notes = (*(((WATCH, np.int32),) if self.monitor else ()), *self.ranking.notes)
        self.fairness = Fairness(len(context.schemas))
        self.shed = [0] * len(context.schemas)
        """Rows evicted so far, per stream."""
        self._seed = context.query.seed
        self._groups = limits(policy.split, 1.0, context.query.aliases)
        self._quanta = 0
        self._starts = [0] * len(context.schemas)
        self._now = 0
        self._before = 0
        self._lesson, self._learning = 1, True
        self._rng = np.random.default_rng(0)
        self._views: dict[int, tuple[Array, int, int, View]] = {}
        self._coming = Coming(len(context.schemas))
        self._contents = ContentsOverTime(len(context.schemas))
        self._results = 0.0
        """In this quantum, with those that ghosts tell of."""
        foretells = self.ranking.responds is not None and len(context.schemas) > 2
        self._needs = Needs(len(context.schemas)) if foretells else None
        """Until anything is lost: from then on whole results are not seen as they are."""

    # -- the data flow ------------------------------------------------------------------------------

    def begin(self, join: Join, rows: int, first: int, now: int) -> None:
        """A quantum begins, of so many rows and from event time `first` to `now`. Its chances depend on its
        number alone, so a replay takes the same."""
        self._quanta += 1
        longest = max((w.span or 0 for w in join.windows), default=0) / 1e6
        self._coming.go(max(0, now - self._now) / 1e6 if self._quanta > 1 else 0.0, longest)
        self._rng = np.random.default_rng((self._seed, self._quanta))
        self._before = first if self._quanta == 1 else self._now
        self._now = now
        self._results = 0.0
        self._lesson, self._learning = self._teach(join, rows)
        self._starts = [window.end for window in join.windows]
        self._views.clear()

    def arrived(self, join: Join, stream: int, start: int) -> None:
        """Rows from position `start` on were appended."""
        self._starts[stream] = start
        fresh = join.windows[stream].end - start
        self.fairness.came(stream, fresh)
        self._coming.add(stream, fresh)
        self._contents.arrive(stream, fresh)
        if self._idle:
            return
        view = self._view(join, stream)
        if self.monitor:
            self.monitor.arrive(view, self._rng)
        self.ranking.arrive(view, self._rng)

    def found(self, join: Join, partials: Partials) -> Selection | None:
        """Results were found; tells which of them are given out, if not all."""
        ranking, before = self.ranking, self.monitor.results.true if self.monitor else 0.0
        self._results += len(partials)
        if self._idle:
            if self.monitor:
                self.monitor.results.add(len(partials), len(partials))
            return None
        windows = join.windows
        views = [self._view(join, s) for s in range(len(windows))]
        found = Found([partials.rows[s] - window.first for s, window in enumerate(windows)], views)
        chosen = ranking.select(views, found, self._rng)
        worth = ranking.found(views, found) if ranking.learns else None
        if self.monitor:
            self.monitor.found(found, worth)
            self._results += self.monitor.results.true - before - len(found)
        if self._needs is not None and self._lesson:
            self._needs.add(found, ranking.scores)
        return chosen

    def weights(self, join: Join, partials: Partials) -> Array:
        """How many results each stands for, on account of rows that were let go."""
        if self.monitor is None:
            return np.ones(len(partials))
        slots = {s: self._view(join, s).notes[WATCH] for s in partials.rows}
        rows = [(slots[s], positions - join.windows[s].first) for s, positions in partials.rows.items()]
        return self.monitor.stands_for(rows)

    def settle(self, join: Join) -> None:
        """A quantum was evaluated: the policy learns, and what does not fit goes."""
        if self.ranking.responds is not None:
            spans = [window.covers / 1e6 for window in join.windows]
            passed = max(0, self._now - self._before) / 1e6
            self._contents.settle(passed, spans, self._results, self.limit.size)
        over = max(self._held(join).excess) > 0
        if self._idle and not over:
            return
        views = [self._view(join, s) for s in range(len(join.windows))]
        self.ranking.settle(views, Room(float(self.limit.size), self._held(join).costs))
        spent: list[Array | None] = [self.ranking.spent(view) for view in views]
        if over:
            spent = [join.of_no_use(stream, mask) for stream, mask in enumerate(spent)]
        for _ in range(_TRIES):
            if not self._make_room(join, spent):
                break
            spent = [None] * len(views)
        if self.limit.kind == "bytes" and sum(window.nbytes for window in join.windows) > self.limit.size:
            for window in join.windows:
                window.shrink()
            self._check_holdable(join)

    def _check_holdable(self, join: Join) -> None:
        """Bytes can be too few for windows that are next to empty, which shows only when rows are there. The
        limit of the whole join counts: a partition's share may be as small as its need."""
        held, rows = sum(window.nbytes for window in join.windows), sum(map(len, join.windows))
        if held > self._whole.size:
            raise QueryError(
                f"memory: {self._whole} is too little for this join: windows of {rows} rows in all take "
                f"{held} B with their indexes; give at least {max(1024, 2 * held)} B"
            )

    @property
    def _idle(self) -> bool:
        """Whether there is nothing to learn in this quantum and nothing is watched."""
        watching = self.monitor is not None and self.monitor.watching
        return not self._lesson and self.ranking.skips and not watching

    def _teach(self, join: Join, rows: int) -> tuple[int, bool]:
        """Learn from every so-many-th row of this quantum, 0: from none; and whether to learn of the streams
        as a whole.

        Windows of some thousand rows teach all there is. In larger ones, while memory is less than half full,
        some thousand rows for each window are enough, from quanta taken at random; later every row matters,
        but not every quantum tells something new of all.
        """
        held = sum(map(len, join.windows))
        if rows == 0 or held <= 2 * LESSON:
            return 1, True
        if max(self._held(join).filled) > 0.5:
            return 1, self._rng.random() < LESSONS
        chance = 2 * LESSON * rows / (held * min(rows, LESSON))
        lesson = max(1, rows // LESSON) if self._rng.random() < chance else 0
        return lesson, lesson > 0

    # -- inside -------------------------------------------------------------------------------------

    def _view(self, join: Join, stream: int) -> View:
        """The window as policies see it; made anew when rows have come or gone."""
        window = join.windows[stream]
        known = self._views.get(stream)
        if known is not None and known[0] is window.ts and known[1:3] == (window.first, window.end):
            return known[3]
        view = self._look(join, stream)
        self._views[stream] = (window.ts, window.first, window.end, view)
        return view

    def _look(self, join: Join, stream: int) -> View:
        window = join.windows[stream]
        ts = window.ts[window.first : window.end]
        live = slice(window.first, window.end)
        first = window.columns - len(self.notes)
        notes = {name: window.column(first + k)[live] for k, (name, _) in enumerate(self.notes)}
        return View(
            stream=stream,
            ts=ts,
            words=[window.column(k)[live] for k in range(len(join.words[stream]))],
            notes=notes,
            fresh=self._starts[stream] - window.first,
            span=window.covers,
            now=self._now,
            passed=max(0, self._now - self._before) / 1e6,
            lesson=self._lesson,
            learns=self._learning,
            payload=lambda names, start: window.gather_from(window.first + start, names),
        )

    def _held(self, join: Join) -> Holdings:
        return Holdings(join.windows, self.limit, self._groups)

    def _make_room(self, join: Join, spent: Sequence[Array | None]) -> bool:
        """Lets go of the rows that are `spent` (masks), whether there is room or not, and of the lowest ranks
        as far as they do not fit; returns whether any went."""
        held = self._held(join)
        wanted = held.excess
        if max(wanted) <= 0 and all(mask is None for mask in spent):
            return False
        costs = held.freed_by_a_row
        gone = [
            np.zeros(len(window), bool) if mask is None else mask.copy()
            for window, mask in zip(join.windows, spent, strict=True)
        ]
        freed = [cost * np.count_nonzero(mask) for cost, mask in zip(costs, gone, strict=True)]
        groups = zip(wanted, self._groups, strict=True)
        wanted = [much - sum(freed[s] for s in streams) for much, (streams, _) in groups]
        if max(wanted) > 0:
            self._evict(join, wanted, costs, gone)
        for stream, leaving in enumerate(gone):
            if leaving.any():
                self._drop(join, stream, leaving)
        return max(wanted) > 0 or any(freed)

    def _evict(
        self, join: Join, wanted: Sequence[float], costs: Sequence[float], gone: Sequence[Array]
    ) -> None:
        """Adds to the masks of rows that go the lowest ranks, until so much of the limit's unit is free in
        each group of streams."""
        views = [self._view(join, s) for s in range(len(join.windows))]
        watched = self._watching(views, costs)
        evicted = [np.zeros(len(view), bool) for view in views]
        for leaving, seen in zip(evicted, watched, strict=True):
            leaving[seen.leaving] = True
        for much, (streams, _) in zip(wanted, self._groups, strict=True):
            needed = much - sum(costs[s] * len(watched[s].leaving) for s in streams)
            if needed > 0:
                self._give_up([views[s] for s in streams], costs, needed, watched, gone, evicted)
        self.ranking.thinned(views, evicted)
        for leaving, out in zip(evicted, gone, strict=True):
            out |= leaving

    def _drop(self, join: Join, stream: int, leaving: Array) -> None:
        self.shed[stream] += join.let_go(stream, leaving, self.limit.kind == "bytes")
        self._needs = None
        self._starts[stream] = join.windows[stream].end
        self._views.pop(stream, None)

    def _watching(self, views: Sequence[View], costs: Sequence[float]) -> list[Watched]:
        """Sees to the number of watched rows; returns those of each view."""
        if self.monitor is None:
            none, nobody = np.empty(0, np.int64), np.empty(0, bool)
            return [Watched(none, none, nobody, none) for _ in views]
        held = sum(c * len(v) for c, v in zip(costs, views, strict=True))
        cap = self.policy.monitor * self.limit.size / max(held / max(sum(map(len, views)), 1), 1e-9)
        if not self.monitor.watching:
            self.monitor.begin(views, cap, self._rng)
        return self.monitor.adjust(views, cap, self._rng)

    def _give_up(
        self,
        views: Sequence[View],
        costs: Sequence[float],
        needed: float,
        watched: Sequence[Watched],
        gone: Sequence[Array],
        evicted: Sequence[Array],
    ) -> None:
        """Adds to the masks `evicted` the rows of a group of streams that rank lowest and together free what
        is needed. Watched rows among them stay, as ghosts; rows that are `gone` are none of them."""
        ends = np.cumsum([0, *map(len, views)]).tolist()
        rank, frees, low = np.empty(ends[-1]), np.empty(ends[-1]), np.empty(ends[-1], bool)
        for view, begin, end in zip(views, ends[:-1], ends[1:], strict=True):
            seen, cost, own = watched[view.stream], costs[view.stream], rank[begin:end]
            own[:] = self.ranking.rank(view, self._rng)
            if self.ranking.per_byte and len(views) > 1 and self.limit.kind == "bytes":
                own /= cost
            out = (gone[view.stream], seen.rows, seen.ghost, seen.leaving)
            exempt(*out, cost, own, frees[begin:end])
        lowest(rank, frees, needed, low)
        for view, begin, end in zip(views, ends[:-1], ends[1:], strict=True):
            seen, mine = watched[view.stream], low[begin:end]
            self.fairness.give_up(view.stream, *lifetimes(mine, view.ts, view.now))
            if self.monitor:
                self.monitor.haunt(seen.slots[mine[seen.rows]])
                mine[seen.rows] = False
            evicted[view.stream] |= mine

    # -- what it tells ------------------------------------------------------------------------------

    def quality(self, join: Join, results: int) -> Quality:
        """Of so many results."""
        if self.monitor is None:
            whole = Quality(1.0, 1.0, 1.0, found=float(results), true=float(results))
            known = replace(whole, recall=float("nan"), low=0.0, unit=UNKNOWN) if sum(self.shed) else whole
        else:
            sums = self.monitor.results
            told = (sums.found, sums.true, float(sums.variance.sum()), self.monitor.unit)
            known = Quality(*self.monitor.recall(), self.monitor.count, *told)
            if self.monitor.worth is not None:
                recall, low, high = self.monitor.recall(worth=True)
                known = replace(known, importance_recall=recall, importance_low=low, importance_high=high)
        return self.ranking.judge(replace(known, fairness=self._fairness(join)))

    def _fairness(self, join: Join) -> float:
        views = [self._view(join, s) for s in range(len(join.windows))]
        ghosts = [self.monitor.ghosts(view.notes[WATCH]) if self.monitor else 0 for view in views]
        held = [len(view) - count for view, count in zip(views, ghosts, strict=True)]
        return self.fairness.index(held, [view.span / 1e6 for view in views])

    def need(self, join: Join) -> float:
        """What whole windows would take, in the limit's unit."""
        held = self._held(join)
        spans = ((window.span or 0) / 1e6 for window in join.windows)
        whole = (self._coming.in_window(stream, span) for stream, span in enumerate(spans))
        return sum(max(s, w * c) for s, w, c in zip(held.sizes, whole, held.costs, strict=True))

    def outlook(self, join: Join, rates: Sequence[float] | None = None, faster: float = 1) -> Outlook | None:
        """What to expect of how much memory, from what has been learned so far; with rows of each stream
        coming as fast as they do, or at these rates, so many times as fast in all."""
        views = [self._view(join, s) for s in range(len(join.windows))]
        known = self.ranking.known(views, Room(float(self.limit.size), self._held(join).costs))
        if known is None:
            return None
        contents = self._contents.known(faster)
        if rates is not None:
            known = [replace(k, rate=rate) for k, rate in zip(known, rates, strict=True)]
        return outlook(known, self.ranking, self._needs, views, contents, self._measured())

    def _measured(self) -> dict[float, float]:
        """The recall so far, by the limit there was on average; none if that is hardly known."""
        if self.monitor is None or not self.monitor.watching:
            return {}
        recall, low, high = self.monitor.recall()
        return {self._contents.limit: recall} if high - low < KNOWN else {}

    # -- over a restart -----------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        learned, parts = self.ranking.save()
        plain: dict[str, Any] = {
            "limit": [str(self._whole), self.limit.size],
            "shed": self.shed,
            "quanta": self._quanta,
            "now": self._now,
            **self._coming.save(),
            "contents": self._contents.save(),
            "fairness": self.fairness.save(),
            "ranking": learned,
            "needs": self._needs is not None,
        }
        if self.monitor:
            plain["monitor"], slots = self.monitor.save()
            parts = [slots, *parts]
        if self._needs is not None:
            parts = [self._needs.save(), *parts]
        return plain, parts

    def load(self, plain: dict[str, Any], parts: Sequence[pa.RecordBatch]) -> None:
        self._quanta, self._now, self.shed = plain["quanta"], plain["now"], list(plain["shed"])
        self._coming.load(plain)
        self._contents.load(plain["contents"])
        if plain["limit"][0] == str(self._whole):  # else the query has another limit now, which holds
            self.limit = replace(self.limit, size=plain["limit"][1])
        self.fairness.load(plain["fairness"])
        parts = list(parts)
        self._needs = self._needs if plain.get("needs") else None
        if self._needs is not None:
            self._needs.load(parts.pop(0))
        if self.monitor:
            self.monitor.load(plain["monitor"], parts.pop(0))
        self.ranking.load(plain["ranking"], parts)
