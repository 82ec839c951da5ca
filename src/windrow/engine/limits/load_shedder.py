"""Load shedding under a deadline: dropping keys or rows, probing parts of windows, building fewer results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from windrow.engine.limits.admission_units import Units
from windrow.engine.limits.call_planner import CallPlanner
from windrow.engine.limits.dropper import Dropper
from windrow.engine.limits.harvester import Harvester, ResultWeights
from windrow.engine.limits.probe_statistics import ProbeStatistics
from windrow.engine.partial_matches import PartialMatches
from windrow.engine.probe import Probe
from windrow.eviction.window_view import RowState
from windrow.harvest.model import HarvestModel
from windrow.model.harvest import Harvest
from windrow.model.metrics import Quality
from windrow.model.plan import Plan
from windrow.model.policies.time_policies import Harvesting
from windrow.model.query import Query

if TYPE_CHECKING:
    from windrow.engine.windows import Windows


class LoadShedder(Protocol):
    """Called by the join in this order: `begin`, then `arrived` and `probe` for each stream."""

    calls: CallPlanner | None
    """Plans whole calls; None if each sub-batch decides."""
    statistics: ProbeStatistics
    harvest: Harvest | None
    row_state: RowState
    """Columns it stores per row."""

    @property
    def work_fraction(self) -> float:
        """Fraction of the full work done at present, by the model."""

    def follow(self, plan: Plan) -> None:
        """The join follows another plan from now on."""

    def begin(
        self, windows: Windows, arrived: Sequence[int], now: int, z: float
    ) -> Sequence[np.ndarray] | None:
        """Begin a sub-batch with `arrived` rows per stream up to event time `now`, at throttle fraction z;
        return the positions of admitted rows, None for all."""

    def arrived(self, windows: Windows, stream: int, start: int) -> None:
        """Rows from position `start` on were appended."""

    def probe(self, windows: Windows, probe: Probe, start: int) -> Iterator[PartialMatches]:
        """Results of the rows from position `start` on."""

    def max_useful_ages(self) -> list[int] | None:
        """Per stream, the greatest age in microseconds that is probed; None if all ages are."""

    def quality(self, known: Quality, dropped: bool, conserved: bool) -> Quality:
        """`known`, less what is missed for lack of time. `dropped` and `conserved` say whether any row was
        dropped, or evicted because no harvest probes it."""

    def model(self, windows: Windows) -> HarvestModel:
        """Cost and output model from everything learned."""


def make_load_shedder(query: Query, units: Units, result_weights: ResultWeights | None) -> LoadShedder | None:
    """Load shedder of the query's time policy; None without a deadline. Rows are admitted by `units`."""
    if query.time_limit is None:
        return None
    policy = query.time_policy
    if isinstance(policy, Harvesting):
        return Harvester(policy, query, units, result_weights)
    return Dropper(query)
