"""Plans the join, and plans it again when the streams change: measure, choose an order, install the plan.

The first plan is made for the first rows to arrive. After that the streams are measured again at intervals of
rows, and only a change past the query's threshold leads to a new choice of orders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from windrow.engine.counters import Counters
from windrow.engine.join import Join
from windrow.engine.rows import ArrivingRows
from windrow.engine.sampled_statistics import PAIRS, SAMPLE, Sample, changed, statistics
from windrow.expr.evaluate import evaluate
from windrow.expr.parse import references
from windrow.expr.values import as_mask
from windrow.model.plan import Plan
from windrow.model.predicate import Residual
from windrow.model.query import Query
from windrow.model.stateful import Stateful
from windrow.planning.order import follow
from windrow.planning.plan_builder import make_plan
from windrow.planning.statistics import JoinStatistics

ROWS_BETWEEN_CHECKS = 65_536
PAIRS_TO_JUDGE = 10_000
"""Pairs of rows that must be tried before their selectivities may change an order."""
REORDER_FACTOR = 2.0
"""A window must pass this many times fewer rows to be moved to the front. Fewer rows match further down an
order anyway, so the factor is well above 1."""
SUB_BATCHES_BETWEEN_ORDERS = 8
"""Sub-batches between looks at the measured selectivities where windows are not scanned: a look takes as long
as some hundred rows, and an order matters less."""


class AdaptivePlanner(Stateful):
    version = 2
    saved = ("rates", "replans", "learned", "orders", "_next_check", "_seen_rows", "_seen_until")
    clocks = ("_seen_until",)

    def __init__(self, query: Query) -> None:
        self._query = query
        self.rates = [0.0] * len(query.streams)
        self.replans = 0
        self._statistics: JoinStatistics | None = None
        self.learned: dict[int, tuple[int, ...]] = {}
        """Orders that probes found better than those chosen from statistics; of all streams, or empty."""
        self.orders: dict[int, tuple[int, ...]] = {}
        """Orders of the current plan: after a restart the join goes on with them."""
        self._next_check = 1024
        self._seen_rows = [0] * len(query.streams)
        self._seen_until: int | None = None

    @classmethod
    def migrated(cls, version: int, values: dict[str, Any]) -> dict[str, Any] | None:
        return values | {"orders": {}} if version == 1 else None

    def set_query(self, query: Query) -> None:
        """Plan for the same join over other windows from now on."""
        self._query = query

    def prepare(
        self, join: Join, arrivals: Sequence[ArrivingRows], counters: Counters, newest: int | None
    ) -> None:
        """Make the first plan, from arriving rows and, after a restart, the rows already stored."""
        if join.plan is not None:
            return
        present = [a.rows.ts for a in arrivals if len(a.rows)]
        if present and self._seen_until is None:
            seconds = (max(int(t[-1]) for t in present) - min(int(t[0]) for t in present)) / 1e6
            # Rows of a single instant give relative rates only.
            self.rates = [len(a.rows) / (seconds or 1.0) for a in arrivals]
            self._seen_until, self._seen_rows = newest, list(counters.counts["rows_in"])
        samples = [
            {w: np.concatenate([v, a.rows.columns[w.name]])[-SAMPLE:] for w, v in held.items()}
            for held, a in zip(_recent(join), arrivals, strict=True)
        ]
        self._install(join, self._statistics_now(join, samples, {}), self.orders)

    def ensure_plan(self, join: Join) -> None:
        """Make a plan from the rows already stored, if there is none yet."""
        if join.plan is None:
            self._install(join, self._statistics_now(join, _recent(join), {}), self.orders)

    def forget(self, join: Join) -> None:
        """Make the next plan only from arriving rows and the windows. A join that resumes from stored state
        then plans like the one that wrote it."""
        join.plan = None
        self.rates = [0.0] * len(self.rates)
        self._statistics, self._next_check, self._seen_until = None, 0, None
        self.learned, self.orders = {}, {}

    def replan(self, join: Join, counters: Counters, newest: int | None) -> None:
        """Measure the streams again if it is time, and choose new orders if they have changed."""
        rows = sum(counters.counts["rows_in"])
        if rows < self._next_check:
            return
        self._next_check = rows + min(rows, ROWS_BETWEEN_CHECKS)
        self._measure_rates(counters.counts["rows_in"], newest)
        now = self._statistics_now(join, _recent(join), self._try_residuals(join))
        if self._statistics is None or not changed(self._statistics, now, self._query.replan_factor):
            return
        before = join.plan.orders if join.plan else None
        self._install(join, now)
        assert join.plan is not None
        self.replans += join.plan.orders != before

    def plan_for(self, join: Join, rates: Sequence[float]) -> Plan:
        """Plan for these rates and the current window contents."""
        assert join.plan is not None
        residuals = self._try_residuals(join)
        stats = statistics(
            self._query, join.bound.predicate, join.bound.classes, rates, _recent(join), residuals
        )  # fmt: skip
        return make_plan(self._query, join.bound.predicate, stats, self.learned)

    def reorder(self, join: Join) -> None:
        """Move the most selective window to the front, by selectivities measured under a deadline."""
        if join.load_shedder is None or self._statistics is None or isinstance(self._query.order, Mapping):
            return
        if len(join.windows) == 2:
            return  # There is only one order.
        planner, sub_batches = join.call_planner, join.load_shedder.statistics.sub_batches
        if planner is not None and not planner.scans and sub_batches % SUB_BATCHES_BETWEEN_ORDERS:
            return
        assert join.plan is not None
        before = {d.arriving: d.order for d in join.plan.directions}
        matrix, tried = (
            join.load_shedder.statistics.selectivities.matrix,
            join.load_shedder.statistics.selectivities.tried,
        )
        found = dict(before)
        for stream, order in before.items():
            if min(tried[stream][s] for s in order[1:]) < PAIRS_TO_JUDGE:
                continue
            by_matches = sorted((matrix[stream][s], s) for s in order[1:])
            better = follow(self._statistics, stream, [s for _, s in by_matches])
            if matrix[stream][order[1]] > REORDER_FACTOR * matrix[stream][better[1]]:
                found[stream] = better
        if found != before:
            self.learned = found
            self.replans += 1
            self._install(join, self._statistics)

    def _install(
        self, join: Join, stats: JoinStatistics, orders: Mapping[int, tuple[int, ...]] | None = None
    ) -> None:
        self._statistics = stats
        plan = make_plan(self._query, join.bound.predicate, stats, orders or self.learned)
        self.orders = {d.arriving: d.order for d in plan.directions}
        join.install(plan)

    def _statistics_now(
        self, join: Join, samples: Sequence[Sample], residuals: dict[Residual, float]
    ) -> JoinStatistics:
        # A stream not seen yet is assumed to bring one row per second.
        rates = [rate or 1.0 for rate in self.rates]
        return statistics(self._query, join.bound.predicate, join.bound.classes, rates, samples, residuals)

    def _measure_rates(self, rows: Sequence[int], newest: int | None) -> None:
        if newest is None or (self._seen_until is not None and newest <= self._seen_until):
            return
        if self._seen_until is not None:
            seconds = (newest - self._seen_until) / 1e6
            self.rates = [(n - m) / seconds for n, m in zip(rows, self._seen_rows, strict=True)]
        self._seen_until, self._seen_rows = newest, list(rows)

    def _try_residuals(self, join: Join) -> dict[Residual, float]:
        """Selectivities of two-stream residuals, measured on pairs of recent rows."""
        found = {}
        for residual in join.bound.predicate.residuals:
            if len(residual.streams) != 2 or any(len(join.windows[s]) == 0 for s in residual.streams):
                continue
            recent = [
                np.arange(max(w.first, w.end - PAIRS), w.end)
                for w in (join.windows[s] for s in sorted(residual.streams))
            ]
            pairs = (np.repeat(recent[0], len(recent[1])), np.tile(recent[1], len(recent[0])))
            rows = dict(zip(sorted(residual.streams), pairs, strict=True))
            columns = join.windows.columns(rows, references(residual.node))
            hits = as_mask(evaluate(residual.node, columns, len(pairs[0]), join.bound.functions)).sum()
            found[residual] = (float(hits) + 0.5) / (len(pairs[0]) + 1)
        return found


def _recent(join: Join) -> list[Sample]:
    """Per stream, the join columns of its most recent rows."""
    samples: list[Sample] = []
    for window, columns in zip(join.windows, join.bound.join_columns, strict=True):
        recent = slice(max(window.first, window.end - SAMPLE), window.end)
        samples.append({w: window.column(w.name)[recent] for w in columns})
    return samples
