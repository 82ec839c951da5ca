"""What saves time under a deadline: dropping keys, probing parts of windows, building fewer results; or
dropping rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from windrow.engine.limits.admission_units import Units
from windrow.engine.limits.call_planner import CallPlanner
from windrow.engine.limits.dropper import Dropper
from windrow.engine.limits.harvester import Harvester
from windrow.engine.limits.probe_statistics import ProbeStatistics
from windrow.engine.partial_matches import PartialMatches
from windrow.engine.probe import Probe
from windrow.eviction.window_view import RowState
from windrow.harvest.model import HarvestModel
from windrow.model.harvest import Harvest
from windrow.model.policies.time_policies import Harvesting
from windrow.model.query import Query

if TYPE_CHECKING:
    from windrow.engine.join import Join


class LoadShedder(Protocol):
    """Called by the join in the order: begin, then for each stream arrived and probe."""

    calls: CallPlanner | None
    """Plans whole calls; None where each sub-batch decides anew."""
    statistics: ProbeStatistics
    harvest: Harvest | None
    row_state: RowState
    """Columns it keeps with each row."""

    @property
    def work_fraction(self) -> float:
        """The part of the full work that is done at present, as far as the model tells."""

    def begin(self, join: Join, arrived: Sequence[int], now: int, z: float) -> Sequence[np.ndarray] | None:
        """A sub-batch begins, of so many rows per stream, up to this event time, with time for a part z of
        the work; returns masks of the rows that are let in, None for all."""

    def arrived(self, join: Join, stream: int, start: int) -> None:
        """Rows from position `start` on were appended."""

    def probe(self, join: Join, probe: Probe, start: int) -> Iterator[PartialMatches]:
        """Results of the rows from position `start` on."""

    def max_useful_ages(self) -> list[int] | None:
        """Per stream the greatest age in microseconds at which rows are looked at; None if all are."""

    def model(self, join: Join) -> HarvestModel:
        """Of work and results, from all that was learned."""


def make_load_shedder(query: Query, units: Units) -> LoadShedder | None:
    """As the query says; None without a deadline. `units` are what rows are admitted by."""
    if query.time_limit is None:
        return None
    policy = query.time_policy
    return Harvester(policy, query, units) if isinstance(policy, Harvesting) else Dropper(query)
