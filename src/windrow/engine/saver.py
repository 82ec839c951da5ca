"""What saves time under a deadline: dropping keys, looking at parts of windows, building fewer results; or
dropping rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from windrow.engine.dropper import Dropper
from windrow.engine.flows import Flows
from windrow.engine.harvester import Harvester
from windrow.engine.partials import Partials
from windrow.engine.probe import Probe
from windrow.engine.timekeeper import TimeKeeper
from windrow.model.harvest import Harvest
from windrow.model.query import Query
from windrow.model.time_policies import Harvesting
from windrow.planning.costs import Timed
from windrow.planning.harvest_model import HarvestModel
from windrow.shed.view import Notes

if TYPE_CHECKING:
    from windrow.engine.join import Arrivals, Join


class Saver(Protocol):
    """Called by the operator before the rows left of a call, and by the join in the order: begin, then for
    each stream arrived, probe and affordable; then by the operator after each sub-batch."""

    flows: Flows
    harvest: Harvest | None
    notes: Notes
    """Columns it keeps with each row."""

    @property
    def share(self) -> float:
        """The part of the full work that is done at present, as far as the model tells."""

    def plan(
        self, join: Join, arrivals: Sequence[Arrivals], keeper: TimeKeeper
    ) -> Sequence[np.ndarray | None] | None:
        """Decides what is given up for these rows in the time left; returns masks of the rows that are
        admitted, None for all."""

    @property
    def tight(self) -> bool:
        """Whether the call may be late, so that it is cut as fine as pays."""

    def behind(self, keeper: TimeKeeper) -> bool:
        """Whether there is no longer time to probe for the rows left as it was planned."""

    def begin(self, join: Join, arrived: Sequence[int], now: int, z: float) -> Sequence[np.ndarray] | None:
        """A quantum begins, of so many rows per stream, up to this event time, with time for a part z of the
        work; returns masks of the rows that are let in, None for all."""

    def arrived(self, join: Join, stream: int, start: int) -> None:
        """Rows from position `start` on were appended."""

    def probe(self, join: Join, probe: Probe, start: int) -> Iterator[Partials]:
        """Results of the rows from position `start` on."""

    def affordable(self, join: Join, partials: Partials, keeper: TimeKeeper) -> Partials:
        """The results there is time to build, of these."""

    def learn(self, join: Join, timed: Timed) -> None:
        """From a sub-batch that was timed."""

    def end(self, rows: int, keeper: TimeKeeper, skipped: int) -> None:
        """A call with so many rows, admitted or not, is over, with so many results not built."""

    def worth_keeping(self) -> list[int] | None:
        """Per stream the greatest age in microseconds at which rows are looked at; None if all are."""

    def model(self, join: Join) -> HarvestModel:
        """Of work and results, from all that was learned."""

    def save(self) -> dict[str, Any]: ...

    def load(self, saved: dict[str, Any], join: Join) -> None: ...


def make_saver(query: Query) -> Saver | None:
    """As the query says; None without a deadline."""
    if query.time_limit is None:
        return None
    policy = query.time_policy
    return Harvester(policy, query) if isinstance(policy, Harvesting) else Dropper(query)
