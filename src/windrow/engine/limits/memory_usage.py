"""Memory used by the windows of a join, in the unit of its limit: rows or bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windrow.eviction.ranking import MemoryBudget
from windrow.model.limits import MemoryLimit
from windrow.window.window_store import WindowStore


@dataclass(frozen=True)
class MemoryUsage:
    windows: Sequence[WindowStore]
    limit: MemoryLimit
    groups: Sequence[tuple[Sequence[int], float]]
    """Streams that share memory, and the fraction of the limit they share."""

    @property
    def sizes(self) -> list[float]:
        """Size of each window in the limit's unit."""
        if self.limit.kind == "rows":
            return [float(len(window)) for window in self.windows]
        return [float(window.nbytes_shrunk) for window in self.windows]

    @property
    def costs(self) -> list[float]:
        """Memory per row of each stream."""
        return [size / max(len(w), 1) for size, w in zip(self.sizes, self.windows, strict=True)]

    @property
    def budget(self) -> MemoryBudget:
        """What a ranking may use."""
        return MemoryBudget(float(self.limit.size), self.costs)

    @property
    def freed_by_a_row(self) -> list[float]:
        """Memory freed by evicting one row of each stream."""
        if self.limit.kind == "rows":
            return [1.0] * len(self.windows)
        return [window.nbytes_of_rows / max(len(window), 1) for window in self.windows]

    @property
    def excess(self) -> list[float]:
        """Amount by which each group exceeds its memory."""
        return [size - limit for size, limit in self._limited]

    @property
    def filled(self) -> list[float]:
        """Fraction of its memory that each group uses."""
        return [size / max(limit, 1e-9) for size, limit in self._limited]

    @property
    def _limited(self) -> list[tuple[float, float]]:
        sizes = self.sizes
        return [(sum(sizes[s] for s in streams), self.limit.size * part) for streams, part in self.groups]
