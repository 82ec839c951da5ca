"""What saves time under a deadline: dropping keys, looking at parts of windows, building fewer results; or
dropping rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from windrow.engine.limits.deadline_controller import DeadlineController
from windrow.engine.limits.dropper import Dropper
from windrow.engine.limits.harvester import Harvester
from windrow.engine.limits.probe_statistics import ProbeStatistics
from windrow.engine.partial_matches import PartialMatches
from windrow.engine.probe import Probe
from windrow.eviction.window_view import RowState
from windrow.harvest.call_costs import Timed
from windrow.harvest.model import HarvestModel
from windrow.model.harvest import Harvest
from windrow.model.policies.time_policies import Harvesting
from windrow.model.query import Query

if TYPE_CHECKING:
    from windrow.engine.join import Join
    from windrow.engine.rows import ArrivingRows


class LoadShedder(Protocol):
    """Called by the operator before the rows left of a call, and by the join in the order: begin, then for
    each stream arrived, probe and affordable; then by the operator after each sub-batch."""

    statistics: ProbeStatistics
    harvest: Harvest | None
    row_state: RowState
    """Columns it keeps with each row."""

    @property
    def work_fraction(self) -> float:
        """The part of the full work that is done at present, as far as the model tells."""

    def plan(
        self, join: Join, arrivals: Sequence[ArrivingRows], controller: DeadlineController
    ) -> Sequence[np.ndarray | None] | None:
        """Decides what is given up for these rows in the time left; returns masks of the rows that are
        admitted, None for all."""

    @property
    def tight(self) -> bool:
        """Whether the call may be late, so that it is cut as fine as pays."""

    def correct(self, join: Join, controller: DeadlineController) -> None:
        """Between sub-batches of a call: does less for the rows left if it is behind."""

    def begin(self, join: Join, arrived: Sequence[int], now: int, z: float) -> Sequence[np.ndarray] | None:
        """A sub-batch begins, of so many rows per stream, up to this event time, with time for a part z of
        the work; returns masks of the rows that are let in, None for all."""

    def arrived(self, join: Join, stream: int, start: int) -> None:
        """Rows from position `start` on were appended."""

    def probe(self, join: Join, probe: Probe, start: int) -> Iterator[PartialMatches]:
        """Results of the rows from position `start` on."""

    def affordable(
        self, join: Join, partials: PartialMatches, controller: DeadlineController
    ) -> PartialMatches:
        """The results there is time to build, of these."""

    def learn(self, join: Join, timed: Timed) -> None:
        """From a sub-batch that was timed."""

    def end(self, rows: int, controller: DeadlineController, skipped: int) -> None:
        """A call with so many rows, admitted or not, is over, with so many results not built."""

    def max_useful_ages(self) -> list[int] | None:
        """Per stream the greatest age in microseconds at which rows are looked at; None if all are."""

    def model(self, join: Join) -> HarvestModel:
        """Of work and results, from all that was learned."""

    def resume(self, join: Join) -> None:
        """Its state has been restored, and the windows have been filled."""


def make_load_shedder(query: Query) -> LoadShedder | None:
    """As the query says; None without a deadline."""
    if query.time_limit is None:
        return None
    policy = query.time_policy
    return Harvester(policy, query) if isinstance(policy, Harvesting) else Dropper(query)
