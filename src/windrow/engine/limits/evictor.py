"""Keeps the windows inside their memory limit.

The policy sees new rows between append and probe, and results after each probe. At the end of a sub-batch, if
the windows exceed the limit, the rows of lowest priority are evicted. The limit therefore holds between
sub-batches; during one, its own rows and the spare capacity of the arrays come on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from windrow.engine.limits.memory_usage import MemoryUsage
from windrow.engine.partial_matches import PartialMatches
from windrow.engine.windows import Windows
from windrow.errors import Option, QueryError
from windrow.estimation.fairness import Fairness
from windrow.estimation.recall import UNKNOWN
from windrow.eviction.forecast import RecallForecast
from windrow.eviction.models.row_sampling import memory_groups
from windrow.eviction.monitor import MONITOR_SLOT, LossMonitor, MonitoredRows
from windrow.eviction.ranking import Ranking, Selection
from windrow.eviction.rates import ArrivalRates
from windrow.eviction.recall_forecast import Measured, make_forecast
from windrow.eviction.registry import make_ranking
from windrow.eviction.result_sample import ResultSample
from windrow.eviction.window_contents import WindowContentsOverTime
from windrow.eviction.window_view import LEARNING_ROWS, ProbeResults, RowState, WindowView
from windrow.kernels.select_lowest import age_moments, exclude_rows, mark_lowest
from windrow.model.limits import MemoryLimit
from windrow.model.metrics import Quality
from windrow.model.policies.base import MemoryPolicy
from windrow.model.stateful import Stateful
from windrow.planning.bound_query import BoundQuery

Array = np.ndarray
_TRIES = 4
_PREFIX = "evictor."
"""Prefix of its window columns, which keeps them apart from those of load shedding."""
LEARNING_FRACTION = 0.125
"""Fraction of sub-batches to learn from when windows are large."""


class Evictor(Stateful):
    """Evicts rows over `limit`, which may change between calls; on Spark it is the partition's share."""

    version = 2
    saved = (
        "limit", "_whole", "evicted", "ranking", "monitor", "fairness", "_sub_batches", "_now",
        "_arrival_rates", "_window_contents", "_result_sample",
    )  # fmt: skip
    clocks = ("_now",)

    def __init__(self, policy: MemoryPolicy, limit: MemoryLimit, bound: BoundQuery) -> None:
        self.policy = policy
        self.limit = limit
        self._whole = limit
        """The query's limit."""
        self.ranking: Ranking = make_ranking(policy, bound)
        monitors = policy.monitor_fraction > 0 and not self.ranking.samples
        self.monitor = LossMonitor(len(bound.schemas)) if monitors else None
        self._row_state: RowState = (
            *(((MONITOR_SLOT, np.int32),) if self.monitor else ()),
            *self.ranking.row_state,
        )
        self._join_columns = bound.join_columns
        self.fairness = Fairness(len(bound.schemas))
        self.evicted = [0] * len(bound.schemas)
        """Rows evicted so far, per stream."""
        self._seed = bound.query.seed
        self._groups = memory_groups(policy.split, 1.0, bound.query.aliases)
        self._sub_batches = 0
        self._starts = [0] * len(bound.schemas)
        """Per stream, the number of the first row of this sub-batch."""
        self._now = 0
        self._before = 0
        self._learn_stride, self._learning = 1, True
        self._rng = np.random.default_rng(0)
        self._views: dict[int, tuple[Array, int, int, WindowView]] = {}
        self._arrival_rates = ArrivalRates(len(bound.schemas))
        self._window_contents = WindowContentsOverTime(len(bound.schemas))
        self._results = 0.0
        """Results of this sub-batch, including those estimated from shadow rows."""
        corrects_forecast = self.ranking.adapts_to_losses is not None and len(bound.schemas) > 2
        self._result_sample = ResultSample(len(bound.schemas)) if corrects_forecast else None
        """Kept until the first eviction; after it, results no longer show the complete windows."""

    @property
    def row_state(self) -> RowState:
        """Columns that the windows store per row for the policy."""
        return tuple((_PREFIX + name, kind) for name, kind in self._row_state)

    # -- the data flow ------------------------------------------------------------------------------

    def begin_sub_batch(self, windows: Windows, rows: int, first: int, now: int) -> None:
        """Begin a sub-batch of `rows` rows with event times from `first` to `now`. Its random numbers depend
        only on its sequence number, so a replay draws the same."""
        self._sub_batches += 1
        self._rng = np.random.default_rng((self._seed, self._sub_batches))
        self._before = first if self._sub_batches == 1 else self._now
        self._now = now
        self._results = 0.0
        self._learn_stride, self._learning = self._plan_learning(windows, rows)
        self._starts = [window.number(window.end) for window in windows]
        self._views.clear()

    def adopt(self, windows: Windows, now: int) -> None:
        """Show the policy the rows that were stored before it, as if they had arrived up to `now`."""
        held = [window for window in windows if len(window)]
        if held:
            first = min(int(window.ts[window.first : window.end].min()) for window in held)
            self.begin_sub_batch(windows, sum(map(len, held)), first, now)
            for stream, window in enumerate(windows):
                self.arrived(windows, stream, window.first)
            spans = [window.covers / 1e6 for window in windows]
            self._arrival_rates.advance(max(0, now - first) / 1e6, max(spans))

    def arrived(self, windows: Windows, stream: int, start: int) -> None:
        """Show the policy the rows appended from position `start` on."""
        self._starts[stream] = windows[stream].number(start)
        arrived = windows[stream].end - start
        self.fairness.add_arrivals(stream, arrived)
        self._arrival_rates.add(stream, arrived)
        self._window_contents.on_arrival(stream, arrived)
        if self._idle:
            return
        view = self._view(windows, stream)
        for part in (self.monitor, self.ranking.importance, self.ranking):
            if part:
                part.on_arrival(view)

    def on_results(self, windows: Windows, partials: PartialMatches) -> Selection | None:
        """Show the policy the results; return its selection of them, None for all."""
        ranking, before = self.ranking, self.monitor.results.estimated if self.monitor else 0.0
        self._results += len(partials)
        if self._idle:
            if self.monitor:
                self.monitor.results.add(len(partials), len(partials))
            return None
        views = [self._view(windows, s) for s in range(len(windows))]
        found = ProbeResults([partials.rows[s] - window.first for s, window in enumerate(windows)], views)
        chosen = ranking.select(found)
        importance = ranking.importance.on_results(found) if ranking.importance else None
        if ranking.uses_results:
            ranking.on_results(found)
        if self.monitor:
            self.monitor.on_results(found, importance)
            self._results += self.monitor.results.estimated - before - len(found)
        if self._result_sample is not None and self._learn_stride:
            self._result_sample.add(found, ranking.scores)
        return chosen

    def result_weights(self, windows: Windows, partials: PartialMatches) -> Array:
        """Weight of each result for the rows evicted so far."""
        if self.monitor is None:
            return np.ones(len(partials))
        slots = {s: self._view(windows, s).row_state[MONITOR_SLOT] for s in partials.rows}
        rows = [(slots[s], positions - windows[s].first) for s, positions in partials.rows.items()]
        return self.monitor.weights(rows)

    def enforce_limit(self, windows: Windows) -> None:
        """End a sub-batch: the policy learns, and rows over the limit are evicted."""
        spans = [window.covers / 1e6 for window in windows]
        passed = max(0, self._now - self._before) / 1e6
        self._arrival_rates.advance(passed, max(spans))
        if self.ranking.adapts_to_losses is not None:
            self._window_contents.end_sub_batch(passed, spans, self._results, self.limit.size)
        over = max(self._held(windows).excess) > 0
        if self._idle and not over:
            return
        views = [self._view(windows, s) for s in range(len(windows))]
        if self.ranking.importance:
            self.ranking.importance.end_sub_batch(views)
        self.ranking.end_sub_batch(views, self._held(windows).budget)
        exhausted: list[Array | None] = [self.ranking.exhausted(view) for view in views]
        if over:
            # Displaced rows join nothing more, so they go before any row of value.
            exhausted = [windows.removable(stream, mask) for stream, mask in enumerate(exhausted)]
        # What a row frees is an average: spare capacity and segments are freed in steps, so there may be a
        # rest.
        for _ in range(_TRIES):
            if not self._evict_excess(windows, exhausted):
                break
            exhausted = [None] * len(views)
        if self.limit.kind == "bytes" and sum(window.nbytes for window in windows) > self.limit.size:
            for window in windows:
                window.shrink()
            self._check_holdable(windows)

    def _check_holdable(self, windows: Windows) -> None:
        """Raise if even nearly empty windows exceed the limit in bytes. This shows only once rows are stored.
        It checks the limit of the whole join: a partition's share may be tiny because its demand is."""
        held, rows = sum(window.nbytes for window in windows), sum(map(len, windows))
        if held > self._whole.size:
            raise QueryError(
                f"{self._whole} is too little for this join: windows of {rows} rows in all take "
                f"{held} B with their indexes; pass at least {max(1024, 2 * held)} B",
                Option("memory"),
            )

    @property
    def _idle(self) -> bool:
        """Whether this sub-batch has nothing to learn and no monitored rows."""
        monitoring = self.monitor is not None and self.monitor.active
        return not self._learn_stride and self.ranking.can_skip_sub_batches and not monitoring

    def _plan_learning(self, windows: Windows, rows: int) -> tuple[int, bool]:
        """The stride of rows to learn from (0 for none), and whether to learn stream-wide statistics.

        Windows of a few thousand rows are learned from completely. In larger ones, while memory is less than
        half full, a few thousand rows per window from random sub-batches are enough. Later the policy needs
        every row, but stream-wide statistics only in some sub-batches.
        """
        held = sum(map(len, windows))
        if rows == 0 or held <= 2 * LEARNING_ROWS:
            return 1, True
        if max(self._held(windows).filled) > 0.5:
            return 1, self._rng.random() < LEARNING_FRACTION
        probability = 2 * LEARNING_ROWS * rows / (held * min(rows, LEARNING_ROWS))
        stride = max(1, rows // LEARNING_ROWS) if self._rng.random() < probability else 0
        return stride, stride > 0

    # -- inside -------------------------------------------------------------------------------------

    def _view(self, windows: Windows, stream: int) -> WindowView:
        """The window as policies see it; cached until its rows change."""
        window = windows[stream]
        known = self._views.get(stream)
        if known is not None and known[0] is window.ts and known[1:3] == (window.first, window.end):
            return known[3]
        live = slice(window.first, window.end)
        view = WindowView(
            stream=stream,
            ts=window.ts[live],
            join_columns={c.name: window.column(c.name)[live] for c in self._join_columns[stream]},
            row_state={name: window.column(_PREFIX + name)[live] for name, _ in self._row_state},
            first_new=window.position(self._starts[stream]) - window.first,
            window_length=window.covers,
            now=self._now,
            elapsed=max(0, self._now - self._before) / 1e6,
            learn_stride=self._learn_stride,
            learning=self._learning,
            rng=self._rng,
            payload=lambda names, start: window.gather_from(window.first + start, names),
        )
        self._views[stream] = (window.ts, window.first, window.end, view)
        return view

    def _held(self, windows: Windows) -> MemoryUsage:
        return MemoryUsage(windows, self.limit, self._groups)

    def _evict_excess(self, windows: Windows, exhausted: Sequence[Array | None]) -> bool:
        """Evict the `exhausted` rows (masks) in any case, and the lowest priorities as far as the limit
        requires; return whether any row was evicted."""
        held = self._held(windows)
        wanted, costs = held.excess, held.freed_by_a_row
        if max(wanted) <= 0 and all(mask is None for mask in exhausted):
            return False
        gone = [
            np.zeros(len(window), bool) if mask is None else mask.copy()
            for window, mask in zip(windows, exhausted, strict=True)
        ]
        freed = [cost * np.count_nonzero(mask) for cost, mask in zip(costs, gone, strict=True)]
        groups = zip(wanted, self._groups, strict=True)
        wanted = [much - sum(freed[s] for s in streams) for much, (streams, _) in groups]
        if max(wanted) > 0:
            self._evict(windows, wanted, costs, gone)
        for stream, leaving in enumerate(gone):
            if leaving.any():
                self._drop(windows, stream, leaving)
        return max(wanted) > 0 or any(freed)

    def _evict(
        self, windows: Windows, wanted: Sequence[float], costs: Sequence[float], gone: Sequence[Array]
    ) -> None:
        """Add the rows of lowest priority to `gone`, until `wanted` is free in each group of streams."""
        views = [self._view(windows, s) for s in range(len(windows))]
        monitored = self._adjust_monitoring(views, costs)
        evicted = [np.zeros(len(view), bool) for view in views]
        # Shadow rows that are no longer monitored go in any case, and count towards what is wanted.
        for leaving, seen in zip(evicted, monitored, strict=True):
            leaving[seen.leaving] = True
        for much, (streams, _) in zip(wanted, self._groups, strict=True):
            needed = much - sum(costs[s] * len(monitored[s].leaving) for s in streams)
            if needed > 0:
                self._select_victims([views[s] for s in streams], costs, needed, monitored, gone, evicted)
        self.ranking.on_evict(views, evicted)
        for leaving, out in zip(evicted, gone, strict=True):
            out |= leaving

    def _drop(self, windows: Windows, stream: int, leaving: Array) -> None:
        self.evicted[stream] += windows.evict(stream, leaving, self.limit.kind == "bytes")
        self._result_sample = None
        self._starts[stream] = windows[stream].number(windows[stream].end)
        self._views.pop(stream, None)

    def _adjust_monitoring(self, views: Sequence[WindowView], costs: Sequence[float]) -> list[MonitoredRows]:
        """Adjust the number of monitored rows; return those of each view."""
        if self.monitor is None:
            none, no_mask = np.empty(0, np.int64), np.empty(0, bool)
            return [MonitoredRows(none, none, no_mask, none) for _ in views]
        held = sum(c * len(v) for c, v in zip(costs, views, strict=True))
        cap = self.policy.monitor_fraction * self.limit.size / max(held / max(sum(map(len, views)), 1), 1e-9)
        if not self.monitor.active:
            self.monitor.activate(views, cap)
        return self.monitor.adjust(views, cap)

    def _select_victims(
        self,
        views: Sequence[WindowView],
        costs: Sequence[float],
        needed: float,
        monitored: Sequence[MonitoredRows],
        gone: Sequence[Array],
        evicted: Sequence[Array],
    ) -> None:
        """Add to the masks `evicted` the lowest-priority rows of a group that together free what is needed.
        Monitored rows among them stay as shadow rows; rows already `gone` are skipped."""
        ends = np.cumsum([0, *map(len, views)]).tolist()
        priority, frees, low = np.empty(ends[-1]), np.empty(ends[-1]), np.empty(ends[-1], bool)
        for view, begin, end in zip(views, ends[:-1], ends[1:], strict=True):
            seen, cost, own = monitored[view.stream], costs[view.stream], priority[begin:end]
            own[:] = self.ranking.priorities(view)
            if self.ranking.priority_per_byte and len(views) > 1 and self.limit.kind == "bytes":
                own /= cost
            out = (gone[view.stream], seen.rows, seen.shadow, seen.leaving)
            exclude_rows(*out, cost, own, frees[begin:end])
        mark_lowest(priority, frees, needed, low)
        for view, begin, end in zip(views, ends[:-1], ends[1:], strict=True):
            seen, mine = monitored[view.stream], low[begin:end]
            self.fairness.add_evicted(view.stream, *age_moments(mine, view.ts, view.now))
            if self.monitor:
                self.monitor.mark_shadow(seen.slots[mine[seen.rows]])
                # A monitored row that the policy evicts stays in its window as a shadow row.
                mine[seen.rows] = False
            evicted[view.stream] |= mine

    # -- reports ------------------------------------------------------------------------------------

    def quality(self, windows: Windows, results: int) -> Quality:
        """Quality of the answer after this many results."""
        if self.monitor is None:
            known = Quality(results_found=float(results), results_estimated=float(results))
            if sum(self.evicted):
                known = replace(known, recall=float("nan"), recall_low=0.0, results_max_weight=UNKNOWN)
        else:
            known = self.monitor.quality()
        known = replace(known, fairness=self._fairness(windows))
        if self.ranking.importance:
            known = self.ranking.importance.add_quality(known)
        return self.ranking.add_quality(known)

    def _fairness(self, windows: Windows) -> float:
        views, held = [self._view(windows, s) for s in range(len(windows))], [len(w) for w in windows]
        if self.monitor:
            held = [len(v) - self.monitor.shadow_count(v.row_state[MONITOR_SLOT]) for v in views]
        return self.fairness.index(held, [view.window_length / 1e6 for view in views])

    def memory_demand(self, windows: Windows) -> float:
        """Memory that complete windows would take, in the limit's unit."""
        held = self._held(windows)
        spans = ((window.span or 0) / 1e6 for window in windows)
        whole = (self._arrival_rates.rate(stream) * span for stream, span in enumerate(spans))
        return sum(max(s, w * c) for s, w, c in zip(held.sizes, whole, held.costs, strict=True))

    def forecast(
        self, windows: Windows, rates: Sequence[float] | None = None, faster: float = 1
    ) -> RecallForecast | None:
        """Expected recall by memory, from what has been learned so far; at the current arrival rates or these
        `rates`, times `faster`."""
        views = [self._view(windows, s) for s in range(len(windows))]
        known = self.ranking.stream_models(views, self._held(windows).budget)
        if known is None:
            return None
        contents = self._window_contents.known(faster)
        if rates is not None:
            known = [replace(k, rate=rate) for k, rate in zip(known, rates, strict=True)]
        return make_forecast(known, self.ranking, self._result_sample, views, contents, self._measured())

    def _measured(self) -> Measured | None:
        """Recall so far at the average limit."""
        if self.monitor is None or not self.monitor.active:
            return None
        return Measured(self._window_contents.limit, *self.monitor.recall())

    def restore(self, values: dict[str, Any]) -> None:
        if values.pop("_whole") != self._whole:
            del values["limit"]  # the query's new limit applies
        super().restore(values)

    @classmethod
    def migrated(cls, version: int, values: dict[str, Any]) -> dict[str, Any]:
        """Version 1 held the text of the whole limit, and the size of the share."""
        text, size = values["limit"]
        whole = MemoryLimit.parse(text)
        return values | {"_whole": whole, "limit": whole and replace(whole, size=size)}
