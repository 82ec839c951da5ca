"""Rows that wait for results, and when a query may have what is found (Shared, s. 3.1 to 3.3).

Pending rows pass the tiers in turn, in arrival order on each. A query's results must come in the order of
their newest rows, so there are two moments at which an output may have them:

- once the pending rows themselves have passed its tier (SWF), or
- as they are found, once all earlier rows have passed its tier (LWO, Greedy). Several rows that are searched
  together find the results of their first and last row in the same slice, so this is for a single row.

Either way an output gets each result once, and the same results in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from windrow.engine.shared.results import ResultBatch, joined, ordered
from windrow.model.stateful import Stateful

Array = np.ndarray


@dataclass(eq=False)
class DeferredSubBatch(Stateful):
    """Rows that were stored together."""

    start: list[int]
    end: list[int]
    """Row numbers per stream, as `WindowStore.number` returns them."""
    oldest: int
    first: int | None = None
    """First place of its rows in the order of all streams, in a join with row windows."""
    done: int = 0
    """Number of tiers it has passed."""

    @property
    def rows(self) -> int:
        return sum(self.end) - sum(self.start)

    def moved(self, by: Sequence[int]) -> DeferredSubBatch:
        """With other row numbers, in another process."""
        start, end = ([n + m for n, m in zip(own, by, strict=True)] for own in (self.start, self.end))
        return replace(self, start=start, end=end)


@dataclass(frozen=True)
class Delivery:
    """Results for the outputs `first` to before `end`."""

    batch: ResultBatch
    first: int
    end: int
    released: Array | None = None
    """When each result was found, on the operator's clock, if it is released as it is found; None: now."""


@dataclass(eq=False)
class PendingRows(Stateful):
    """Rows whose results are released together: those of a call, or of a sub-batch."""

    formerly = (("fresh", "new"),)
    arrived: float
    early: bool = False
    """Whether results are released as they are found, once all earlier rows have passed."""
    sub_batches: list[DeferredSubBatch] = field(default_factory=list)
    results: list[ResultBatch] = field(default_factory=list)
    """Results that not all outputs have received."""
    delivered: int = 0
    """Number of outputs that have received all results found so far, save the new ones."""
    new: int = 0
    """Number of the last pieces that no output has received."""
    arrivals: dict[int, list[tuple[Array, Array | None]]] = field(default_factory=dict)
    """Per stream with a row window: `seq` and keys of all rows, stored or not, in order."""

    @property
    def done(self) -> int:
        """Number of tiers that all its sub-batches have passed."""
        return min(q.done for q in self.sub_batches)

    @property
    def rows(self) -> int:
        return sum(q.rows for q in self.sub_batches)

    @property
    def held(self) -> int:
        """Results held back from some output."""
        return sum(map(len, self.results))

    def moved(self, by: Sequence[int], now: float) -> PendingRows:
        """Without results, with other row numbers, and the age in place of the time of arrival or the other
        way around: as it is stored, and again in another process."""
        sub_batches = [sub_batch.moved(by) for sub_batch in self.sub_batches]
        return replace(self, arrived=now - self.arrived, sub_batches=sub_batches, results=[])

    def release(self, ahead: int, outputs: int, unit: tuple[float, float] | None = None) -> list[Delivery]:
        """Results that outputs may have now.

        `ahead` is the number of tiers that the rows before these have passed, `unit` the begin and end of
        the unit of work that found the new results.
        """
        due = self.early_deliveries(unit) if self.early and self.new else []
        reach = ahead if self.early else self.done
        if reach > self.delivered and self.results:
            self.results = ordered(self.results)
            if len(self.results) > 1 and reach < outputs:
                self.results = [joined(self.results)]
            due += [Delivery(piece, self.delivered, reach) for piece in self.results]
        self.delivered, self.new = max(reach, self.delivered), 0
        if self.delivered == outputs:
            self.results = []
        return due

    def early_deliveries(self, unit: tuple[float, float] | None) -> list[Delivery]:
        """The new results, for outputs that were waiting only for them."""
        found = []
        for piece in self.results[-self.new :]:
            released = None
            if unit is not None:
                # A row's results are found one after the other, so they share its time evenly.
                began, ended = unit
                released = began + (ended - began) * np.arange(1, len(piece) + 1) / len(piece)
            found.append(Delivery(piece, 0, self.delivered, released))
        return found
