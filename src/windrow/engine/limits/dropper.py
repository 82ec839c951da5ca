"""RandomDrop, GrubJoin's baseline (s. 6.2): drops rows at the rates that lose the fewest results.

The rates come from the cost model. Each row stores the probability it was admitted with. A result's weight is
the inverse product of its rows' probabilities, which estimates the true number of results without bias
(Horvitz-Thompson). The variance is taken to first order: per row, (1 - probability) times the square of the
total weight of its results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from windrow.engine.limits.call_planner import CallPlanner
from windrow.engine.limits.probe_statistics import SECOND, ProbeStatistics, rows_held
from windrow.engine.limits.quality import thinned
from windrow.engine.probe import Probe
from windrow.estimation.missed import ResultSums
from windrow.eviction.window_view import RowState
from windrow.harvest.model import HarvestModel
from windrow.harvest.random_drop import drop_rates
from windrow.model.harvest import BasicWindows, Harvest
from windrow.model.metrics import Quality
from windrow.model.plan import Plan
from windrow.model.query import Query
from windrow.model.stateful import Stateful

if TYPE_CHECKING:
    from collections.abc import Iterator

    from windrow.engine.partial_matches import PartialMatches
    from windrow.engine.windows import Windows

Array = np.ndarray
PROBABILITY, RESULT_WEIGHT = "dropper.probability", "dropper.result_weight"
"""Of a row: its probability of admission, and the weight of its results so far."""


class Dropper(Stateful):
    version = 3
    saved = ("keep", "results", "statistics", "_steady", "_chosen")
    row_state: RowState = ((PROBABILITY, np.float64), (RESULT_WEIGHT, np.float64))
    calls: CallPlanner | None = None
    harvest: Harvest | None = None
    """None: admitted rows probe whole windows."""

    def __init__(self, query: Query) -> None:
        count = len(query.streams)
        self._plan: Plan | None = None
        self.keep = np.ones(count)
        """Fraction of each stream's rows that is admitted."""
        self.results = ResultSums()
        self.statistics = ProbeStatistics(count)
        self._seed = query.seed
        self._steady = 1.0
        """Throttle fraction, smoothed over about a window: rows admitted earlier still cost time."""
        self.work_fraction = 1.0
        self._chosen: tuple[float, int, Array] | None = None
        """Smoothed throttle fraction and sub-batch of the last choice, and the rates chosen."""

    @classmethod
    def migrated(cls, version: int, values: dict[str, Any]) -> dict[str, Any]:
        sums = [values.pop(name) for name in ("found", "estimated", "variance")]
        return {"_chosen": None} | values | {"results": ResultSums.of(*sums)}

    # -- the data flow ------------------------------------------------------------------------------

    def follow(self, plan: Plan) -> None:
        self._plan = plan

    def begin(self, windows: Windows, arrived: Sequence[int], now: int, z: float) -> list[Array]:
        """Begin a sub-batch with `arrived` rows per stream; return the positions of admitted rows."""
        decay = self.statistics.begin(windows, arrived, now)
        rng = np.random.default_rng((self._seed, self.statistics.sub_batches, 7))
        # Four times as fast as other statistics: admitted rows cost time for about a window.
        self._steady = self._steady * decay**4 + z * (1 - decay**4)
        self._choose(windows, z)
        return [np.flatnonzero(rng.random(n) < keep) for n, keep in zip(arrived, self.keep, strict=True)]

    def _choose(self, windows: Windows, z: float) -> None:
        """Choose rates for the steady state, scaled to the rows now held so that the time is used up."""
        self.keep, self.work_fraction = np.ones(len(self.keep)), 1.0
        if self._plan is None or (z >= 1.0 and self._steady > 0.99):
            return
        model = self.model(windows)
        held = rows_held(windows)
        full = max(model.full[0], 1e-9)
        steady = self._rates(model)
        # Windows that still hold more rows than these rates would leave in them cost more, and fewer less.
        share = model.full_with(model.rates * steady, held)[0] / full
        self.keep = np.minimum(1.0, steady * z / max(share, 1e-9))
        self.work_fraction = model.full_with(model.rates * self.keep, held)[0] / full

    def _rates(self, model: HarvestModel) -> Array:
        """Rates that lose the fewest results; renewed when the throttle moves or every 64 sub-batches."""
        steady = min(1.0, max(self._steady, 1e-4))
        known = self._chosen
        if known is None or abs(steady / known[0] - 1) > 0.05 or self.statistics.sub_batches - known[1] >= 64:
            known = (steady, self.statistics.sub_batches, np.array(drop_rates(model, steady).keep))
            self._chosen = known
        return known[2]

    def arrived(self, windows: Windows, stream: int, start: int) -> None:
        """Store the probability of the rows appended from position `start` on."""
        window = windows[stream]
        window.column(PROBABILITY)[start : window.end] = self.keep[stream]

    def probe(self, windows: Windows, probe: Probe, start: int) -> Iterator[PartialMatches]:
        counts = np.zeros(len(probe.direction.steps) + 1)
        for partials in probe.run(start, counts):
            self._count(windows, partials)
            yield partials
        self.statistics.learn(probe, counts, rows_held(windows))

    def max_useful_ages(self) -> list[int] | None:
        """None: admitted rows stay until they expire."""
        return None

    def quality(self, known: Quality, dropped: bool, conserved: bool) -> Quality:
        return thinned(known, self.results, 0.0, dropped)

    # -- inside -------------------------------------------------------------------------------------

    def _count(self, windows: Windows, partials: PartialMatches) -> None:
        probabilities = {s: windows[s].column(PROBABILITY)[rows] for s, rows in partials.rows.items()}
        each = 1 / np.prod(list(probabilities.values()), axis=0)
        variance = 0.0
        for stream, rows in partials.rows.items():
            mine, first, at = np.unique(rows, return_index=True, return_inverse=True)
            column = windows[stream].column(RESULT_WEIGHT)
            before = column[mine]
            column[mine] = after = before + np.bincount(at, each, len(mine))
            # The results of a row come one by one: its term (1 - p) y^2 grows by the difference.
            variance += float(((1 - probabilities[stream][first]) * (after**2 - before**2)).sum())
        self.results.add_sum(len(partials), float(each.sum()), variance)

    def model(self, windows: Windows) -> HarvestModel:
        """Model of the streams as they arrive, before dropping."""
        sizes = [(w.span or SECOND) / SECOND for w in windows]
        rows = [
            rate * size if window.span is not None else float(len(window))
            for rate, size, window in zip(self.statistics.rates, sizes, windows, strict=True)
        ]
        assert self._plan is not None
        return self.statistics.model(self._plan, BasicWindows.equal(sizes, 1), None, np.array(rows))
