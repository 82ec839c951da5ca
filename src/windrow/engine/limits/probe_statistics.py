"""Arrival rates and selectivities, learned from the probes of a join under a deadline.

They decay with a half-life of `half_life` times the longest window. The length of a row window is the time
its rows cover.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from windrow.eviction.rates import ArrivalRates, DecayedTime
from windrow.harvest.model import CostFactors, HarvestModel
from windrow.harvest.selectivity import Selectivities, by_hop
from windrow.model.harvest import BasicWindows
from windrow.model.stateful import Stateful

if TYPE_CHECKING:
    from windrow.engine.probe import Probe
    from windrow.engine.windows import Windows
    from windrow.model.plan import Plan
    from windrow.window.window_store import WindowStore

Array = np.ndarray
SECOND = 1_000_000
CHARGES = CostFactors(lookup=0.1)
"""Our indexes are entered once for adjacent basic windows, and probes visit them in order."""


class ProbeStatistics(Stateful):
    version = 2
    formerly = (("_fade", "_pending_decay"),)
    saved = ("sub_batches", "_known", "_pending_decay", "_arrivals", "_now")
    clocks = ("_now",)

    def __init__(self, streams: int, half_life: float = 1.0) -> None:
        self.sub_batches = 0
        self._known = Selectivities.unknown(streams)
        self._pending_decay = 1.0
        """Decay of `_known`, applied on the next read."""
        self._half_life = half_life
        self._arrivals = ArrivalRates(streams, steps=True)
        self._now: int | None = None

    @classmethod
    def migrated(cls, version: int, values: dict[str, Any]) -> dict[str, Any]:
        rows, time = values["_arrivals"].tolist(), DecayedTime(steps=True)
        time.seconds = values.pop("_seconds")
        arrivals = ArrivalRates(len(rows), steps=True)
        arrivals.restore({"_rows": rows, "_time": time})
        return values | {"_arrivals": arrivals}

    @property
    def selectivities(self) -> Selectivities:
        """Recent selectivities."""
        if self._pending_decay < 1:
            self._known, self._pending_decay = self._known.decayed(self._pending_decay), 1.0
        return self._known

    @property
    def rates(self) -> Array:
        """Recent rows per second of event time."""
        return np.maximum(self._arrivals.rates(1e-6), 1e-9)

    def begin(self, windows: Windows, arrived: Sequence[int], now: int) -> float:
        """Begin a sub-batch with `arrived` rows per stream; return the decay since the last one."""
        self.sub_batches += 1
        seconds = 0.0 if self._now is None else max(0, now - self._now) / SECOND
        longest = max(w.covers for w in windows) / SECOND
        decay = self._count(arrived, seconds, longest * self._half_life)
        self._pending_decay *= decay
        self._now = now if self._now is None else max(now, self._now)
        return decay

    def skip(self, arrived: Sequence[int]) -> None:
        """Count the rows of sub-batches that nothing else is learned from."""
        self._count(arrived)

    def _count(self, arrived: Sequence[int], seconds: float = 0.0, half_life: float = 1.0) -> float:
        for stream, rows in enumerate(arrived):
            self._arrivals.add(stream, rows)
        return self._arrivals.advance(seconds, half_life)

    def learn(self, probe: Probe, flow: Array, rows: Array, first: float = 1.0, weight: float = 1.0) -> None:
        """Learn from the partial matches that entered each step of a probe and left the last.

        Parameters
        ----------
        rows
            Number of rows in each window.
        first
            Fraction of the first window that was probed.
        weight
            Number of rows that each row represents.
        """
        arriving = probe.direction.arriving
        found, tried = np.zeros((2, len(rows), len(rows)))
        for level, step in enumerate(probe.direction.steps):
            looked = rows[step.stream] * (first if level == 0 else 1.0)
            found[arriving, step.stream] = flow[level + 1]
            tried[arriving, step.stream] = flow[level] * looked
        self._known = self.selectivities.add(found * weight, tried * weight)

    def model(self, plan: Plan, windows: BasicWindows, scores: Array | None, rows: Array) -> HarvestModel:
        """Cost and output model; scores by direction, hop and basic window, None if all are equal."""
        orders = orders_of(plan)
        paths = tuple(tuple(step.access.path for step in d.steps) for d in plan.directions)
        m = len(orders)
        return HarvestModel(
            windows=windows,
            rates=self.rates,
            rows=rows,
            orders=orders,
            selectivities=by_hop(self.selectivities.matrix, orders),
            scores=np.ones((m, m - 1, max(windows.counts))) if scores is None else scores,
            access=paths,
            charges=CHARGES,
        )


def rows_held(windows: Sequence[WindowStore]) -> Array:
    """Number of rows in each window."""
    return np.array([float(len(w)) for w in windows])


def orders_of(plan: Plan) -> tuple[tuple[int, ...], ...]:
    """For each arriving stream, the windows it probes in order."""
    return tuple(tuple(step.stream for step in d.steps) for d in plan.directions)
