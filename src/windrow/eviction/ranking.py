"""The running form of a memory policy: it assigns priorities, and the evictor removes the lowest.

Each sub-batch the engine calls, for each stream in turn, `arrive` for the new rows and `found` for the
results they completed; then `settle` once, and, if the limit is exceeded, `rank` for each stream. Ranks of
different streams are compared with each other unless the memory is divided beforehand: the natural rank is
the value of keeping the row, in results per second and row.

Whatever a ranking learns is part of the operator's state and is listed in `saved`. Chance comes
from the generator that is passed in, so that a replay does the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windrow.errors import QueryError
from windrow.eviction.forecast import StreamModel
from windrow.eviction.window_view import ProbeResults, RowState, WindowView
from windrow.memory_models.age_curve import AgeCurve
from windrow.model.metrics import Quality
from windrow.model.stateful import Stateful

Array = np.ndarray


@dataclass(frozen=True)
class Selection:
    """Which results are given out, where a policy samples them."""

    chosen: Array
    """Mask over the results."""
    weight: Array
    """Of each chosen result: the inverse of the chance it had."""
    cluster: Array
    """Of each chosen result: a number shared by results that were sampled together; -1 for none."""


@dataclass(frozen=True)
class MemoryBudget:
    """How much there is: the limit, and what a row of each stream takes of it (in rows or bytes alike)."""

    size: float
    costs: Sequence[float]


class Ranking(Stateful, ABC):
    row_state: RowState = ()
    """The columns it keeps with each row, which are 0 to begin with."""
    uses_results: bool = False
    """Whether it wants to be told of results."""
    can_skip_sub_batches: bool = False
    """Whether it keeps nothing with single rows that it must learn from every one of them, and so may miss
    sub-batches without a lesson."""
    priority_per_byte: bool = False
    """Whether ranks are values of rows, so that larger rows must be worth more to stay."""
    adapts_to_losses: bool | None = None
    """Whether it learns from results that are found, so that a row whose partners are gone ranks lower; None
    if it has no model of what rows find."""
    samples: bool = False
    """Whether results come as a sample, with weights."""

    def on_arrival(self, view: WindowView, rng: np.random.Generator) -> None:
        """Rows from `view.fresh` on are new."""
        return None

    def on_results(self, views: Sequence[WindowView], found: ProbeResults) -> Array | None:
        """Results of a probe; returns what each is worth, None if all are worth the same."""
        return None

    def select(
        self, views: Sequence[WindowView], found: ProbeResults, rng: np.random.Generator
    ) -> Selection | None:
        """Which of these results to give out; None: all."""
        return None

    def end_sub_batch(self, views: Sequence[WindowView], room: MemoryBudget) -> None:
        """A sub-batch has been evaluated."""
        return None

    def exhausted(self, view: WindowView) -> Array | None:
        """Mask of the rows that are of no more use, at the end of a sub-batch: they go at once. None:
        none."""
        return None

    @abstractmethod
    def priorities(self, view: WindowView, rng: np.random.Generator) -> Array:
        """A rank for each row of the view; the lowest go first."""

    def change_importance(self, at: int, by: object) -> None:
        """Judges importance by another function from event time `at` on."""
        raise QueryError(
            "control: importance is for the policies 'importance', 'greedy' and 'auto'; this query's policy "
            "does not know any"
        )

    def stream_models(self, views: Sequence[WindowView], room: MemoryBudget) -> list[StreamModel] | None:
        """What was learned of each stream, for forecasts; None if the policy has no model of it."""
        return None

    def scores(self, view: WindowView, rows: Array) -> Array:
        """What tells in which of the `known` groups these rows are."""
        return np.zeros(len(rows))

    def age_curves(self) -> Sequence[AgeCurve]:
        """The age curve of each stream, as far as it is known and the policy goes by it; none else. To be
        looked at: a call leaves what was learned as it is."""
        return ()

    def on_evict(self, views: Sequence[WindowView], gone: Sequence[Array]) -> None:
        """These rows (a mask per stream) are about to go: those that stay may have to stand for them."""
        return None

    def add_quality(self, known: Quality) -> Quality:
        """Adds what the policy knows of the answer's quality."""
        return known
