"""The running form of a memory policy: it assigns priorities, and the evictor removes the lowest.

In each sub-batch the evictor calls, for each stream in turn, `on_arrival` for the new rows and `on_results`
for the results they complete; then `end_sub_batch` once and, if the limit is exceeded, `priorities` for each
stream. Priorities of different streams are compared with each other unless the memory is divided beforehand,
so the natural priority is the value of keeping the row, in results per second.

All that a ranking learns is part of the operator's state and is listed in `saved`. Randomness comes from the
view's generator, so a replay gives the same results.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windrow.eviction.forecast import StreamModel
from windrow.eviction.policies.row_importance import RowImportance, apart
from windrow.eviction.window_view import ProbeResults, RowState, WindowView
from windrow.memory_models.age_curve import AgeCurve
from windrow.model.metrics import Quality
from windrow.model.stateful import Stateful

Array = np.ndarray


@dataclass(frozen=True)
class Selection:
    """Which results are returned, where a policy samples them."""

    chosen: Array
    """Mask over the results."""
    weight: Array
    """Inverse of the probability of each chosen result."""
    cluster: Array
    """Cluster of each chosen result: results that were sampled together share a number; -1 for none."""


@dataclass(frozen=True)
class MemoryBudget:
    """The limit and the memory of a row of each stream, both in rows or both in bytes."""

    size: float
    costs: Sequence[float]


class Ranking(Stateful, ABC):
    importance: RowImportance | None = None
    """The importance of rows and results, if the ranking uses one. The evictor shows it everything first."""
    row_state: RowState = ()
    """Columns it stores with each row; initially 0."""
    uses_results: bool = False
    """Whether `on_results` is called."""
    can_skip_sub_batches: bool = False
    """Whether it need not see sub-batches that are not learned from, because it keeps nothing for every
    row."""
    priority_per_byte: bool = False
    """Whether priorities are values of rows, to be divided by their size."""
    adapts_to_losses: bool | None = None
    """Whether it learns from the results found, so that a row whose partners were evicted ranks lower; None
    if it has no model of match rates."""
    samples: bool = False
    """Whether results are a weighted sample."""

    def on_arrival(self, view: WindowView) -> None:
        """Rows from `view.first_new` on are new."""
        return None

    def on_results(self, found: ProbeResults) -> None:
        """Learns from the results of a probe."""
        return None

    def select(self, found: ProbeResults) -> Selection | None:
        """Which of these results to return; None: all."""
        return None

    def end_sub_batch(self, views: Sequence[WindowView], budget: MemoryBudget) -> None:
        """All probes of a sub-batch are done."""
        return None

    def exhausted(self, view: WindowView) -> Array | None:
        """Mask of exhausted rows, evicted at the end of the sub-batch. None means there are none."""
        return None

    @abstractmethod
    def priorities(self, view: WindowView) -> Array:
        """A priority for each row of the view; the lowest are evicted first."""

    def stream_models(self, views: Sequence[WindowView], budget: MemoryBudget) -> list[StreamModel] | None:
        """The learned model of each stream, for forecasts; None if the policy has none."""
        return None

    def scores(self, view: WindowView, rows: Array) -> Array:
        """Scores of these rows, which determine their group in `StreamModel`."""
        return np.zeros(len(rows))

    def age_curves(self) -> Sequence[AgeCurve]:
        """The age curve of each stream, if the policy uses them. Does not change the models."""
        return ()

    def on_evict(self, views: Sequence[WindowView], gone: Sequence[Array]) -> None:
        """These rows (a mask per stream) are about to be evicted; rows that stay may represent them."""
        return None

    def add_quality(self, known: Quality) -> Quality:
        """Adds the policy's own estimates of the quality."""
        return known

    @classmethod
    def migrated(cls, version: int, values: dict[str, Any]) -> dict[str, Any] | None:
        return apart(values) if version == 1 else None

    def restore(self, values: dict[str, Any]) -> None:
        if isinstance(before := values.get("importance"), dict):
            del values["importance"]
            if self.importance is not None:
                self.importance.restore(before)
        super().restore(values)
