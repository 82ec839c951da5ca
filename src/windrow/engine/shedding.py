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

from windrow.model.limit import MemoryLimit
from windrow.model.measurements import Quality
from windrow.model.policy import Policy
from windrow.planning.allocation import RecallCurve
from windrow.shed.context import Context
from windrow.shed.fairness import Fairness
from windrow.shed.monitor import WATCH, Monitor
from windrow.shed.ranking import Ranking, Room, Selection
from windrow.shed.registry import make_ranking
from windrow.shed.view import Found, View

if TYPE_CHECKING:
    from windrow.engine.join import Join
    from windrow.engine.partials import Partials

Array = np.ndarray
_TRIES = 4


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
        self.ranking: Ranking = make_ranking(policy, context)
        watches = policy.monitor > 0 and not self.ranking.samples
        self.monitor = Monitor(len(context.schemas)) if watches else None
        self.notes = (*((WATCH,) if self.monitor else ()), *self.ranking.notes)
        self.fairness = Fairness(len(context.schemas))
        self.shed = [0] * len(context.schemas)
        """Rows evicted so far, per stream."""
        self._seed = context.query.seed
        self._aliases = context.query.aliases
        self._quanta = 0
        self._starts = [0] * len(context.schemas)
        self._now = 0
        self._rng = np.random.default_rng(0)
        self._views: dict[int, tuple[Array, int, int, View]] = {}
        self._came = [0.0] * len(context.schemas)
        """Rows per stream lately: those of a window ago count half."""
        self._passed = 0.0
        """Seconds they came in, faded alike."""

    # -- the data flow ------------------------------------------------------------------------------

    def begin(self, join: Join, now: int) -> None:
        """A quantum begins. Its chances depend on its number alone, so a replay takes the same."""
        self._quanta += 1
        self._pass(join, now)
        self._rng = np.random.default_rng((self._seed, self._quanta))
        self._now = now
        self._starts = [window.end for window in join.windows]
        self._views.clear()

    def arrived(self, join: Join, stream: int, start: int) -> None:
        """Rows from position `start` on were appended."""
        self._starts[stream] = start
        view = self._view(join, stream)
        self.fairness.came(stream, len(view) - view.fresh)
        self._came[stream] += len(view) - view.fresh
        if self.monitor:
            self.monitor.arrive(view, self._rng)
        self.ranking.arrive(view, self._rng)
        self._views.clear()

    def found(self, join: Join, partials: Partials) -> Selection | None:
        """Results were found; tells which of them are given out, if not all."""
        if self.monitor is None and not self.ranking.learns and not self.ranking.samples:
            return None
        streams = range(len(join.windows))
        times = [join.windows[s].ts[partials.rows[s]] for s in streams]
        newest = np.max(times, axis=0)
        last = len(times) - 1 - np.argmax(times[::-1], axis=0)
        found = Found(
            tuple(partials.rows[s] - join.windows[s].first for s in streams),
            newest,
            tuple(last != s for s in streams),
        )
        views = [self._view(join, s) for s in streams]
        chosen = self.ranking.select(views, found, self._rng)
        worth = self.ranking.found(views, found) if self.ranking.learns else None
        if self.monitor:
            self.monitor.found(views, found, worth)
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
        views = [self._view(join, s) for s in range(len(join.windows))]
        self.ranking.settle(views, Room(float(self.limit.size), self._costs(join)))
        self._drop_spent(join)
        for _ in range(_TRIES):
            wanted = self._excess(join)
            if max(wanted) <= 0:
                break
            self._evict(join, wanted)
        for stream in range(len(join.windows)):
            view = self._view(join, stream)
            ghosts = int(self.monitor.ghosts(view).sum()) if self.monitor else 0
            self.fairness.settle(stream, len(view) - ghosts, view.span / 1e6)
        if self.limit.kind == "bytes":
            for window in join.windows:
                window.shrink()

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
        window, monitor = join.windows[stream], self.monitor
        ts = window.ts[window.first : window.end]
        live = slice(window.first, window.end)
        first = window.columns - len(self.notes)
        notes = {name: window.column(first + k)[live] for k, name in enumerate(self.notes)}
        return View(
            stream=stream,
            ts=ts,
            words=[window.column(k)[live] for k in range(len(join.words[stream]))],
            notes=notes,
            weights=lambda: monitor.weights(notes[WATCH], ts) if monitor else np.zeros(len(ts)),
            fresh=self._starts[stream] - window.first,
            span=window.span if window.span is not None else self._held_for(window.ts[live]),
            now=self._now,
            payload=lambda names, start: window.gather(np.arange(window.first + start, window.end), names),
        )

    @staticmethod
    def _held_for(ts: Array) -> int:
        return max(1, int(ts.max() - ts.min())) if len(ts) else 1

    def _sizes(self, join: Join) -> list[float]:
        """What each window holds, in the limit's unit."""
        if self.limit.kind == "rows":
            return [float(len(window)) for window in join.windows]
        return [float(window.nbytes_shrunk) for window in join.windows]

    def _costs(self, join: Join) -> list[float]:
        """What a row of each stream takes of the limit."""
        sizes = self._sizes(join)
        return [size / max(len(w), 1) for size, w in zip(sizes, join.windows, strict=True)]

    def _excess(self, join: Join) -> list[float]:
        """How much must go: in all, or per stream where each has its own share."""
        sizes = self._sizes(join)
        split = self.policy.split
        if split == "together":
            return [sum(sizes) - self.limit.size]
        shares = [1.0 if isinstance(split, str) else float(split[a]) for a in self._aliases]
        return [size - self.limit.size * s / sum(shares) for size, s in zip(sizes, shares, strict=True)]

    def _evict(self, join: Join, wanted: Sequence[float]) -> None:
        """Lets the lowest ranks go, until so much of the limit's unit is free."""
        views = [self._view(join, s) for s in range(len(join.windows))]
        costs = self._costs(join)
        gone = self._watching(views, costs)
        together = len(wanted) == 1
        for group in [range(len(views))] if together else [[s] for s in range(len(views))]:
            needed = wanted[0] if together else wanted[group[0]]
            needed -= sum(costs[s] * float(gone[s].sum()) for s in group)
            if needed > 0:
                for stream, leaving in zip(
                    group, self._lowest(views, group, costs, needed, gone), strict=True
                ):
                    gone[stream] |= leaving
        self.ranking.thinned(views, gone)
        for stream, leaving in enumerate(gone):
            if leaving.any():
                self.ranking.evicted(views[stream], leaving)
                self._drop(join, stream, leaving)

    def _drop_spent(self, join: Join) -> None:
        """Rows that are of no more use to the policy go, whether there is room or not."""
        for stream in range(len(join.windows)):
            spent = self.ranking.spent(self._view(join, stream))
            if spent is not None and spent.any():
                self._drop(join, stream, spent)

    def _drop(self, join: Join, stream: int, leaving: Array) -> None:
        window = join.windows[stream]
        self.shed[stream] += int(leaving.sum())
        window.keep(~leaving)
        self._starts[stream] = window.end

    def _watching(self, views: Sequence[View], costs: Sequence[float]) -> list[Array]:
        """Sees to the number of watched rows; returns masks of ghosts that must go now."""
        if self.monitor is None:
            return [np.zeros(len(view), bool) for view in views]
        rows = sum(map(len, views))
        cost = sum(c * len(v) for c, v in zip(costs, views, strict=True)) / max(rows, 1)
        cap = self.policy.monitor * self.limit.size / max(cost, 1e-9)
        if not self.monitor.watching:
            self.monitor.begin(views, cap, self._rng)
        return self.monitor.adjust(views, cap, self._rng)

    def _lowest(
        self,
        views: Sequence[View],
        group: Sequence[int],
        costs: Sequence[float],
        needed: float,
        gone: list[Array],
    ) -> list[Array]:
        """Masks of the rows of a group of streams that rank lowest and together free what is needed. Watched
        rows among them stay, as ghosts."""
        members = [views[s] for s in group]
        ranks, spared, cost = [], [], []
        for stream, view in zip(group, members, strict=True):
            rank = np.asarray(self.ranking.rank(view, self._rng), np.float64)
            if self.ranking.per_byte and len(group) > 1 and self.limit.kind == "bytes":
                rank = rank / costs[stream]
            out = gone[stream] if self.monitor is None else gone[stream] | self.monitor.ghosts(view)
            ranks.append(np.where(out, np.inf, rank))
            spared.append(view.notes[WATCH] > 0 if self.monitor else np.zeros(len(view), bool))
            cost.append(np.full(len(view), costs[stream]))
        rank, kept, frees = (np.concatenate(parts) for parts in (ranks, spared, cost))
        least = min(len(rank), int(np.ceil(needed / max(frees.min(), 1e-9))) + int(kept.sum()))
        order = np.argpartition(rank, least - 1)[:least] if least < len(rank) else np.arange(len(rank))
        order = order[np.argsort(rank[order], kind="stable")]
        order = order[np.isfinite(rank[order]) | (rank[order] < 0)]
        freed = np.cumsum(np.where(kept[order], 0.0, frees[order]))
        order = order[: int(np.searchsorted(freed, needed)) + 1]
        leaving = np.zeros(len(rank), bool)
        leaving[order] = True
        ends = np.cumsum([len(view) for view in members])
        found = []
        for view, low, spare in zip(members, np.split(leaving, ends[:-1]), spared, strict=True):
            self.fairness.give_up(view.stream, view.ages[low])
            if self.monitor:
                self.monitor.haunt(view, np.flatnonzero(low & spare))
            found.append(low & ~spare)
        return found

    def _pass(self, join: Join, now: int) -> None:
        """Event time goes on."""
        longest = max((w.span or 0 for w in join.windows), default=0) / 1e6
        seconds = max(0, now - self._now) / 1e6 if self._quanta > 1 else 0.0
        fade = 0.5 ** (seconds / longest) if longest else 0.5
        self._came = [count * fade for count in self._came]
        self._passed = self._passed * fade + seconds

    # -- what it tells ------------------------------------------------------------------------------

    def quality(self) -> Quality:
        if self.monitor is None:
            lost = sum(self.shed) > 0 or self.ranking.samples
            known = Quality(float("nan"), 0.0, 1.0) if lost else Quality(1.0, 1.0, 1.0)
        else:
            sums = self.monitor.results
            variance = float(sums.variance.sum())
            known = Quality(*self.monitor.recall(), self.monitor.count, sums.found, sums.true, variance)
            if self.monitor.worth is not None:
                recall, low, high = self.monitor.recall(worth=True)
                known = replace(known, importance_recall=recall, importance_low=low, importance_high=high)
        return self.ranking.judge(replace(known, fairness=self.fairness.index()))

    def need(self, join: Join) -> float:
        """What whole windows would take, in the limit's unit."""
        costs, held = self._costs(join), self._sizes(join)
        found = 0.0
        for stream, window in enumerate(join.windows):
            whole = self._came[stream] / max(self._passed, 1e-9) * (window.span or 0) / 1e6
            found += max(held[stream], whole * costs[stream] if self._passed else 0.0)
        return found

    def forecast(self, join: Join) -> RecallCurve | None:
        """The recall to expect of how much memory, from what has been learned so far."""
        views = [self._view(join, s) for s in range(len(join.windows))]
        return self.ranking.forecast(views, Room(float(self.limit.size), self._costs(join)), self.limit.kind)

    # -- over a restart -----------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], list[pa.RecordBatch]]:
        learned, parts = self.ranking.save()
        plain: dict[str, Any] = {
            "quanta": self._quanta,
            "shed": self.shed,
            "came": self._came,
            "passed": self._passed,
            "now": self._now,
            "fairness": self.fairness.save(),
            "ranking": learned,
        }
        if self.monitor:
            plain["monitor"], slots = self.monitor.save()
            parts = [slots, *parts]
        return plain, parts

    def load(self, plain: dict[str, Any], parts: Sequence[pa.RecordBatch]) -> None:
        self._quanta, self.shed = plain["quanta"], list(plain["shed"])
        self._came, self._passed, self._now = list(plain["came"]), plain["passed"], plain["now"]
        self.fairness.load(plain["fairness"])
        parts = list(parts)
        if self.monitor:
            self.monitor.load(plain["monitor"], parts.pop(0))
        self.ranking.load(plain["ranking"], parts)
