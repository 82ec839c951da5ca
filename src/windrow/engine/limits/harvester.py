"""Harvesting: rows probe the parts of windows that yield most in the time there is (GrubJoin).

With time for everything, rows probe whole windows, and the results show the time lags of matching rows.
Otherwise the call planner (`call_planner.py`) decides what saves most: admitting fewer units of rows, probing
with fewer rows, or probing parts of windows. For the last, a harvest is chosen for the throttle fraction. A
random sample of the rows then probes an even sample of everything instead (window shredding). From these rows
the lags are still learned, and the results the others miss are estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from windrow.engine.age_intervals import AgeIntervals
from windrow.engine.limits.admission_units import Units
from windrow.engine.limits.call_planner import CallPlanner
from windrow.engine.limits.probe_statistics import SECOND, ProbeStatistics, orders_of, rows_held
from windrow.engine.limits.quality import harvested
from windrow.engine.probe import Probe
from windrow.estimation.missed import MissedResults, ShreddingSample
from windrow.estimation.recall import UNKNOWN
from windrow.eviction.window_view import RowState
from windrow.harvest.call_load import Curve
from windrow.harvest.lags import KINDS, Lags
from windrow.harvest.model import HarvestModel, max_useful_ages
from windrow.harvest.solve import solve
from windrow.model.harvest import BasicWindows, Harvest
from windrow.model.metrics import Quality
from windrow.model.plan import Plan
from windrow.model.policies.time_policies import Harvesting
from windrow.model.query import Query
from windrow.model.stateful import Stateful
from windrow.window.window_store import WindowStore

if TYPE_CHECKING:
    from windrow.engine.partial_matches import PartialMatches
    from windrow.engine.windows import Windows

Array = np.ndarray
LEARNED_AT_ONCE, LEARNED_AT_EASE = 512, 128
"""Maximum results of a probe to learn from: with a harvest, and (fewer) with whole windows."""
STRATA = 10
"""Minimum number of window parts that an even sample covers."""
SUB_BATCHES_BETWEEN_PLANS = 8
ENOUGH, SUB_BATCHES_UNTHROTTLED = 5_000, 4
"""With this many results known, and whole windows probed, learn from one sub-batch in 4."""
FIRST_RESULTS = 256
"""Results that every sub-batch of a scan learns lags from."""
SUB_BATCHES_TO_LEARN, SUB_BATCHES_PLANNED = 16, 16
"""If calls are planned: after 16 sub-batches of a scan, or 4 of others, learn from one in 16; of a scan with
few known lags, from one in 4."""
CURVE_AT = np.array([0.0, 0.02, 0.06, 0.15, 0.3, 0.5, 0.75, 1.0])
CALLS_BETWEEN_CURVES = 16
SHRUNK, GROWN = 0.5, 1.25
"""Lags are learned again once the time a row window covers changes by more than these factors."""
ResultWeights = Callable[["Windows", "PartialMatches"], Array]
"""Weight of each result found, because of rows evicted."""


class Harvester(Stateful):
    version = 2
    formerly = (("_lags_fade", "_lags_decay"),)
    saved = (
        "missed", "calls", "statistics", "harvest", "_lags", "_lags_decay", "_basic_windows",
        "_max_useful_ages", "_chosen", "_curve",
    )  # fmt: skip
    row_state: RowState = ()

    def __init__(
        self, policy: Harvesting, query: Query, units: Units, result_weights: ResultWeights | None = None
    ) -> None:
        self.policy = policy
        self._plan: Plan | None = None
        self._scanned: list[bool] = []
        """By direction, whether its first window is scanned."""
        self._result_weights = result_weights
        self.missed = MissedResults()
        self.calls: CallPlanner | None = None
        if policy.plans_calls:
            self.calls = CallPlanner(
                units, len(query.streams), query.seed, bool(query.kind.shapes), self._recall_by_work
            )
        self.harvest: Harvest | None = None
        """Parts of windows to probe; None for whole windows."""
        self.last_harvest: Harvest | None = None
        """The last harvest chosen, even if there is time for everything now."""
        self._lags: Lags | None = None
        self._lags_decay = 1.0
        self.statistics = ProbeStatistics(len(query.streams), policy.half_life)
        self._seed = query.seed
        self._counts_rows = query.counts_rows
        self._basic_windows: BasicWindows | None = None
        self._rng: np.random.Generator | None = None
        """Generator of this sub-batch, created on first use."""
        self._z, self._decay = 1.0, 1.0
        self._ages: list[tuple[AgeIntervals, ...]] = []
        self._chosen: tuple[int, int] | None = None
        """Sub-batch and event time of the last harvest; None if it belongs to another plan."""
        self._max_useful_ages: Array | None = None
        """Per stream, the greatest age in microseconds that recent harvests probe."""
        self._curve: tuple[int, Curve] | None = None
        """Call of the last curve, and the curve; None if it belongs to another plan."""

    def restore(self, values: dict[str, Any]) -> None:
        super().restore(values)
        self._follow_harvest()

    @classmethod
    def migrated(cls, version: int, values: dict[str, Any]) -> dict[str, Any] | None:
        return values | {"harvest": None, "_chosen": None, "_curve": None} if version == 1 else None

    def quality(self, known: Quality, dropped: bool, conserved: bool) -> Quality:
        admitter = None if self.calls is None else self.calls.admitter
        if admitter is not None:
            known = admitter.quality(known, dropped)
        known = harvested(known, self.missed, conserved)
        if admitter is not None and admitter.excludes:
            # Rows with probability 0 are missing from the windows, and the sums do not cover their results.
            known = replace(known, results_max_weight=UNKNOWN)
        return known

    # -- the data flow ------------------------------------------------------------------------------

    def follow(self, plan: Plan) -> None:
        if self._plan is not None:  # The first plan after a restart continues the one before it.
            self._chosen = self._curve = None
        self._plan = plan
        self._scanned = [d.steps[0].access.path == "scan" for d in plan.directions]
        if self.calls is not None:
            self.calls.scans = any(self._scanned)

    def _recall_by_work(self, windows: Sequence[WindowStore], call: int) -> Curve | None:
        """Recall of probing parts of windows; None unless all windows are scanned."""
        if not all(self._scanned) or self.lags is None:
            return None
        known = self._curve
        if known is None or call - known[0] >= CALLS_BETWEEN_CURVES:
            model, omega = self.model(windows), self.policy.shredding_fraction
            found = [self._solved(model, z).output for z in CURVE_AT[1:-1].tolist()]
            part = np.array([0.0, *found, model.full[1]]) / max(model.full[1], 1e-300)
            curve = Curve(CURVE_AT, (1 - omega) * np.maximum.accumulate(part) + omega * CURVE_AT)
            known = self._curve = call, curve
        return known[1]

    def _solved(self, model: HarvestModel, z: float) -> Harvest:
        return solve(model, z, self.policy.method, self.policy.parts)

    @property
    def work_fraction(self) -> float:
        """Fraction of the full work that shredding and harvesting do, by the model."""
        if self.harvest is None or self.harvest.everything or self.harvest.full_cost <= 0:
            return self._probes
        omega = self.policy.shredding_fraction
        return omega * self._z + (1 - omega) * self.harvest.cost / self.harvest.full_cost

    @property
    def _probes(self) -> float:
        """Fraction of rows that probe, when they probe whole windows."""
        return 1.0 if self.calls is None else self.calls.call.choice.probes

    def begin(self, windows: Windows, arrived: Sequence[int], now: int, z: float) -> None:
        """Begin a sub-batch with `arrived` rows per stream at throttle fraction z. All rows are admitted."""
        decay = self.statistics.begin(windows, arrived, now)
        self._decay = decay ** (4 * self.policy.half_life)
        self._lags_decay *= decay
        self._rng = None
        self._z = z
        self._follow_windows(windows)
        if z < 1.0:
            if self._stale(z, now):
                self._choose(windows, z, now)
        elif self.harvest is not None and not self.harvest.everything:
            self.harvest = None

    @property
    def lags(self) -> Lags | None:
        """Recent time lags between matching rows; None before the first result."""
        if self._lags is not None and self._lags_decay < 1:
            self._lags = self._lags.decayed(self._lags_decay)
        self._lags_decay = 1.0
        return self._lags

    @lags.setter
    def lags(self, lags: Lags | None) -> None:
        self._lags, self._lags_decay = lags, 1.0

    def _random(self) -> np.random.Generator:
        if self._rng is None:
            self._rng = np.random.default_rng((self._seed, self.statistics.sub_batches, 5))
        return self._rng

    def arrived(self, windows: Windows, stream: int, start: int) -> None:
        """Nothing to store with new rows."""

    def probe(self, windows: Windows, probe: Probe, start: int) -> Iterator[PartialMatches]:
        """Results of the rows from position `start` on."""
        if self.harvest is None or self.harvest.everything:
            return self._probe_windows(windows, probe, start)
        return self._probe_parts(windows, probe, start, self.harvest)

    def _probe_windows(self, windows: Windows, probe: Probe, start: int) -> Iterator[PartialMatches]:
        """Probe whole windows with all rows or, if the call plan says so, with some."""
        part = self._probes
        counts = None if self._may_skip_learning else np.zeros(len(probe.direction.steps) + 1)
        if self.calls is not None and part < 1:
            rows = np.arange(start, windows[probe.direction.arriving].end)
            found = probe.run_rows(self.calls.prober(rows), step_counts=counts)
        else:
            found = probe.run(start, counts)
        if counts is None:
            yield from found
            return
        for partials in found:
            self._learn_lags(windows, partials, 1 / part, LEARNED_AT_EASE)
            yield partials
        self.statistics.learn(probe, counts, self._rows(windows), weight=1 / part)

    def _probe_parts(
        self, windows: Windows, probe: Probe, start: int, harvest: Harvest
    ) -> Iterator[PartialMatches]:
        """Probe the harvest, and with a random sample of the rows an even sample of everything."""
        stream, counts = probe.direction.arriving, np.zeros(len(probe.direction.steps) + 1)
        rows = np.arange(start, windows[stream].end)
        self.missed.rows += len(rows)
        draw = self._draw(probe)
        drawn = self._random().random(len(rows)) < draw.omega
        yield from self._shred(windows, probe, rows[drawn], counts, draw)
        self.statistics.learn(probe, counts, self._rows(windows), draw.z, draw.weight)
        if draw.omega == 0.0:
            self.missed.unsampled_rows += len(rows)
        if not harvest.directions[stream].idle:
            yield from probe.run_rows(rows[~drawn], self._ages[stream])

    @property
    def _may_skip_learning(self) -> bool:
        """Whether this sub-batch, which probes whole windows, need not be learned from."""
        known = 0.0 if self._lags is None else self._lags.weight
        number = self.statistics.sub_batches
        if self.calls is None:
            return known * self._lags_decay > ENOUGH and number % SUB_BATCHES_UNTHROTTLED > 0
        if not self.calls.scans:
            return number > SUB_BATCHES_UNTHROTTLED and number % SUB_BATCHES_PLANNED > 0
        # Without lags nothing can be harvested, so the first results of scans count most.
        each = SUB_BATCHES_UNTHROTTLED if known < ENOUGH else SUB_BATCHES_PLANNED
        return known >= FIRST_RESULTS and number > SUB_BATCHES_TO_LEARN and number % each > 0

    def _draw(self, probe: Probe) -> ShreddingSample:
        """Size of the shredding sample. An index lookup costs about the same for few ages as for all, so with
        an index fewer rows are drawn and they probe everything."""
        if self._scanned[probe.direction.arriving]:
            return ShreddingSample(self.policy.shredding_fraction, self._z)
        return ShreddingSample(self.policy.shredding_fraction * self._z, 1.0)

    def _shred(
        self, windows: Windows, probe: Probe, rows: Array, counts: Array, draw: ShreddingSample
    ) -> Iterator[PartialMatches]:
        """Probe an even sample of the windows with the drawn rows."""
        self.missed.draw(len(rows), draw)
        first = windows[probe.direction.steps[0].stream]
        if len(rows) == 0 or len(first) == 0:
            return
        ages: tuple[AgeIntervals | None, ...] = ()
        if draw.z < 1.0:
            sample = self._sample(windows[probe.direction.arriving].ts[rows], first, draw.z)
            ages = (sample, *[None] * (len(probe.direction.steps) - 1))
        for partials in probe.run_rows(rows, ages, counts):
            self._count(windows, probe, rows, partials, draw)
            self._learn_lags(windows, partials, draw.weight)
            yield partials

    def _sample(self, times: Array, window: WindowStore, z: float) -> AgeIntervals:
        held = window.ts[window.first : window.end]
        youngest, oldest = int(times.min() - held.max()), int(times.max() - held.min())
        if window.span is not None:
            oldest = min(oldest, window.span)
        # Late or long-buffered rows widen the range of ages; keep the number of intervals bounded.
        period = max(1, (window.span or 0) // STRATA, (oldest - youngest) // (2 * STRATA))
        return AgeIntervals.sampled(z, period, youngest, oldest, self._random().random(len(times)))

    def _count(
        self, windows: Windows, probe: Probe, rows: Array, partials: PartialMatches, draw: ShreddingSample
    ) -> None:
        """Count the results of drawn rows that the harvest would have missed."""
        stream = probe.direction.arriving
        anchor = windows[stream].ts[partials.rows[stream]]
        outside = np.zeros(len(partials), bool)
        assert self.harvest is not None
        if self.harvest.directions[stream].idle:
            outside[:] = True
        else:
            for step, ages in zip(probe.direction.steps, self._ages[stream], strict=True):
                age = anchor - windows[step.stream].ts[partials.rows[step.stream]]
                outside |= ~ages.contains(age)
        which = np.searchsorted(rows, partials.rows[stream])
        weights = self._result_weights(windows, partials) if self._result_weights else np.ones(len(partials))
        if self.calls is not None:
            weights = weights * self.calls.admitter.weights(windows, partials)
        self.missed.add(which, len(rows), outside, weights, draw)

    # -- learning -----------------------------------------------------------------------------------

    def _learn_lags(
        self, windows: Windows, partials: PartialMatches, weight: float, most: int = LEARNED_AT_ONCE
    ) -> None:
        """Learn the lags between rows from a sample of the results."""
        self._init_lags(windows)
        assert self.lags is not None
        count = len(partials)
        chosen = np.arange(count) if count <= most else np.sort(self._random().integers(0, count, most))
        times = np.stack([windows[s].ts[partials.rows[s][chosen]] for s in range(len(windows))], 1)
        lags = (times - times[:, :1]) / SECOND
        self.lags = self.lags.add(lags, np.full(len(chosen), weight * count / len(chosen)))

    # -- planning -----------------------------------------------------------------------------------

    def _init_lags(self, windows: Sequence[WindowStore]) -> None:
        """Set up basic windows and lags. The size of a row window is the time its rows cover."""
        if self._basic_windows is not None and self.lags is not None:
            return
        spans = [window.covers for window in windows]
        basic = self.policy.basic_of(spans)
        sizes = [span / SECOND for span in spans]
        self._basic_windows = BasicWindows(tuple(sizes), tuple(min(basic / SECOND, size) for size in sizes))
        if self.lags is None:
            buckets = max(64, 4 * max(self._basic_windows.counts))
            self.lags = KINDS[self.policy.correlations].empty(sizes, buckets)

    def _follow_windows(self, windows: Windows) -> None:
        """Reset the lags when a row window covers much more or less time than before: they would fall into a
        few basic windows, or beyond all of them."""
        if self._basic_windows is None or not self._counts_rows:
            return
        for window, size in zip(windows, self._basic_windows.sizes, strict=True):
            if window.span is None and not SHRUNK < window.covers / SECOND / size < GROWN:
                self._basic_windows = self.lags = self.harvest = self._curve = None
                return

    def model(self, windows: Sequence[WindowStore]) -> HarvestModel:
        """Cost and output model from everything learned."""
        self._init_lags(windows)
        assert self._basic_windows is not None and self.lags is not None and self._plan is not None
        scores = self.lags.scores(self._basic_windows, orders_of(self._plan))
        return self.statistics.model(self._plan, self._basic_windows, scores, self._rows(windows))

    def _rows(self, windows: Sequence[WindowStore]) -> Array:
        """Rows of each window; where old rows were removed, the number it would hold. The rows left are the
        young ones, and averaging them over the whole window would underestimate its basic windows."""
        rows = rows_held(windows)
        if self._max_useful_ages is not None:
            for stream, window in enumerate(windows):
                if window.span is not None:
                    rows[stream] = self.statistics.rates[stream] * window.span / SECOND
        return rows

    def _stale(self, z: float, now: int) -> bool:
        """Whether the harvest is old or belongs to another throttle fraction or plan. With an adaptation
        interval it is renewed once per interval, as in GrubJoin."""
        known, interval = self.harvest, self.policy.interval_micros
        if known is None or self._chosen is None:
            return True
        sub_batch, time = self._chosen
        if interval is not None:
            return z != known.throttle or now - time >= interval
        age = self.statistics.sub_batches - sub_batch
        return abs(z / known.throttle - 1) > 0.02 or age >= SUB_BATCHES_BETWEEN_PLANS

    def _choose(self, windows: Windows, z: float, now: int) -> None:
        """Choose the harvest for this throttle fraction."""
        self._chosen = self.statistics.sub_batches, now
        self.harvest = self._solved(self.model(windows), z)
        self._follow_harvest()

    def _follow_harvest(self) -> None:
        """Probe the ages of the current harvest from now on."""
        if (harvest := self.harvest) is not None:
            self.last_harvest, windows = harvest, harvest.windows
            self._ages = [
                tuple(AgeIntervals.of_seconds(h.ages(windows), windows.sizes[h.stream]) for h in d.hops)
                for d in harvest.directions
            ]

    def max_useful_ages(self) -> list[int] | None:
        """Per stream, the greatest age in microseconds that is still probed; None if all ages are.

        Harvests widen and narrow with the throttle from one sub-batch to the next. The ages therefore shrink
        slowly, by half in a quarter of a window: the next harvest may probe them again.
        """
        if not self.policy.conserve_memory or self.harvest is None or self.harvest.everything:
            self._max_useful_ages = None
            return None
        ages = np.array(max_useful_ages(self.harvest)) * SECOND
        if self._max_useful_ages is None:
            self._max_useful_ages = ages
        self._max_useful_ages = np.maximum(ages, ages + (self._max_useful_ages - ages) * self._decay)
        return [round(age) for age in self._max_useful_ages]
